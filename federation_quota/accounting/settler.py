"""Ending what has ended in an account that nobody asks anything of.

Committers end reservations while they write anyway. This is for the rest: the controller runs it whenever a view or an
account changes, so that what people read as used is true soon after the last admission.
"""

import asyncio

from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import Store
from federation_quota.ledger import settling
from federation_quota.ledger.account import Account


async def settle(account: Account, observation: Observation, expiry: settling.Expiry, store: Store) -> Account:
    """The account with all reservations ended that can be; not written. ConflictError and the like pass through."""
    expired = expiry.expired(account, asyncio.get_running_loop().time())
    looks = {one.id: await store.look(account.namespace, one.binding) for one in expired}
    return settling.settle(account, observation.view, looks)
