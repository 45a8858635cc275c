"""A queue of keys to work on: each key once, never by two workers at a time, again later when it failed.

A key says *that* something is to be looked at, never what happened: adding one that waits already changes nothing, and
one that is being worked on is worked on once more afterwards. `Schedule` holds the rules, pure and with the time given
in; `WorkQueue` adds the waiting. Whoever takes keys does so through `serve`, in the caller's TaskGroup.
"""

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import Generic, NoReturn, TypeVar

import structlog

from federation_quota import metrics
from federation_quota.kube.backoff import Backoff, Jitter
from federation_quota.kube.error import KubeError

log = structlog.get_logger()

K = TypeVar("K", bound=Hashable)


class Schedule(Generic[K]):
    """Which key is to be worked on, and when."""

    def __init__(self) -> None:
        self._order = count()  # ties in time are served first come, first served
        self._heap: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}  # the truth; the heap may hold times that were overtaken
        self._active: set[K] = set()
        self._again: dict[K, float] = {}  # asked for while being worked on

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, due: float) -> None:
        """Work on it at that time, or earlier if that was already asked for."""
        waiting = self._again if key in self._active else self._due
        if key in waiting and waiting[key] <= due:
            return
        waiting[key] = due
        if waiting is self._due:
            heapq.heappush(self._heap, (due, next(self._order), key))

    def take(self, now: float) -> K | None:
        """A key whose time has come; it is its taker's until `done`."""
        self._clean()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._active.add(key)
        return key

    def done(self, key: K) -> None:
        """Its taker has finished: it may be taken again."""
        self._active.discard(key)
        if key in self._again:
            self.add(key, self._again.pop(key))

    def due(self, now: float) -> int:
        """How many keys wait whose time has come."""
        return sum(due <= now for due in list(self._due.values()))

    def next_due(self) -> float | None:
        """When there is something to take next."""
        self._clean()
        return self._heap[0][0] if self._heap else None

    def _clean(self) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)


class WorkQueue(Generic[K]):
    """The schedule on the event loop's clock."""

    def __init__(
        self,
        name: str,
        *,
        coalesce_seconds: float = 0.0,  # how long a key waits for others like it to arrive
        backoff: Backoff = Backoff(first_seconds=0.05, most_seconds=60.0),  # noqa: B008 - frozen
        jitter: Jitter = random.random,
    ) -> None:
        self.name = name
        self._coalesce_seconds = coalesce_seconds
        self._backoff = backoff
        self._jitter = jitter
        self._schedule: Schedule[K] = Schedule()
        self._failures: dict[K, int] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._taken: dict[K, float] = {}  # when each key that is being worked on was taken
        self._latency = metrics.workqueue_latency_seconds.labels(name)
        self._work = metrics.workqueue_work_seconds.labels(name)
        self._retries = metrics.workqueue_retries.labels(name)
        self._serving: list[asyncio.AbstractEventLoop] = []  # one for each worker
        metrics.workqueue_depth.labels(name).set_function(self._depth)

    def __len__(self) -> int:
        return len(self._schedule)

    def add(self, key: K) -> None:
        """Work on it soon."""
        self.add_after(key, self._coalesce_seconds)

    def add_after(self, key: K, seconds: float) -> None:
        """Work on it then, or earlier if that was already asked for."""
        self._schedule.add(key, asyncio.get_running_loop().time() + seconds)
        self._wake()

    def add_failed(self, key: K) -> float:
        """Work on it again, later each time in a row; when."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures, self._jitter)
        self.add_after(key, delay)
        self._retries.inc()
        return delay

    def forget(self, key: K) -> None:
        """It went well: its failures no longer count."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; it is the caller's until `done`."""
        loop = asyncio.get_running_loop()
        while True:
            now, due = loop.time(), self._schedule.next_due()
            key = self._schedule.take(now)
            if key is not None and due is not None:
                self._latency.observe(now - due)
                self._taken[key] = now
                return key
            await self._wait(loop, due)

    def done(self, key: K) -> None:
        """The caller has finished with it."""
        taken = self._taken.pop(key, None)
        if taken is not None:
            self._work.observe(asyncio.get_running_loop().time() - taken)
        self._schedule.done(key)
        self._wake()

    def busy_seconds(self) -> float:
        """How long the longest work that is under way has taken so far; 0 where there is none."""
        since = min(self._taken.values(), default=None)
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        return {
            "name": self.name,
            "waiting": len(self),
            "working_on": {
                str(key): round(asyncio.get_running_loop().time() - at, 3) for key, at in self._taken.items()
            },
            "failures": {str(key): count for key, count in self._failures.items()},
        }

    async def serve(self, reconcile: Callable[[K], Awaitable[float | None]]) -> NoReturn:
        """One worker: reconcile key after key, until cancelled. Run as many as there shall be at a time.

        `reconcile` may return after how many seconds it wants to see the key again. An exception means again, later.
        """
        self._serving.append(asyncio.get_running_loop())
        try:
            while True:
                await self._serve_one(reconcile)
        finally:
            self._serving.pop()

    async def _serve_one(self, reconcile: Callable[[K], Awaitable[float | None]]) -> None:
        key = await self.get()
        try:
            again = await reconcile(key)
        except Exception as problem:
            delay = self.add_failed(key)
            failures = self._failures[key]
            log.warning(
                "workqueue.failed",
                queue=self.name,
                key=str(key),
                failures=failures,
                delay_seconds=round(delay, 3),
                error=repr(problem),
                exc_info=not isinstance(problem, KubeError),  # those explain themselves
            )
        else:
            self.forget(key)
            if again is not None:
                self.add_after(key, again)
        finally:
            self.done(key)

    def _depth(self) -> int:
        """For the metric, whose thread asks. What nobody is there to work on does not pile up: standbys only gather."""
        serving = self._serving[:1]
        return self._schedule.due(serving[0].time()) if serving else 0

    async def _wait(self, loop: asyncio.AbstractEventLoop, due: float | None) -> None:
        """Until something was added or finished, or until that time."""
        future: asyncio.Future[None] = loop.create_future()
        timer = loop.call_at(due, _resolve, future) if due is not None else None
        self._waiters.add(future)
        try:
            await future
        finally:
            self._waiters.discard(future)
            if timer:
                timer.cancel()

    def _wake(self) -> None:
        for future in self._waiters:
            _resolve(future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
