"""Leader election on the real API server: one acts, never two, and soon another when the one is gone.

What was acted when is a timeline by the machine's monotonic clock; every test ends by looking at it as a whole.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from federation_quota.kube import lease
from federation_quota.kube.client import Client
from federation_quota.kube.config import Connection
from federation_quota.kube.elector import Elector, Leadership, LeadershipLostError, Timing
from federation_quota.kube.lease import LEASES
from localfed.faultproxy import FaultProxy
from localfed.federation import Federation
from tests.kube import candidate
from tests.kube.eventually import eventually
from tests.kube.leases import renewed, version_of
from tests.promises import promised

pytestmark = pytest.mark.federation

FAIL_OVER_SECONDS = promised(10.0)
# Nobody loses it to a slow answer.
STEADY = Timing(lease_seconds=90, renew_deadline_seconds=80.0, retry_seconds=0.2, attempt_seconds=3.0)
# Lost soon, and yet not to every slow answer.
QUICK = Timing(lease_seconds=3, renew_deadline_seconds=2.0, retry_seconds=0.1, attempt_seconds=1.5)


@dataclasses.dataclass(frozen=True)
class Act:
    at: float
    who: str
    token: int


class Timeline:
    """Who acted when."""

    def __init__(self) -> None:
        self.acts: list[Act] = []

    def actor(self, who: str) -> Callable[[Leadership], Awaitable[None]]:
        async def act(leadership: Leadership) -> None:
            while True:
                self.acts.append(Act(time.monotonic(), who, leadership.token))
                await asyncio.sleep(0.005)

        return act

    def of(self, who: str) -> list[Act]:
        return [act for act in self.acts if act.who == who]

    def check(self) -> None:
        """Terms do not overlap, and their tokens rise with time."""
        ordered = sorted(self.acts, key=lambda act: act.at)
        terms = list(dict.fromkeys((act.who, act.token) for act in ordered))
        spans = {term: [act.at for act in ordered if (act.who, act.token) == term] for term in terms}
        for earlier, later in itertools.pairwise(terms):
            assert max(spans[earlier]) < min(spans[later]), f"{earlier} and {later} acted at the same time"
            assert earlier[1] < later[1], "a later leader has a greater token"


@pytest.fixture
def timeline() -> Timeline:
    return Timeline()


@dataclasses.dataclass
class Standing:
    elector: Elector
    proxy: FaultProxy
    task: asyncio.Task[None]


@contextlib.asynccontextmanager
async def standing(
    connection: Connection, namespace: str, who: str, timeline: Timeline, **options: object
) -> AsyncIterator[Standing]:
    """A candidate with a network of its own."""
    async with (
        FaultProxy(urlsplit(connection.server).port or 443) as proxy,
        Client(dataclasses.replace(connection, server=proxy.url)) as client,
    ):
        elector = Elector(client, namespace, "leader", identity=who, **options)  # type: ignore[arg-type]
        task = asyncio.create_task(elector.run(timeline.actor(who)))  # type: ignore[arg-type]
        try:
            yield Standing(elector, proxy, task)
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=120)
            assert task.done()
            if not task.cancelled():
                task.result()


async def test_one_leads_and_the_other_follows_at_once_when_it_leaves(
    connection: Connection, client: Client, namespace: str, timeline: Timeline
) -> None:
    async with standing(connection, namespace, "a", timeline, timing=STEADY) as a:
        await eventually(lambda: timeline.of("a"), "a leads")
        async with standing(connection, namespace, "b", timeline, timing=STEADY) as b:
            await eventually(lambda: b.elector.leader == "a", "b sees who leads")
            await renewed(client, namespace, "leader", times=3)
            assert not timeline.of("b")
            a.task.cancel()
            took = await eventually(lambda: timeline.of("b"), "b leads")
            assert took < STEADY.lease_seconds  # released, not run out
            assert a.elector.leadership is None
            stored = lease.decode(await client.get(LEASES, "leader", namespace))
            assert (stored.spec.holder, stored.spec.transitions) == ("b", 2)
            assert stored.spec.duration_seconds == STEADY.lease_seconds
    released = lease.decode(await client.get(LEASES, "leader", namespace))
    assert not released.spec.holder
    timeline.check()


async def lose_an_answer(proxy: FaultProxy, client: Client, namespace: str) -> None:
    """Hold all answers until a renewal is stored of which its sender has not heard.

    It may have been stored before that version was read. Then no other comes: its sender first asks what is stored, and
    does not hear of that either.
    """
    before = await version_of(client, namespace, "leader")
    proxy.hold(requests=False)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STEADY.attempt_seconds):
            await renewed(client, namespace, "leader", since=before)


async def test_a_leader_that_leaves_during_a_renewal_frees_the_lease_all_the_same(
    connection: Connection, client: Client, namespace: str, timeline: Timeline
) -> None:
    async with standing(connection, namespace, "a", timeline, timing=STEADY) as a:
        await eventually(lambda: timeline.of("a"), "a leads")
        await lose_an_answer(a.proxy, client, namespace)
        a.task.cancel()
        a.proxy.heal()
        await asyncio.wait({a.task})
    assert not lease.decode(await client.get(LEASES, "leader", namespace)).spec.holder


async def test_a_leader_cut_off_from_the_api_server_stops_before_another_starts(
    connection: Connection, namespace: str, timeline: Timeline
) -> None:
    async with (
        standing(connection, namespace, "a", timeline) as a,
        standing(connection, namespace, "b", timeline) as b,
    ):
        for _ in range(3):
            await eventually(lambda: a.elector.leadership or b.elector.leadership, "somebody leads")
            leader, other = (a, b) if a.elector.leadership else (b, a)
            leader.proxy.hold()  # a black hole: connections stay open and say nothing
            count = len(timeline.of(other.elector.identity))
            await eventually(
                lambda other=other, count=count: len(timeline.of(other.elector.identity)) > count,  # type: ignore[misc]
                "the other leads",
            )
            assert not leader.elector.leadership
            seen = leader.elector.leader
            leader.proxy.heal()  # renewals that were held arrive now, too late
            await eventually(
                lambda leader=leader, seen=seen: leader.elector.leader != seen,  # type: ignore[misc]
                "it sees that somebody else leads, or led",
            )
    timeline.check()


async def test_answers_that_are_lost_do_not_cost_the_leadership(
    connection: Connection, client: Client, namespace: str, timeline: Timeline
) -> None:
    async with standing(connection, namespace, "a", timeline, timing=STEADY) as a:
        await eventually(lambda: timeline.of("a"), "a leads")
        async with standing(connection, namespace, "b", timeline, timing=STEADY) as b:
            await eventually(lambda: b.elector.leader == "a", "b sees who leads")
            leadership = a.elector.leadership
            assert leadership is not None
            for _ in range(5):
                await lose_an_answer(a.proxy, client, namespace)
                a.proxy.cut()
                a.proxy.heal()
                await renewed(client, namespace, "leader", times=2)
            assert not timeline.of("b")
            assert a.elector.leadership is leadership
    timeline.check()


async def test_candidates_come_and_go_and_never_two_act(
    connection: Connection, namespace: str, timeline: Timeline
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        candidates = [
            await stack.enter_async_context(standing(connection, namespace, f"c{number}", timeline, timing=QUICK))
            for number in range(4)
        ]
        for turn in range(6):
            await eventually(lambda: any(one.elector.leadership for one in candidates), "somebody leads")
            leader = next(one for one in candidates if one.elector.leadership)
            if turn % 3 == 0:
                leader.proxy.hold()
            elif turn % 3 == 1:
                leader.proxy.refuse()
                leader.proxy.cut()
            else:
                leader.proxy.hold(requests=False)
            await eventually(lambda leader=leader: leader.elector.leadership is None, "it steps down")  # type: ignore[misc]
            leader.proxy.cut()
            leader.proxy.heal()
    assert len({(act.who, act.token) for act in timeline.acts}) >= 6
    timeline.check()


async def test_a_lease_that_is_deleted_under_its_holder_is_not_taken_before_its_time(
    connection: Connection, client: Client, namespace: str, timeline: Timeline
) -> None:
    async with (
        standing(connection, namespace, "a", timeline) as a,
        standing(connection, namespace, "b", timeline) as b,
    ):
        await eventually(lambda: a.elector.leader and a.elector.leader == b.elector.leader, "both see who leads")
        leader, other = (a, b) if a.elector.leader == "a" else (b, a)
        leader.proxy.hold()  # it cannot notice
        await client.delete(LEASES, "leader", namespace)
        await eventually(lambda: other.elector.leadership, "the other leads")
    timeline.check()


async def test_the_work_that_fails_or_returns_ends_the_candidacy_and_frees_the_lease(
    client: Client, namespace: str
) -> None:
    async def fail(leadership: Leadership) -> None:
        raise LookupError("the work's own")

    async def finish(leadership: Leadership) -> None:
        leadership.check()

    with pytest.raises(LookupError, match="the work's own"):
        await Elector(client, namespace, "leader", identity="a", timing=STEADY).run(fail)
    began = time.monotonic()
    await Elector(client, namespace, "leader", identity="b", timing=STEADY).run(finish)
    assert time.monotonic() - began < STEADY.lease_seconds  # it was free


async def test_work_that_fails_because_its_term_is_over_leads_again_in_another(
    connection: Connection, namespace: str
) -> None:
    terms: list[Leadership] = []

    async def work(leadership: Leadership) -> None:
        terms.append(leadership)
        while True:
            leadership.check()
            await asyncio.sleep(0)  # so that it learns of it before the elector does

    async with (
        FaultProxy(urlsplit(connection.server).port or 443) as proxy,
        Client(dataclasses.replace(connection, server=proxy.url)) as own,
    ):
        task = asyncio.create_task(Elector(own, namespace, "leader", identity="a", timing=QUICK).run(work))
        await eventually(lambda: terms, "it leads")
        proxy.hold()
        await eventually(lambda: not terms[-1].is_valid(), "its term is over")
        count = len(terms)
        proxy.heal()
        await eventually(lambda: len(terms) > count, "it leads again")
        assert [term.token for term in terms] == list(range(1, len(terms) + 1))
        task.cancel()
        await asyncio.wait({task})


async def test_work_that_does_not_stop_is_reported_and_waited_for_and_its_leadership_is_over(
    connection: Connection, namespace: str
) -> None:
    overstayed: list[float] = []
    let_go = asyncio.Event()
    leaderships: list[Leadership] = []

    async def stubborn(leadership: Leadership) -> None:
        leaderships.append(leadership)
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()

    async with (
        FaultProxy(urlsplit(connection.server).port or 443) as proxy,
        Client(dataclasses.replace(connection, server=proxy.url)) as own,
    ):
        elector = Elector(
            own,
            namespace,
            "leader",
            identity="a",
            timing=QUICK,
            on_overstay=lambda: overstayed.append(time.monotonic()),
        )
        task = asyncio.create_task(elector.run(stubborn))
        await eventually(lambda: leaderships, "it leads")
        proxy.hold()
        await eventually(lambda: overstayed, "it is reported")
        assert not leaderships[0].is_valid()
        with pytest.raises(LeadershipLostError):
            leaderships[0].check()
        assert not task.done()
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()  # however often it is cancelled, it does not leave the work behind
        await asyncio.sleep(0.1)
        assert not task.done()
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(overstayed) == 1


Process = tuple[asyncio.subprocess.Process, Path]


@contextlib.asynccontextmanager
async def process(kubeconfig: Path, namespace: str, who: str) -> AsyncIterator[Process]:
    """A candidate in a process of its own, and the file that it says what it does into."""
    said = kubeconfig.parent / f"{namespace}-{who}.log"
    with said.open("wb") as output:
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-m", candidate.__name__, str(kubeconfig), namespace, who, stdout=output
        )
    try:
        yield started, said
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()


def acts(said: Path) -> list[Act]:
    lines = [line.split() for line in said.read_text().splitlines() if line.startswith("act ")]
    return [Act(float(parts[1]), said.name, int(parts[2])) for parts in lines if len(parts) == 3]


async def standing_by(a: Process, b: Process) -> tuple[Process, Process]:
    """Who leads, and who has seen it."""
    found: list[tuple[Process, Process]] = []

    def has_roles() -> bool:
        for leader, other in ((a, b), (b, a)):
            identity = leader[1].stem.rpartition("-")[2]
            seen = [line for line in other[1].read_text().splitlines() if line.startswith("saw ")]
            last = max((act.at for act in acts(leader[1])), default=0.0)
            if seen and seen[-1] == f"saw {identity}" and time.monotonic() - last < 0.5:
                found.append((leader, other))
                return True
        return False

    await eventually(has_roles, "one leads, and the other stands by")
    return found[0]


@pytest.mark.prompt
async def test_a_leader_that_is_killed_is_soon_replaced(
    federation: Federation, namespace: str, timeline: Timeline
) -> None:
    kubeconfig = federation.directory.kubeconfig
    async with process(kubeconfig, namespace, "a") as a, process(kubeconfig, namespace, "b") as b:
        (leader, said), (_, said_by_other) = await standing_by(a, b)
        leader.kill()
        killed = time.monotonic()
        await eventually(lambda: any(act.at > killed for act in acts(said_by_other)), "the other leads")
        took = next(act.at for act in acts(said_by_other) if act.at > killed) - killed
        assert took < FAIL_OVER_SECONDS
        timeline.acts = acts(said) + acts(said_by_other)
    timeline.check()


@contextlib.asynccontextmanager
async def reading_diary(client: Client, namespace: str) -> AsyncIterator[list[int]]:
    """Every token that is written while the block lasts, in the order in which it was stored."""
    body = {"metadata": {"name": candidate.DIARY}, "data": {"token": "0"}}
    stored = json.loads(await client.create(candidate.CONFIG_MAPS, body, namespace))
    version = int(stored["metadata"]["resourceVersion"])
    selector = f"metadata.name={candidate.DIARY}"
    tokens: list[int] = []

    async def follow() -> None:
        watch = client.watch(candidate.CONFIG_MAPS, namespace, version=version, field_selector=selector)
        async with watch as lines:
            async for line in lines:
                event = json.loads(line)
                if event["type"] == "MODIFIED":
                    tokens.append(int(event["object"]["data"]["token"]))

    task = asyncio.create_task(follow())
    try:
        yield tokens
    finally:
        task.cancel()


async def test_a_leader_that_was_frozen_knows_that_its_term_is_over_before_it_acts_or_writes(
    federation: Federation, client: Client, namespace: str, timeline: Timeline
) -> None:
    kubeconfig = federation.directory.kubeconfig
    async with (
        reading_diary(client, namespace) as tokens,
        process(kubeconfig, namespace, "a") as a,
        process(kubeconfig, namespace, "b") as b,
    ):
        (leader, said), (_, said_by_other) = await standing_by(a, b)
        leader.send_signal(signal.SIGSTOP)
        frozen = acts(said)[-1].token
        await eventually(lambda: tokens and tokens[-1] > frozen, "the other leads, and writes")
        leader.send_signal(signal.SIGCONT)
        await eventually(lambda: f"not written: term {frozen} is over" in said.read_text(), "it wakes, and knows")
        since = next(place for place, token in enumerate(tokens) if token > frozen)
        assert tokens[since:].count(frozen) <= 1, "none but what was on its way to a slow API server when it was frozen"
        timeline.acts = acts(said) + acts(said_by_other)
    timeline.check()


def test_timings_that_could_make_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="retry < renew deadline < lease"):
        Timing(lease_seconds=2, renew_deadline_seconds=2.0)
