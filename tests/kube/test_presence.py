"""Presence on the real API server: who is there, who lapsed, and that nobody acts while others take them for gone."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from federation_quota.kube import lease, presence
from federation_quota.kube.client import Client
from federation_quota.kube.config import Connection
from federation_quota.kube.lease import LEASES, Lease
from federation_quota.kube.presence import Presence, Timing
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.roster import Roster
from localfed.faultproxy import FaultProxy
from tests.kube.eventually import eventually
from tests.kube.leases import renewed

pytestmark = pytest.mark.federation

LABELS = {"app": "webhook"}
SELECTOR = "app=webhook"
TIMING = Timing(lease_seconds=10, renew_seconds=0.1, attempt_seconds=30, caution_seconds=2)


class Clock:
    """The time of replicas and rosters: it goes on when a test says so, however long an answer takes."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextlib.asynccontextmanager
async def running(subject: Presence) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(subject.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def watching(client: Client, namespace: str, clock: Clock) -> AsyncIterator[Roster]:
    roster = Roster(clock)
    reflector: Reflector[Lease] = Reflector(
        client, LEASES, decode=lease.decode, sink=roster, namespace=namespace, label_selector=SELECTOR
    )
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    try:
        yield roster
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def replica(client: Client, namespace: str, clock: Clock, **options: object) -> Presence:
    settings: dict[str, object] = {"prefix": "webhook", "labels": LABELS, "timing": TIMING, "clock": clock, **options}
    return Presence(client, namespace, **settings)  # type: ignore[arg-type]


async def renews(client: Client, namespace: str, subject: Presence) -> None:
    """Wait until a renewal that was sent after this was called is stored, and its sender knows."""
    await renewed(client, namespace, subject.name, times=3)  # one may have been under way, and one has to follow


async def test_replicas_are_seen_while_they_are_there_and_remembered_when_they_go(
    client: Client, namespace: str, clock: Clock
) -> None:
    a, b = replica(client, namespace, clock), replica(client, namespace, clock, legacy=lambda: "what b leaves")
    async with watching(client, namespace, clock) as roster, running(a):
        await eventually(a.is_current, "a is current")
        async with running(b):
            await eventually(lambda: roster.live() == {a.incarnation, b.incarnation}, "both are seen")
            assert roster.legacies() == {}
            for _ in range(3):  # longer than the lease: it is renewed
                clock.now += TIMING.lease_seconds / 2
                await asyncio.gather(renews(client, namespace, a), renews(client, namespace, b))
            await presence.take_roll(client, namespace, SELECTOR, roster)
            assert roster.live() == {a.incarnation, b.incarnation}
        gone = b.incarnation
        assert not b.is_current()
        await eventually(lambda: roster.live() == {a.incarnation}, "b has left in good order")
        assert gone in roster.unsettled(60)

        # Somebody who comes later learns of b all the same: its Lease is still there.
        late = Roster(clock)
        await presence.take_roll(client, namespace, SELECTOR, late)
        assert gone in late.unsettled(60)
        assert gone not in late.live()
        assert late.legacies() == {gone: "what b leaves"}


async def test_a_replica_that_dies_is_taken_for_gone_only_after_its_lease(
    client: Client, namespace: str, clock: Clock
) -> None:
    # Its process dies: nothing more comes, and nothing says so.
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 2, "renewTime": lease.moment()}
    manifest = lease.manifest("webhook-dead", spec, labels=LABELS)
    await client.create(LEASES, manifest, namespace)
    roster = Roster(clock)
    await presence.take_roll(client, namespace, SELECTOR, roster)
    clock.now += 1.9
    await presence.take_roll(client, namespace, SELECTOR, roster)
    assert "dead" in roster.live()
    clock.now += 0.2
    assert "dead" in roster.live(), "nobody has looked since"
    await presence.take_roll(client, namespace, SELECTOR, roster)
    assert "dead" not in roster.live()
    gone = roster.gone_seconds("dead")
    assert gone is not None
    assert gone < 1

    assert await presence.sweep(client, namespace, roster, gone_seconds=60) == 0
    assert await presence.sweep(client, namespace, roster, gone_seconds=0) == 1
    pages = [page async for page in client.list(LEASES, namespace)]
    assert not pages[0].items
    assert roster.unsettled(60) == {"dead"}  # swept or not


async def test_who_cannot_renew_stops_before_others_take_it_for_gone_and_returns_as_another(
    connection: Connection, client: Client, namespace: str, clock: Clock
) -> None:
    prepared: list[str] = []

    async def prepare(incarnation: str) -> None:
        prepared.append(incarnation)

    roster = Roster(clock)
    async with (
        FaultProxy(urlsplit(connection.server).port or 443) as proxy,
        Client(dataclasses.replace(connection, server=proxy.url)) as own,
    ):
        subject = replica(own, namespace, clock, prepare=prepare)
        async with running(subject):
            await eventually(subject.is_current, "it is current")
            before = subject.incarnation
            await presence.take_roll(client, namespace, SELECTOR, roster)
            proxy.hold()
            stopped_at = gone_at = 0.0
            while not gone_at:
                clock.now += 0.25
                await presence.take_roll(client, namespace, SELECTOR, roster)
                if not subject.is_current():
                    stopped_at = stopped_at or clock.now
                if before not in roster.live():
                    gone_at = clock.now
            assert 0 < stopped_at < gone_at, "it could act although it could be taken for gone"
            proxy.cut()
            proxy.heal()
            await eventually(lambda: subject.is_current() and subject.incarnation != before, "it returns as another")
            assert prepared == [before, subject.incarnation]
            await presence.take_roll(client, namespace, SELECTOR, roster)
            assert subject.incarnation in roster.live()
            assert before in roster.unsettled(60)


async def test_a_short_outage_costs_neither_incarnation_nor_currency(
    connection: Connection, client: Client, namespace: str, clock: Clock
) -> None:
    async with (
        FaultProxy(urlsplit(connection.server).port or 443) as proxy,
        Client(dataclasses.replace(connection, server=proxy.url)) as own,
    ):
        subject = replica(own, namespace, clock)
        async with running(subject):
            await eventually(subject.is_current, "it is current")
            before = subject.incarnation
            for _ in range(3):
                proxy.hold()
                clock.now += TIMING.lease_seconds - TIMING.caution_seconds - 1
                assert subject.is_current()
                proxy.cut()
                proxy.heal()
                await renews(client, namespace, subject)
            assert subject.incarnation == before
            assert subject.is_current()


async def test_nobody_acts_before_being_prepared_and_preparing_may_take_longer_than_the_lease(
    client: Client, namespace: str, clock: Clock
) -> None:
    ready = asyncio.Event()

    async def prepare(incarnation: str) -> None:
        await ready.wait()

    subject = replica(client, namespace, clock, prepare=prepare)
    roster = Roster(clock)
    async with running(subject):
        await eventually(lambda: subject.incarnation, "it begins")
        for _ in range(3):
            await presence.take_roll(client, namespace, SELECTOR, roster)
            assert not subject.is_current()
            clock.now += TIMING.lease_seconds / 2
            await renews(client, namespace, subject)
        await presence.take_roll(client, namespace, SELECTOR, roster)
        assert roster.live() == {subject.incarnation}  # others wait for it all the while
        ready.set()
        await eventually(subject.is_current, "it is current")


async def test_a_deleted_lease_is_a_lapse(client: Client, namespace: str, clock: Clock) -> None:
    subject = replica(client, namespace, clock)
    async with running(subject):
        await eventually(subject.is_current, "it is current")
        before = subject.incarnation
        await client.delete(LEASES, subject.name, namespace)
        await eventually(lambda: subject.incarnation != before and subject.is_current(), "it returns as another")


async def test_a_preparation_that_fails_is_heard(client: Client, namespace: str, clock: Clock) -> None:
    async def prepare(incarnation: str) -> None:
        raise LookupError("no views")

    with pytest.raises(LookupError, match="no views"):
        await replica(client, namespace, clock, prepare=prepare).run()


def test_timings_that_leave_no_room_are_refused() -> None:
    with pytest.raises(ValueError, match="renew < lease - caution"):
        Timing(lease_seconds=3, renew_seconds=2.0, caution_seconds=1.5)
