"""Keeps every quota's status true: what is used, and no reservation longer than it is needed.

Triggered by every change of a quota or of a binding in its namespace, coalesced. Webhook replicas write the same
statuses while they admit; here is for what nobody asks about: deletions, scale-downs, and requests that never came.
"""

import asyncio

import structlog

from federation_quota import karmadaquota
from federation_quota.accounting import settler, store
from federation_quota.accounting.observation import Observation
from federation_quota.binding import ObjectKey
from federation_quota.kube.mirrors import QuotaMirror
from federation_quota.kube.quotas import QuotaStore
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.settling import EXPIRY_SECONDS, Expiry

log = structlog.get_logger()


class AccountController:
    """Reconciles one quota at a time."""

    def __init__(self, quotas: QuotaMirror, observation: Observation, store: QuotaStore) -> None:
        self._quotas = quotas
        self._observation = observation
        self._store = store
        self._expiry = Expiry()

    def age_seconds(self, account: Account, identifier: str) -> float | None:
        """How long that reservation has been seen here."""
        return self._expiry.age_seconds(account, identifier, asyncio.get_running_loop().time())

    def oldest_seconds(self) -> float:
        """How long the oldest reservation has been seen here."""
        return self._expiry.oldest_seconds(asyncio.get_running_loop().time())

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Bring the status in line; when to look again, if by time alone."""
        account = self._quotas.accounts.get(key)
        if account is None:
            self._expiry.forget(*key)
            return None
        if self._observation.view.version < account.observed:
            return 0.1
        try:
            settled = await settler.settle(account, self._observation, self._expiry, self._store)
            wanted = karmadaquota.status(settled, Books(settled, self._observation.view).used)
            if wanted != dict(karmadaquota.quota(account).status):
                await self._store.write(settled)
        except store.ConflictError:
            return 0.05  # somebody else wrote: the watch brings it
        except store.UnreachableError as problem:
            log.warning("account.not_written", quota=str(key), problem=str(problem))
            return 1.0
        return EXPIRY_SECONDS / 4 if settled.reservations else None
