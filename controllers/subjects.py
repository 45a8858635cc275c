"""Keeps the accounts of users and groups: made where they are needed, true, and removed where nobody needs them.

Triggered by every change of an account, of a binding that is charged to it, and of limits, coalesced. The webhook opens
accounts as well, when somebody asks, and writes the same statuses; here is for what nobody asks about: limits that
come, change and go beside what runs, deletions, scale-downs, requests that never came.

An account may go at any time at which nothing is reserved in it: it is deleted at the very version that says so, and
whoever opens it anew has to be joined by every replica before anything is admitted there.
"""

import asyncio
from typing import Final, Protocol

import structlog

from controllers.limits import Limits
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.settler import Settler
from federation_quota.accounting.store import ConflictError, Store, UnreachableError
from federation_quota.binding import ObjectKey
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.settling import EXPIRY_SECONDS, Expiry
from federation_quota.limits import usage
from federation_quota.limits.subject import Subject
from federation_quota.pace import Pace

log = structlog.get_logger()

# In busy times one write says what many would have said. Nothing is decided by it: webhooks judge by their own views.
PACE_SECONDS: Final = 1.0
MOST_WRITES_PER_SECOND: Final = 10.0
MOST_WRITES_AT_ONCE: Final = 20.0
LONGEST_WAIT_SECONDS: Final = 20.0  # there may be a thousand busy users
# Who comes and goes finds their account there: opening one takes a write of every replica.
IDLE_SECONDS: Final = 300.0
# A webhook may have heard of a limit, and opened an account for it, a moment before this replica.
UNLIMITED_SECONDS: Final = 2.0


class Accounts(Store, Protocol):
    """A store whose accounts can be removed."""

    async def close(self, account: Account) -> None:
        """Delete the account, if it is still as it was read; ConflictError if not."""


class SubjectController:
    """Reconciles the account of one user or group at a time."""

    def __init__(
        self,
        limits: Limits,
        observation: Observation,
        accounts: Accounts,
        pace: Pace | None = None,
        expiry_seconds: float = EXPIRY_SECONDS,
    ) -> None:
        self._limits = limits
        self._observation = observation
        self._store = accounts
        self._expiry = Expiry(expiry_seconds)
        self._settler = Settler(observation, accounts, self._expiry)
        self._pace = pace or Pace(
            seconds=PACE_SECONDS,
            per_second=MOST_WRITES_PER_SECOND,
            burst=MOST_WRITES_AT_ONCE,
            longest_seconds=LONGEST_WAIT_SECONDS,
        )
        self._idle_since: dict[Subject, float] = {}

    def age_seconds(self, account: Account, identifier: str) -> float | None:
        """How long that reservation has been seen here."""
        return self._expiry.age_seconds(account, identifier, asyncio.get_running_loop().time())

    def oldest_seconds(self) -> float:
        """How long the oldest reservation has been seen here."""
        return self._expiry.oldest_seconds(asyncio.get_running_loop().time())

    async def reconcile(self, subject: Subject) -> float | None:
        """Bring their account in line; when to look again, if by time alone."""
        key = ObjectKey(subject.domain, subject.account)
        account = self._limits.accounts.accounts.get(key)
        if self._limits.is_needed(subject, account):
            self._idle_since.pop(subject, None)
        try:
            if account is None:
                await self._open(subject)
                return None  # the watch brings it
            if self._observation.view.version < account.observed:
                return 0.1
            return await self._keep(subject, account)
        except ConflictError:
            return 0.05  # somebody else wrote: the watch brings it
        except UnreachableError as problem:
            log.warning("subject.not_written", account=subject.account, problem=str(problem))
            return 1.0

    async def _open(self, subject: Subject) -> None:
        self._expiry.forget(subject.domain, subject.account)
        self._idle_since.pop(subject, None)
        self._pace.passed(subject)
        if self._limits.is_needed(subject, None):
            await self._store.open(subject)
            log.info("subject.opened", tree=subject.tree, kind=subject.kind, name=subject.name)

    async def _keep(self, subject: Subject, account: Account) -> float | None:
        now = asyncio.get_running_loop().time()
        if wait := self._pace.wait_seconds(subject, now):
            return wait
        settled = await self._settler.settle(account)
        wanted = usage.status(settled, Books(settled, self._observation.view).used)
        if wanted != dict(usage.kept(account).status):
            self._pace.done(subject, now)
            await self._store.write(settled)
            return None  # the watch brings it
        self._pace.passed(subject)
        if account.reservations:
            return self._expiry.seconds / 4
        due = await self._close(subject, account, now)
        # Whoever holds an advance is looked for now and then; it keeps no account from being removed.
        return self._expiry.seconds if due is None and account.advances else due

    async def _close(self, subject: Subject, account: Account, now: float) -> float | None:
        """Remove the account if nobody has needed it for a while; when to look again."""
        if self._limits.is_needed(subject, account):
            return None
        patience = IDLE_SECONDS if self._limits.is_limited(subject) else UNLIMITED_SECONDS
        due = self._idle_since.setdefault(subject, now) + patience
        if now < due:
            return due - now
        await self._store.close(account)
        log.info("subject.closed", tree=subject.tree, kind=subject.kind, name=subject.name)
        return None
