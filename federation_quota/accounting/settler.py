"""Ending what has ended in an account that nobody asks anything of.

Committers end reservations while they write anyway. This is for the rest: the controller runs it whenever a view or an
account changes, so that what people read as used is true soon after the last admission.
"""

import asyncio

from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import Store
from federation_quota.ledger import advance, settling
from federation_quota.ledger.account import Account


async def settle(account: Account, observation: Observation, expiry: settling.Expiry, store: Store) -> Account:
    """The account with all reservations and advances ended that can be; not written. ConflictError passes through."""
    now = asyncio.get_running_loop().time()
    doubtful = {one.replica for one in expiry.doubtful(account, now)}
    if doubtful:
        gone = doubtful - (await store.replicas()).keys()
        if gone:
            # All that they let through is stored by now, or never will be: this list has it.
            stored = await store.versions(account.namespace)
            account = advance.without(account, gone, max(stored.values(), default=0))
    looks = {one.id: await store.look(account.namespace, one.binding) for one in expiry.expired(account, now)}
    return settling.settle(account, observation.view, looks)
