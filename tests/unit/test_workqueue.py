"""The queue's rules, by a time that the tests give in; and its waiting, on the event loop."""

import asyncio
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from federation_quota import metrics
from federation_quota.kube.backoff import Backoff
from federation_quota.kube.workqueue import Schedule, WorkQueue
from tests.kube.eventually import eventually

pytestmark = pytest.mark.virtual_time


def test_a_key_waits_once_however_often_it_is_added() -> None:
    schedule: Schedule[str] = Schedule()
    for _ in range(3):
        schedule.add("a", 0)
    assert len(schedule) == 1
    assert schedule.take(0) == "a"
    assert schedule.take(0) is None


def test_keys_are_served_when_due_and_then_in_the_order_they_came() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("late", 5)
    schedule.add("b", 1)
    schedule.add("a", 1)
    assert schedule.take(0) is None
    assert schedule.next_due() == 1
    assert [schedule.take(1), schedule.take(1), schedule.take(1)] == ["b", "a", None]
    assert schedule.take(5) == "late"


def test_the_earlier_of_two_times_counts() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("a", 10)
    schedule.add("a", 3)
    schedule.add("a", 7)
    assert schedule.next_due() == 3
    assert schedule.take(3) == "a"
    schedule.done("a")
    assert schedule.next_due() is None  # the overtaken times are gone


def test_a_key_that_is_worked_on_is_not_given_out_but_comes_once_more() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("a", 0)
    assert schedule.take(0) == "a"
    schedule.add("a", 0)
    schedule.add("a", 4)
    assert schedule.take(9) is None
    schedule.done("a")
    assert schedule.take(0) == "a"
    schedule.done("a")
    assert schedule.take(99) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.booleans()), max_size=60))
def test_nothing_added_is_ever_lost_and_nobody_works_on_a_key_of_another(
    steps: list[tuple[str, int, bool]],
) -> None:
    schedule: Schedule[str] = Schedule()
    dirty: set[str] = set()
    active: list[str] = []
    for now, (key, delay, takes) in enumerate(steps):
        if not takes:
            schedule.add(key, now + delay)
            dirty.add(key)
        elif active and delay > 2:
            schedule.done(active.pop())
        elif (taken := schedule.take(now)) is not None:
            assert taken not in active
            assert taken in dirty
            dirty.discard(taken)
            active.append(taken)
    for key in active:
        schedule.done(key)
    left = set()
    while (taken := schedule.take(10_000)) is not None:
        left.add(taken)
    assert left == dirty


async def test_workers_never_share_a_key_and_changes_during_work_are_not_missed() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    busy: set[str] = set()
    seen: dict[str, int] = {}
    truth: dict[str, int] = {}

    async def reconcile(key: str) -> None:
        assert key not in busy
        busy.add(key)
        value = truth[key]
        await asyncio.sleep(0.001)
        seen[key] = value
        busy.discard(key)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        workers = [group.create_task(queue.serve(reconcile)) for _ in range(4)]
        for number in range(200):
            key = f"k{number % 7}"
            truth[key] = number
            queue.add(key)
            if number % 5 == 0:
                await asyncio.sleep(0.001)
        await eventually(lambda: seen == truth and not busy, "every change is seen")
        for worker in workers:
            worker.cancel()
    assert len(queue) == 0


async def test_a_failing_key_is_tried_later_each_time_and_others_are_not_held_up() -> None:
    queue: WorkQueue[str] = WorkQueue("test", backoff=Backoff(0.01, 0.08), jitter=lambda: 1.0)
    loop = asyncio.get_running_loop()
    times: list[float] = []
    served: Counter[str] = Counter()

    async def reconcile(key: str) -> float | None:
        served[key] += 1
        if key == "bad":
            times.append(loop.time())
            if len(times) < 6:
                raise ValueError("not yet")
        return None

    with capture_logs() as logs:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            worker = group.create_task(queue.serve(reconcile))
            queue.add("bad")
            for number in range(5):
                queue.add(f"good{number}")
            await eventually(lambda: len(times) == 6, "it succeeds at last")
            worker.cancel()
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    for gap, least in zip(gaps, [0.01, 0.02, 0.04, 0.08, 0.08], strict=True):
        assert gap >= least * 0.99
    assert all(served[f"good{number}"] == 1 for number in range(5))
    assert queue.add_failed("bad") == pytest.approx(0.01)  # success has cleared its failures
    assert {entry["event"] for entry in logs} == {"workqueue.failed"}


async def test_a_burst_within_the_coalescing_delay_is_one_piece_of_work() -> None:
    queue: WorkQueue[str] = WorkQueue("test", coalesce_seconds=0.05)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(20):
        queue.add("a")
        await asyncio.sleep(0.001)  # further ones do not push it back
    async with asyncio.timeout(5):
        assert await queue.get() == "a"
    assert 0.05 <= loop.time() - began < 0.06
    assert len(queue) == 0


async def test_reconcile_may_ask_to_see_the_key_again() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    seen: list[str] = []

    async def reconcile(key: str) -> float | None:
        seen.append(key)
        return 0.01 if len(seen) < 3 else None

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        worker = group.create_task(queue.serve(reconcile))
        queue.add("a")
        await eventually(lambda: len(seen) == 3, "it is seen again")
        worker.cancel()
    assert seen == ["a"] * 3


async def test_it_is_measured_while_somebody_serves_it() -> None:
    queue: WorkQueue[str] = WorkQueue("measured", backoff=Backoff(10.0, 10.0))

    def sample(name: str) -> float | None:
        return metrics.REGISTRY.get_sample_value(f"federation_quota_workqueue_{name}", {"queue": "measured"})

    release = asyncio.Event()

    async def reconcile(key: str) -> float | None:
        await release.wait()
        if key == "bad":
            raise ValueError("not yet")
        return None

    for key in ("bad", "good", "other"):
        queue.add(key)
    queue.add_after("later", 100.0)
    assert sample("depth") == 0  # a standby's: it gathers, and nobody works
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        worker = group.create_task(queue.serve(reconcile))
        await eventually(lambda: sample("depth") == 2, "one is taken, two wait, and one is for later")
        assert queue.busy_seconds() >= 0
        assert queue.describe()["waiting"] == 3
        release.set()
        await eventually(lambda: sample("work_seconds_count") == 3, "all are done")
        worker.cancel()
    assert (sample("latency_seconds_count"), sample("retries_total"), sample("depth")) == (3, 1, 0)
    assert queue.busy_seconds() == 0
    assert queue.describe()["failures"] == {"bad": 1}


async def test_a_worker_that_is_cancelled_while_waiting_takes_nothing_with_it() -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(5):
        assert await queue.get() == "a"
