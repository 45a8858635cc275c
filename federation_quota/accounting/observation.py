"""A view that can be waited on."""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from itertools import count

from federation_quota.ledger.claim import Claim
from federation_quota.ledger.view import Entry, View


class Observation:
    """One component's view, fed by its watch, and those who wait for it to get somewhere."""

    def __init__(self) -> None:
        self.view = View()
        self._by_version: list[tuple[int, int, asyncio.Future[None]]] = []
        # In the order in which they came: who is woken first must not depend on where a future lies in memory.
        self._by_namespace: dict[str, dict[asyncio.Future[None], None]] = {}
        self._changes = 0
        self._order = count()  # futures do not compare: this breaks ties

    def upsert(self, namespace: str, name: str, entry: Entry) -> None:
        """A binding was stored."""
        owners = self._owners(namespace, name, entry)
        self.view.upsert(namespace, name, entry)
        self._wake(namespace, *owners)

    def delete(self, namespace: str, name: str, uid: str, version: int) -> None:
        """A binding was deleted."""
        owners = self._owners(namespace, name, None)
        self.view.delete(namespace, name, uid, version)
        self._wake(namespace, *owners)

    def replace(self, entries: Iterable[tuple[str, str, Entry]], version: int) -> None:
        """Everything was listed anew."""
        self.view.replace(entries, version)
        self._changes += 1
        self._wake(*list(self._by_namespace))

    def charge_to(self, domains_of: Callable[[Claim], Iterable[str]] | None) -> None:
        """Claims are charged to others than before, beside the accounts of their namespaces."""
        self.view.charge_to(domains_of)
        self._changes += 1
        self._wake(*list(self._by_namespace))

    def reach(self, version: int) -> None:
        """A bookmark came."""
        self.view.reach(version)
        self._wake()

    async def reached(self, version: int) -> None:
        """Return when the view has seen everything up to that version."""
        if self.view.version >= version:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._by_version, (version, next(self._order), future))
        await future

    @property
    def changes(self) -> int:
        """How many changes there have been, for `changed`."""
        return self._changes

    async def changed(self, namespace: str, since: int) -> None:
        """Return at the next change in a namespace; at once where anything changed since that count."""
        if self._changes != since:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._by_namespace.setdefault(namespace, {})
        waiting[future] = None
        try:
            await future
        finally:
            waiting.pop(future, None)

    def _owners(self, namespace: str, name: str, entry: Entry | None) -> Iterable[str]:
        """Where else it is news: with those who pay for it, or did."""
        if not self.view.has_owners:
            return ()
        known = (self.view.get(namespace, name), entry)
        return dict.fromkeys(place for one in known if one is not None for place in self.view.domains_of(one.claim))

    def _wake(self, *namespaces: str) -> None:
        while self._by_version and self._by_version[0][0] <= self.view.version:
            _resolve(heapq.heappop(self._by_version)[2])
        self._changes += bool(namespaces)
        for namespace in namespaces:
            for future in self._by_namespace.pop(namespace, ()):
                _resolve(future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
