"""Notes of what one replica refused, until they stand where everybody sees them.

Common to those who wait for a quota (`waiting`), to what leaves were asked for (`asks`), and to what validators refused
(`pending`). A refusal costs no write: it is noted in memory, and written by somebody else than who answers, for all
that go into one object together, the first at once and all others at a pace: a long list is a costly write, and who
refuses many would be busy with telling. A conflict, or a server that does not answer, is tried again later. A note is
kept for a while after it was written: whoever tidies up there may strike it off on account of something older than the
refusal, and then it is written once more.
"""

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Hashable
from dataclasses import dataclass
from typing import Final, Generic, NoReturn, TypeVar

from federation_quota.accounting.store import ConflictError, UnreachableError
from federation_quota.kube.workqueue import WorkQueue

COALESCE_SECONDS: Final = 0.2
# Between two writes of a list that many notes are in.
PACE_SECONDS: Final = 1.0
# How long after a refusal what was written is watched for losing it: longer than the controllers are ever behind.
REMEMBERED_SECONDS: Final = 10.0
_AWAY_SECONDS: Final = 1.0


@dataclass(slots=True, kw_only=True)
class Note:
    """One refusal."""

    refused_at: float
    is_listed: bool = False
    losses: int = 0  # how often what it is written into came back without it

    def see(self, is_listed: bool) -> None:
        """What it is written into, as it is now."""
        self.losses += self.is_listed and not is_listed
        self.is_listed = is_listed


K = TypeVar("K", bound=Hashable)
N = TypeVar("N", bound=Note)


class Notebook(ABC, Generic[K, N]):
    """The notes of one replica, by what they are written into and by binding."""

    def __init__(self, name: str, *, workers: int, coalesce_seconds: float = COALESCE_SECONDS) -> None:
        self._workers = workers
        self._notes: dict[K, dict[str, N]] = {}
        self._next: dict[K, float] = {}  # when each may be written again
        self._queue: WorkQueue[K] = WorkQueue(name, coalesce_seconds=coalesce_seconds)

    async def run(self) -> NoReturn:
        """Write what is noted, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._queue.serve(self._write))
        raise AssertionError("workers serve until they are cancelled")

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        return {"notes": {str(key): len(notes) for key, notes in self._notes.items()}, "queue": self._queue.describe()}

    async def drain(self, timeout_seconds: float) -> None:
        """Write what is still only noted, as far as that is possible in that time: before the replica ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for key in list(self._notes):
                    again = await self._write(key)
                    if again is not None and again < REMEMBERED_SECONDS:
                        await asyncio.sleep(again)
                        await self._write(key)

    def _see(self, key: K, listed: Collection[str]) -> None:
        """What the watch saw of what notes are written into."""
        notes = self._notes.get(key)
        if notes:
            for name, note in notes.items():
                note.see(name in listed)
            self._queue.add(key)

    @abstractmethod
    async def _write(self, key: K) -> float | None:
        """Have everything written that is noted; when to look again, for as long as there are notes."""

    def _rest(self, key: K) -> float:
        """How long it is until a list is written again."""
        return self._next.get(key, 0.0) - asyncio.get_running_loop().time()

    def _drop(self, key: K) -> None:
        """There is nothing noted any more."""
        self._notes.pop(key, None)
        self._next.pop(key, None)

    async def _saved(self, key: K, saving: Awaitable[object], pace_seconds: float = PACE_SECONDS) -> float:
        """When to look again after that write."""
        try:
            await saving
            if pace_seconds:
                self._next[key] = asyncio.get_running_loop().time() + pace_seconds
        except ConflictError:
            return COALESCE_SECONDS * (0.5 + random.random())  # noqa: S311 - nobody gains from guessing it
        except UnreachableError:
            return _AWAY_SECONDS
        return REMEMBERED_SECONDS
