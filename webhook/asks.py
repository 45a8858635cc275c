"""Asks: what an elastic leaf refused, written into its status, where it counts as demand.

Noted and written as all notes are (`notes`), for all of a leaf together, under its version as everything in its status
is. Karmada asks again and again: as long as the leaf remembers an ask for some time to come, nothing is written.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from federation_quota.accounting.store import Store
from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic import ask, leaf
from federation_quota.elastic.ask import MOST_ASKS, Ask
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.account import Account
from webhook.notes import REMEMBERED_SECONDS, Note, Notebook

# Longer than Karmada ever waits before it tries again: who still wants it has asked again by then.
LASTS_SECONDS: Final = 1200.0
_WORKERS: Final = 2


@dataclass(slots=True, kw_only=True)
class _Note(Note):
    ask: Ask
    key: ObjectKey

    def is_over(self, binding: Binding | None, now: float) -> bool:
        """Whether it was struck off since, has what it was refused, or what becomes of it no longer matters."""
        if now - self.refused_at > REMEMBERED_SECONDS or self.losses > 1:
            return True
        # One that this replica does not know may be too young for it.
        return binding is not None and all(binding.assigned[name] >= amount for name, amount in self.ask.charge.items())


class AskList(Notebook[str, _Note]):
    """The asks that one replica refused, by leaf."""

    def __init__(
        self,
        account: Callable[[str], Account | None],  # of a leaf, as this replica knows it
        mirror: BindingMirror,
        store: Store,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__("asks", workers=_WORKERS)
        self._account = account
        self._mirror = mirror
        self._store = store
        self._now = now

    def note(self, name: str, new: Binding) -> None:
        """That leaf refused what was to be assigned to a binding."""
        notes = self._notes.setdefault(name, {})
        wanted = Ask(str(new.key), new.assigned, self._time(LASTS_SECONDS))
        known = notes.pop(wanted.binding, None)  # the last refused is the last to be dropped
        is_listed = known is not None and known.is_listed
        refused_at = asyncio.get_running_loop().time()
        notes[wanted.binding] = _Note(ask=wanted, key=new.key, refused_at=refused_at, is_listed=is_listed)
        if len(notes) > MOST_ASKS:
            del notes[next(iter(notes))]
        self._queue.add(name)

    def learn(self, account: Account) -> None:
        """The leaf as the watch saw it."""
        if account.name in self._notes:
            self._see(account.name, {one.binding for one in leaf.asks(account)})

    async def _write(self, name: str) -> float | None:
        """Have everything in the status that is noted; when to look again, for as long as there are notes."""
        account, notes = self._account(name), self._remaining(name)
        if account is None or not notes:
            self._drop(name)
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
        if (rest := self._rest(name)) > 0:
            return rest
        return await self._saved(name, self._store.write(leaf.with_asks(account, wanted)))

    def _remaining(self, name: str) -> dict[str, _Note]:
        now, notes = asyncio.get_running_loop().time(), self._notes.get(name, {})
        for binding, note in list(notes.items()):
            if note.is_over(self._mirror.bindings.get(note.key), now):
                del notes[binding]
        return notes

    def _time(self, in_seconds: float) -> str:
        return (self._now() + timedelta(seconds=in_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
