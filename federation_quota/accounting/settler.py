"""Ending what has ended in an account that nobody asks anything of.

Committers end reservations while they write anyway. This is for the rest: the controller runs it whenever a view or an
account changes, so that what people read as used is true soon after the last admission.
"""

import asyncio
from collections.abc import Collection

from federation_quota.accounting.observation import Observation
from federation_quota.accounting.roll import Roll
from federation_quota.accounting.store import Store
from federation_quota.ledger import advance, domain, settling
from federation_quota.ledger.account import Account

_MOST_REMEMBERED = 256


class Settler:
    """Of all accounts of one kind. What it finds out about replicas that are gone serves every account of theirs: one
    that dies may leave an advance with each of a thousand users."""

    def __init__(self, observation: Observation, store: Store, expiry: settling.Expiry) -> None:
        self._observation = observation
        self._store = store
        self._expiry = expiry
        self._roll = Roll(store, settling.LOOK_SECONDS)
        self._last: dict[str, int] = {}  # by replica that is gone, a version that all its admissions are stored by

    async def settle(self, account: Account) -> Account:
        """The account with all reservations and advances ended that can be; not written. A conflict passes through."""
        now = asyncio.get_running_loop().time()
        doubtful = {one.replica for one in self._expiry.doubtful(account, now)}
        present = await self._roll.call() if doubtful else None
        if present is not None and (gone := doubtful.difference(present)):
            account = advance.without(account, gone, await self._last_of(gone, account.namespace))
        expired = self._expiry.expired(account, now)
        looks = {one.id: await self._store.look(account.namespace, one.binding) for one in expired}
        return settling.settle(account, self._observation.view, looks)

    async def _last_of(self, gone: Collection[str], place: str) -> int:
        """The latest version by which all that they let through is stored, if it ever will be: of a list made since."""
        if domain.is_namespace(place):
            return max((await self._store.versions(place)).values(), default=0)
        if not self._last.keys() >= set(gone):
            latest = max((await self._store.versions(place)).values(), default=0)  # of the whole federation
            if len(self._last) > _MOST_REMEMBERED:
                self._last.clear()
            self._last.update(dict.fromkeys(gone, latest))
        return max(self._last[one] for one in gone)
