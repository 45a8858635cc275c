"""Notes of those who were refused, written into the quota's status: nobody else knows that they wait.

Noted and written as all notes are (`notes`), for all of a quota together, under the quota's version as everything in
its status is. The list may already have somebody who is refused again, and then nothing is written.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from federation_quota import waiting
from federation_quota.accounting.store import Store
from federation_quota.binding import Binding, ObjectKey
from federation_quota.bounds import MOST_WAITING
from federation_quota.kube.mirrors import BindingMirror, claim
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.waiting import Waiter
from webhook.notes import REMEMBERED_SECONDS, Note, Notebook

# How long it is tried to have one listed: who is refused for longer is refused again, and noted again.
UNLISTED_SECONDS: Final = 60.0
_WORKERS: Final = 4


@dataclass(slots=True, kw_only=True)
class _Note(Note):
    waiter: Waiter
    template_version: int
    was_stored: bool
    is_new_template: bool  # what was refused is a change of the template, or its first appearance

    def is_old(self, now: float) -> bool:
        """Whether what becomes of it on the list no longer matters."""
        was_listed = self.is_listed or self.losses > 0
        return now - self.refused_at > (REMEMBERED_SECONDS if was_listed else UNLISTED_SECONDS)

    def is_over(self, binding: Binding | None) -> bool:
        """Whether it was struck off since it was refused, or what is stored by now is past what was refused."""
        if self.losses > 1:
            return True
        if binding is None:
            return self.was_stored
        if waiting.is_granted(self.waiter, claim(binding)):
            return True
        # The template's next change is another wish: Karmada brings it forward by itself.
        version = binding.template.version
        return version >= self.template_version if self.is_new_template else version > self.template_version


class WaitingList(Notebook[ObjectKey, _Note]):
    """The notes of one replica, by quota."""

    def __init__(
        self,
        accounts: Callable[[str], list[Account]],  # of a domain, as this replica knows them
        mirror: BindingMirror,
        store: Store,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__("waiting", workers=_WORKERS)
        self._accounts = accounts
        self._mirror = mirror
        self._store = store
        self._now = now

    def note(self, quota: str, new: Binding, old: Binding | None, message: str) -> None:
        """That write of a binding was refused by that quota."""
        self.note_in(new.key.namespace, quota, new, old, message)

    def note_in(self, place: str, name: str, new: Binding, old: Binding | None, message: str) -> None:
        """The same by an account of any domain."""
        account = self._account(place, name)
        if account is None:
            return
        key = ObjectKey(place, name)
        notes = self._notes.setdefault(key, {})
        called = domain.name_in(place, new.key)
        known = notes.get(called)
        waiter = waiting.refused_by(account, new, message, self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        if known is not None:
            waiter = replace(waiter, since=known.waiter.since)
        notes[called] = _Note(
            waiter=waiter,
            template_version=new.template.version,
            was_stored=old is not None,
            is_new_template=old is None or old.template.version != new.template.version,
            refused_at=asyncio.get_running_loop().time(),
            is_listed=known is not None and known.is_listed,
        )
        if len(notes) > 4 * MOST_WAITING:
            # Twice as many as can be listed, all at once: finding the last at every refusal would cost more than it.
            first = heapq.nsmallest(2 * MOST_WAITING, notes.items(), key=lambda one: one[1].waiter.place)
            self._notes[key] = dict(first)
        self._queue.add(key)

    def learn(self, account: Account) -> None:
        """The quota as the watch saw it."""
        if (key := ObjectKey(account.namespace, account.name)) in self._notes:
            self._see(key, {one.binding for one in waiting.listed(account)})

    async def _write(self, key: ObjectKey) -> float | None:
        """Have everybody listed who is noted; when to look again, for as long as there are notes."""
        account = self._account(*key)
        notes = self._remaining(key)
        if account is None or not notes:
            self._drop(key)
            return None
        listed = waiting.listed(account)
        wanted = waiting.merge(listed, [note.waiter for note in notes.values()])
        if wanted == listed:
            return REMEMBERED_SECONDS
        if (rest := self._rest(key)) > 0:
            return rest
        return await self._saved(key, self._store.write(waiting.relisted(account, wanted)))

    def _account(self, place: str, name: str) -> Account | None:
        return next((one for one in self._accounts(place) if one.name == name), None)

    def _remaining(self, key: ObjectKey) -> dict[str, _Note]:
        now = asyncio.get_running_loop().time()
        notes = self._notes.get(key, {})
        for name, note in list(notes.items()):
            binding = self._mirror.bindings.get(domain.binding_in(key.namespace, name))
            if note.is_old(now) or note.is_over(binding):
                del notes[name]
        return notes
