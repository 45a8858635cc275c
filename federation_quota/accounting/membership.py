"""One replica's part in an account: whether it may judge by it, and what it brings when it joins (`ledger.joining`).

The committer asks here, and makes the writes. A replica that may have joined the account as it is to be keeps to that,
whatever it knows of it later: by what it has promised the account may be active.
"""

import asyncio
from collections.abc import Callable

from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import Store
from federation_quota.accounting.treasurer import Treasurer
from federation_quota.ledger import joining, legacy
from federation_quota.ledger.account import Account


class Membership:
    """One per account and replica."""

    def __init__(
        self,
        *,
        replica: Callable[[], str],
        observation: Observation,
        store: Store,
        journal: joining.Journal,
        treasurer: Treasurer,
    ) -> None:
        self._replica = replica
        self._observation = observation
        self._store = store
        self._journal = journal
        self._treasurer = treasurer
        # The shapes that this replica may have joined since it last was sure of one: by any of them the account may be
        # active, whatever is known of it here.
        self._promised: set[str] = set()

    def is_open(self, account: Account) -> bool:
        """Whether it can be judged by: active, and this replica has promised to judge by nothing else."""
        return account.is_active and self._promised <= {account.shape}

    def is_outdated(self, account: Account) -> bool:
        """Whether the account may be active by other limits than those that are known here."""
        return account.active_shape not in ("", account.shape) or not self._promised <= {account.shape}

    def has_joined(self, account: Account) -> bool:
        """Whether this replica has brought what it knows."""
        return joining.has_joined(account, self._replica())

    def join(self, account: Account) -> Account | None:
        """The account with what this replica brings, to be written at once; None where it has no space for that.

        Nothing may be awaited between the journal and the write's start. Since the account is known here, every
        admission that it sees goes through its committer: so what is brought is complete.
        """
        view, place = self._observation.view, account.namespace
        recent = self._journal.recent(place, view, asyncio.get_running_loop().time())
        known = {one.id for one in recent}
        recent += (one for one in self._treasurer.under_way() if one.id not in known)
        joined = joining.join(account, self._replica(), recent, observed=view.newest(place))
        if joined is account:
            return None
        self._treasurer.close()
        self._promised.add(account.shape)
        return joined

    async def activate(self, account: Account) -> Account | None:
        """The account, active, to be written; None where somebody has yet to join."""
        replicas = await self._store.replicas()
        active = joining.activate(legacy.execute(account, replicas, self._observation.view), replicas)
        return active if active.is_active else None

    def land(self, account: Account) -> None:
        """What `join` or `activate` gave for that account was stored: this is what it is judged by from now on."""
        self._promised = {account.shape}
