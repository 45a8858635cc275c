"""Replicas come and go under load, and nobody notices: restarts in turn, a leader killed, a leader frozen."""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from typing import Any

import psutil
import pytest

from federation_quota import names
from federation_quota.kube.client import Client
from federation_quota.kube.error import KubeError
from federation_quota.kube.quotas import KARMADA_QUOTAS, RESOURCE_BINDINGS
from localfed.federation import Federation
from localfed.fixtures import clear
from localfed.guard import Guard
from tests import logged
from tests.federation.history import History, witness
from tests.federation.manifests import quota
from tests.federation.stage import Stage
from tests.federation.test_concurrency import binding, connected, step
from tests.promises import promised

pytestmark = [pytest.mark.federation, pytest.mark.alone]

SYSTEM = "federation-quota-system"
CLIENTS = 32
CONTROLLERS = ("quota-controllers-1", "quota-controllers-2")
# What a leader's death may cost, from the kill on.
RIGHT_WITHIN_SECONDS = promised(15.0)


async def eventually(condition: Callable[[], Any], what: str, within_seconds: float = 120) -> None:
    """As the stage's, for what is asked in a thread while clients go on in this one."""
    deadline = time.monotonic() + within_seconds
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, f"{what}: not within {within_seconds:.1f} s"
        await asyncio.sleep(0.05)


def said(federation: Federation, name: str, event: str, **fields: object) -> int:
    """How often a process has logged that."""
    return sum({"event": event, **fields}.items() <= one.items() for one in logged.events(federation.log(name)))


def leader(federation: Federation) -> str:
    """Which process leads; nothing where none does."""
    lease = federation.api.get("lease", names.LEADER_LEASE, SYSTEM)
    holder = lease["spec"].get("holderIdentity")
    leading = [one for one in CONTROLLERS if holder and said(federation, one, "elector.leading", identity=holder)]
    return leading[0] if leading else ""


async def led(federation: Federation) -> str:
    """The same, as soon as one does."""
    await eventually(lambda: leader(federation), "somebody leads")
    return await asyncio.to_thread(leader, federation)


@contextlib.asynccontextmanager
async def load(client: Client, namespace: str, failures: list[str]) -> AsyncIterator[None]:
    """Clients that create bindings one after the other for as long as the block lasts."""
    stopping = asyncio.Event()

    async def create(number: int) -> None:
        turn = 0
        while not stopping.is_set():
            body = binding(f"b{number}-{turn}", namespace, 1)
            try:
                await client.create(RESOURCE_BINDINGS, body, namespace)
            except KubeError as problem:
                failures.append(str(problem))
            turn += 1
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(create(number))
        try:
            yield
        finally:
            stopping.set()


@pytest.mark.first(0)  # new replicas wait for all who died in the last quarter of an hour
async def test_webhook_replicas_restart_one_after_the_other_under_load_and_no_admission_fails(
    stage: Stage, guard: Guard
) -> None:
    federation = stage.federation
    stage.apply(quota("q", {"pods": "100000"}))
    stage.quota_active("q")
    failures: list[str] = []
    # A 429 is tried again, as every client of Kubernetes does; nothing else is.
    async with connected(stage, CLIENTS, attempts=200) as client, load(client, stage.namespace, failures):
        for replica in ("quota-webhook-1", "quota-webhook-2"):
            serving = said(federation, replica, "webhook.serving")
            await asyncio.to_thread(federation.terminate, replica)
            # It left word of what it let through: a new quota need not wait until all of that must be over.
            await asyncio.to_thread(stage.apply, quota(f"after-{replica}", {"pods": "100000"}))
            await eventually(lambda replica=replica: stage.is_active(f"after-{replica}"), "a new quota is active")  # type: ignore[misc]
            await asyncio.to_thread(federation.start, replica, guard)
            await eventually(
                lambda replica=replica, serving=serving: said(federation, replica, "webhook.serving") > serving,  # type: ignore[misc]
                f"{replica} serves again",
            )
    assert failures == []
    stored = len(stage.names("resourcebindings"))
    assert stored > CLIENTS
    for name in ("q", "after-quota-webhook-1", "after-quota-webhook-2"):
        await eventually(lambda name=name: stage.used(name) == {"pods": str(stored)}, f"{name} counts all")  # type: ignore[misc]


class Churn:
    """Clients that create, scale and delete in several namespaces, and what they leave behind."""

    def __init__(self, client: Client, histories: dict[str, History]) -> None:
        self._client = client
        self._histories = histories
        self._rng = random.Random(4)
        self.outcomes: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def going(self) -> AsyncIterator[None]:
        stopping = asyncio.Event()

        async def play(namespace: str, number: int) -> None:
            while not stopping.is_set():
                # Each on its own: of two that create the same, one would leave a reservation that only time ends.
                await step(self._client, namespace, f"b{number}", self._rng, self.outcomes)
                await asyncio.sleep(0.15)

        async with asyncio.TaskGroup() as group:
            for namespace in self._histories:
                for number in range(5):
                    group.create_task(play(namespace, number))
            yield
            stopping.set()

    async def grow(self, by: int) -> None:
        """Return when so much more was stored."""
        seen = self.versions
        await eventually(lambda: self.versions >= seen + by, "the churn goes on")

    @property
    def versions(self) -> int:
        return sum(history.versions for history in self._histories.values())

    async def wrong(self) -> list[str]:
        """What quotas say that is not stored, or is still under way."""
        found = []
        for namespace, history in self._histories.items():
            status = json.loads(await self._client.get(KARMADA_QUOTAS, "q", namespace)).get("status") or {}
            stored = {"cpu": Stage.used_text(history.total)}
            if status.get("used") != stored or status.get("reservations"):
                found.append(f"{namespace}: {stored} stored, {status}")
        return found

    async def comes_right(self, deadline: float) -> None:
        while wrong := await self.wrong():
            assert time.monotonic() < deadline, f"not right in time: {wrong}"
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def churning(stage: Stage) -> AsyncIterator[Churn]:
    """Three namespaces with a quota each, and clients at work in them."""
    places = [stage, *(Stage(stage.federation, f"{stage.namespace}-{letter}") for letter in "bc")]
    for place in places[1:]:
        stage.federation.kubectl("create", "namespace", place.namespace)
    for place in places:
        place.apply(quota("q", {"cpu": "4"}))
    for place in places:
        place.quota_active("q")
    try:
        async with connected(stage, CLIENTS, attempts=50) as client, contextlib.AsyncExitStack() as stack:
            histories = {
                place.namespace: await stack.enter_async_context(witness(client, place.namespace)) for place in places
            }
            churn = Churn(client, histories)
            yield churn
            assert churn.outcomes.keys() <= {"stored", "exists", "missing", "QuotaExceeded"}
            assert max(history.highest for history in histories.values()) <= Fraction(4)
    finally:
        for place in places[1:]:
            clear(stage.federation, place.namespace)


@pytest.mark.prompt
async def test_the_leader_is_killed_during_churn_and_statuses_are_soon_right(stage: Stage, guard: Guard) -> None:
    federation = stage.federation
    async with churning(stage) as churn:
        async with churn.going():
            await churn.grow(60)
            killed = await led(federation)
            [standby] = set(CONTROLLERS) - {killed}
            synced = said(federation, standby, "reflector.synced")
            await asyncio.to_thread(federation.kill, killed)
            deadline = time.monotonic() + RIGHT_WITHIN_SECONDS
            await churn.grow(40)
        await churn.comes_right(deadline)
    assert leader(federation) == standby
    assert said(federation, standby, "reflector.synced") == synced, "it had everything in view"
    await asyncio.to_thread(federation.start, killed, guard)


async def test_a_leader_that_was_frozen_harms_nothing_and_leads_again_at_once_when_the_other_leaves(
    stage: Stage, guard: Guard
) -> None:
    federation = stage.federation
    async with churning(stage) as churn:
        frozen = await led(federation)
        process = federation.process(frozen)
        try:
            async with churn.going():
                await churn.grow(40)
                process.suspend()  # in the middle of its work
                await eventually(lambda: leader(federation) not in ("", frozen), "the other leads")
                await churn.grow(40)
                other = leader(federation)
                lost = said(federation, frozen, "elector.lost")
                process.resume()  # with what it wanted to write when it was frozen
                await eventually(lambda: said(federation, frozen, "elector.lost") > lost, "it knows that it lost")
                await churn.grow(20)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        if not federation.is_running(frozen):  # where its work did not end at once it ends itself, to be started again
            assert said(federation, frozen, "controllers.overstayed")
            await asyncio.to_thread(federation.start, frozen, guard)
        await churn.comes_right(time.monotonic() + RIGHT_WITHIN_SECONDS)
        assert leader(federation) == other or said(federation, other, "elector.lost"), "nobody takes it from who has it"
        await asyncio.to_thread(federation.terminate, other)
        assert said(federation, other, "elector.released")
        async with churn.going():
            await churn.grow(20)
        await churn.comes_right(time.monotonic() + RIGHT_WITHIN_SECONDS)
        assert leader(federation) == frozen
    await asyncio.to_thread(federation.start, other, guard)
