"""Asks: what an elastic leaf refused, written into its status, where it counts as demand.

As with those who wait for a KarmadaQuota (`waiting`), a refusal costs no write: it is noted in memory, and written for
all of a leaf together, under its version as everything in its status is. Karmada asks again and again: as long as the
leaf remembers an ask for some time to come, nothing is written. A note is kept for a while, and written once more where
the controllers struck it off on account of something older.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from federation_quota.accounting.store import ConflictError, Store, UnreachableError
from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic import ask, leaf
from federation_quota.elastic.ask import MOST_ASKS, Ask
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.workqueue import WorkQueue
from federation_quota.ledger.account import Account

COALESCE_SECONDS: Final = 0.2
# Longer than Karmada ever waits before it tries again: who still wants it has asked again by then.
LASTS_SECONDS: Final = 1200.0
# How long after a refusal the status is watched for losing it: longer than the controllers are ever behind.
REMEMBERED_SECONDS: Final = 10.0
_WORKERS: Final = 2


@dataclass(slots=True)
class _Note:
    ask: Ask
    key: ObjectKey
    refused_at: float
    is_listed: bool = False
    losses: int = 0  # how often the status came back without it

    def see(self, is_listed: bool) -> None:
        """The status as it is now."""
        self.losses += self.is_listed and not is_listed
        self.is_listed = is_listed

    def is_over(self, binding: Binding | None, now: float) -> bool:
        """Whether it was struck off since, has what it was refused, or what becomes of it no longer matters."""
        if now - self.refused_at > REMEMBERED_SECONDS or self.losses > 1:
            return True
        # One that this replica does not know may be too young for it.
        return binding is not None and all(binding.assigned[name] >= amount for name, amount in self.ask.charge.items())


class AskList:
    """The asks that one replica refused."""

    def __init__(
        self,
        account: Callable[[str], Account | None],  # of a leaf, as this replica knows it
        mirror: BindingMirror,
        store: Store,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._account = account
        self._mirror = mirror
        self._store = store
        self._now = now
        self._notes: dict[str, dict[str, _Note]] = {}  # by leaf, by binding
        self._queue: WorkQueue[str] = WorkQueue("asks", coalesce_seconds=COALESCE_SECONDS)

    def note(self, name: str, new: Binding) -> None:
        """That leaf refused what was to be assigned to a binding."""
        notes = self._notes.setdefault(name, {})
        wanted = Ask(str(new.key), new.assigned, self._time(LASTS_SECONDS))
        known = notes.pop(wanted.binding, None)  # the last refused is the last to be dropped
        is_listed = known is not None and known.is_listed
        refused_at = asyncio.get_running_loop().time()
        notes[wanted.binding] = _Note(wanted, new.key, refused_at, is_listed)
        if len(notes) > MOST_ASKS:
            del notes[next(iter(notes))]
        self._queue.add(name)

    def learn(self, account: Account) -> None:
        """The leaf as the watch saw it."""
        notes = self._notes.get(account.name)
        if notes:
            listed = {one.binding for one in leaf.asks(account)}
            for name, note in notes.items():
                note.see(name in listed)
            self._queue.add(account.name)

    async def run(self) -> NoReturn:
        """Write what is noted, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WORKERS):
                tasks.create_task(self._queue.serve(self._write))
        raise AssertionError("workers serve until they are cancelled")

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        return {"notes": {name: len(notes) for name, notes in self._notes.items()}, "queue": self._queue.describe()}

    async def drain(self, timeout_seconds: float) -> None:
        """Write what is still only noted, as far as that is possible in that time: before the replica ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for name in list(self._notes):
                    await self._write(name)

    async def _write(self, name: str) -> float | None:
        """Have everything in the status that is noted; when to look again, for as long as there are notes."""
        account, notes = self._account(name), self._remaining(name)
        if account is None or not notes:
            self._notes.pop(name, None)
            return None
        now, soon = self._time(0), self._time(LASTS_SECONDS / 2)
        listed = leaf.asks(account)
        known = {one.binding: one for one in listed if one.until > soon}
        wanted = listed
        for note in notes.values():
            if note.ask.binding not in known or known[note.ask.binding].charge != note.ask.charge:
                wanted = ask.note(wanted, note.ask, now)
        if wanted == listed:
            return REMEMBERED_SECONDS
        try:
            await self._store.write(leaf.with_asks(account, wanted))
        except ConflictError:
            return COALESCE_SECONDS * (0.5 + random.random())  # noqa: S311 - nobody gains from guessing it
        except UnreachableError:
            return 1.0
        return REMEMBERED_SECONDS

    def _remaining(self, name: str) -> dict[str, _Note]:
        now, notes = asyncio.get_running_loop().time(), self._notes.get(name, {})
        for binding, note in list(notes.items()):
            if note.is_over(self._mirror.bindings.get(note.key), now):
                del notes[binding]
        return notes

    def _time(self, in_seconds: float) -> str:
        return (self._now() + timedelta(seconds=in_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
