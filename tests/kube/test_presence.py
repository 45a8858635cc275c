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

pytestmark = pytest.mark.federation

LABELS = {"app": "webhook"}
SELECTOR = "app=webhook"
QUICK = Timing(lease_seconds=2, renew_seconds=0.3, attempt_seconds=0.8, caution_seconds=0.5)


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
async def watching(client: Client, namespace: str) -> AsyncIterator[Roster]:
    roster = Roster(lease.elapsed)
    reflector: Reflector[Lease] = Reflector(
        client, LEASES, decode=lease.decode, sink=roster, namespace=namespace, label_selector=SELECTOR
    )
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(20):
        await reflector.synced.wait()
    try:
        yield roster
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def replica(client: Client, namespace: str, **options: object) -> Presence:
    settings: dict[str, object] = {"prefix": "webhook", "labels": LABELS, "timing": QUICK, **options}
    return Presence(client, namespace, **settings)  # type: ignore[arg-type]


async def test_replicas_are_seen_while_they_are_there_and_remembered_when_they_go(
    client: Client, namespace: str
) -> None:
    a, b = replica(client, namespace), replica(client, namespace, legacy=lambda: "what b leaves")
    async with watching(client, namespace) as roster, running(a):
        await eventually(a.is_current, "a is current")
        async with running(b):
            await eventually(lambda: roster.live() == {a.incarnation, b.incarnation}, "both are seen")
            assert roster.legacies() == {}
            await asyncio.sleep(QUICK.lease_seconds + 1)
            await presence.take_roll(client, namespace, SELECTOR, roster)
            assert roster.live() == {a.incarnation, b.incarnation}  # renewed
        gone = b.incarnation
        assert not b.is_current()
        await eventually(lambda: roster.live() == {a.incarnation}, "b has left in good order")
        assert gone in roster.unsettled(60)

        # Somebody who comes later learns of b all the same: its Lease is still there.
        late = Roster(lease.elapsed)
        await presence.take_roll(client, namespace, SELECTOR, late)
        assert gone in late.unsettled(60)
        assert gone not in late.live()
        assert late.legacies() == {gone: "what b leaves"}


async def test_a_replica_that_dies_is_taken_for_gone_only_after_its_lease(client: Client, namespace: str) -> None:
    # Its process dies: nothing more comes, and nothing says so.
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 2, "renewTime": lease.moment()}
    manifest = lease.manifest("webhook-dead", spec, labels=LABELS)
    await client.create(LEASES, manifest, namespace)
    roster = Roster(lease.elapsed)
    await presence.take_roll(client, namespace, SELECTOR, roster)
    first_seen = lease.elapsed()
    while "dead" in roster.live():
        assert lease.elapsed() - first_seen < 10
        await presence.take_roll(client, namespace, SELECTOR, roster)
    assert lease.elapsed() - first_seen >= 1.9
    gone = roster.gone_seconds("dead")
    assert gone is not None
    assert gone < 1

    assert await presence.sweep(client, namespace, roster, gone_seconds=60) == 0
    assert await presence.sweep(client, namespace, roster, gone_seconds=0) == 1
    pages = [page async for page in client.list(LEASES, namespace)]
    assert not pages[0].items
    assert roster.unsettled(60) == {"dead"}  # swept or not


async def test_who_cannot_renew_stops_before_others_take_it_for_gone_and_returns_as_another(
    connection: Connection, client: Client, namespace: str
) -> None:
    prepared: list[str] = []

    async def prepare(incarnation: str) -> None:
        prepared.append(incarnation)

    roster = Roster(lease.elapsed)
    async with (
        FaultProxy(urlsplit(connection.server).port or 443) as proxy,
        Client(dataclasses.replace(connection, server=proxy.url)) as own,
    ):
        subject = replica(own, namespace, prepare=prepare)
        async with running(subject):
            await eventually(subject.is_current, "it is current")
            before = subject.incarnation
            await presence.take_roll(client, namespace, SELECTOR, roster)
            proxy.hold()
            while before in roster.live():
                was_current = subject.is_current() and subject.incarnation == before
                await presence.take_roll(client, namespace, SELECTOR, roster)
                if before not in roster.live():
                    assert not was_current, "it acted although it could be taken for gone"
                    assert not subject.is_current()
            proxy.cut()
            proxy.heal()
            await eventually(lambda: subject.is_current() and subject.incarnation != before, "it returns as another")
            assert prepared[0] == before
            assert prepared[-1] == subject.incarnation
            await presence.take_roll(client, namespace, SELECTOR, roster)
            assert subject.incarnation in roster.live()
            assert before in roster.unsettled(60)


async def test_a_short_outage_costs_neither_incarnation_nor_currency(connection: Connection, namespace: str) -> None:
    patient = Timing(lease_seconds=6, renew_seconds=0.3, attempt_seconds=0.5, caution_seconds=1)
    async with (
        FaultProxy(urlsplit(connection.server).port or 443) as proxy,
        Client(dataclasses.replace(connection, server=proxy.url)) as own,
    ):
        subject = replica(own, namespace, timing=patient)
        async with running(subject):
            await eventually(subject.is_current, "it is current")
            before = subject.incarnation
            for _ in range(3):
                proxy.hold()
                await asyncio.sleep(0.8)
                assert subject.is_current()
                proxy.cut()
                proxy.heal()
                await asyncio.sleep(0.4)
            assert subject.incarnation == before
            assert subject.is_current()


async def test_nobody_acts_before_being_prepared_and_preparing_may_take_longer_than_the_lease(
    client: Client, namespace: str
) -> None:
    ready = asyncio.Event()

    async def prepare(incarnation: str) -> None:
        await ready.wait()

    subject = replica(client, namespace, prepare=prepare)
    roster = Roster(lease.elapsed)
    async with running(subject):
        await eventually(lambda: subject.incarnation, "it begins")
        until = lease.elapsed() + QUICK.lease_seconds + 1
        while lease.elapsed() < until:
            await presence.take_roll(client, namespace, SELECTOR, roster)
            assert not subject.is_current()
        assert roster.live() == {subject.incarnation}  # others wait for it all the while
        ready.set()
        await eventually(subject.is_current, "it is current")


async def test_a_deleted_lease_is_a_lapse(client: Client, namespace: str) -> None:
    subject = replica(client, namespace)
    async with running(subject):
        await eventually(subject.is_current, "it is current")
        before = subject.incarnation
        await client.delete(LEASES, subject.name, namespace)
        await eventually(lambda: subject.incarnation != before and subject.is_current(), "it returns as another")


async def test_a_preparation_that_fails_is_heard(client: Client, namespace: str) -> None:
    async def prepare(incarnation: str) -> None:
        raise LookupError("no views")

    with pytest.raises(LookupError, match="no views"):
        async with asyncio.timeout(20):
            await replica(client, namespace, prepare=prepare).run()


def test_timings_that_leave_no_room_are_refused() -> None:
    with pytest.raises(ValueError, match="renew < lease - caution"):
        Timing(lease_seconds=3, renew_seconds=2.0, caution_seconds=1.5)
