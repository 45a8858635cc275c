"""Keeps every quota's status true: what is used, no reservation longer than it is needed, and what members use of it.

Triggered by every change of a quota, or of a binding or a pod in its namespace, coalesced. Webhook replicas write the
same statuses while they admit; here is for what nobody asks about: deletions, scale-downs, requests that never came.
"""

import asyncio
from datetime import UTC, datetime, timedelta

import structlog

from controllers.members import Members
from controllers.reporting import Reporting
from federation_quota import karmadaquota, member_usage, undercount
from federation_quota.accounting import store
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.settler import Settler
from federation_quota.binding import ObjectKey
from federation_quota.kube.mirrors import BindingMirror, QuotaMirror
from federation_quota.kube.quotas import QuotaStore
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.settling import EXPIRY_SECONDS, Expiry
from federation_quota.pace import Pace

log = structlog.get_logger()

# How old the time of the last look at a member may become in a status before that alone is worth a write.
LAST_SEEN_SECONDS = 600.0
MOST_UNDERCOUNTS = 8
# In busy times one write says what many would have said. Nothing is decided by it: webhooks judge by their own views.
PACE_SECONDS = 1.0
MOST_WRITES_PER_SECOND = 10.0  # and more, where a status would else be older than the longest wait
MOST_WRITES_AT_ONCE = 20.0
LONGEST_WAIT_SECONDS = 5.0


class AccountController:
    """Reconciles one quota at a time."""

    def __init__(
        self,
        quotas: QuotaMirror,
        bindings: BindingMirror,
        observation: Observation,
        store: QuotaStore,
        members: Members,
        reporting: Reporting,
        pace: Pace | None = None,
        expiry_seconds: float = EXPIRY_SECONDS,
    ) -> None:
        self._quotas = quotas
        self._bindings = bindings
        self._observation = observation
        self._store = store
        self._members = members
        self._reporting = reporting
        self._expiry = Expiry(expiry_seconds)
        self._settler = Settler(observation, store, self._expiry)
        self._pace = pace or Pace(
            seconds=PACE_SECONDS,
            per_second=MOST_WRITES_PER_SECOND,
            burst=MOST_WRITES_AT_ONCE,
            longest_seconds=LONGEST_WAIT_SECONDS,
        )
        self._watches: dict[ObjectKey, member_usage.Watch] = {}

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
            self._watches.pop(key, None)
            self._pace.passed(key)
            return None
        if self._observation.view.version < account.observed:
            return 0.1
        now = asyncio.get_running_loop().time()
        if wait := self._pace.wait_seconds(key, now):
            return wait
        try:
            settled = await self._settler.settle(account)
            news: list[undercount.Undercount] = []
            if self._members.synced.is_set():  # until then what the status says of members stands
                settled, news = self._with_members(key, settled)
            wanted = karmadaquota.status(settled, Books(settled, self._observation.view).used)
            if wanted != dict(karmadaquota.quota(account).status):
                self._pace.done(key, now)
                await self._store.write(settled)
                for one in news:
                    self._reporting.undercounted(one)
            else:
                self._pace.passed(key)
        except store.ConflictError:
            return 0.05  # somebody else wrote: the watch brings it
        except store.UnreachableError as problem:
            log.warning("account.not_written", quota=str(key), problem=str(problem))
            return 1.0
        return self._next_look(key, settled)

    def _with_members(self, key: ObjectKey, account: Account) -> tuple[Account, list[undercount.Undercount]]:
        """The account with what is known of the members, and what is to be said for the first time."""
        quota, now = karmadaquota.quota(account), datetime.now(UTC)
        shape = f"{account.uid} {account.shape}"
        watch = self._watches.get(key)
        if watch is None or watch.shape != shape:
            watch = self._watches[key] = member_usage.Watch(shape)
        figures = member_usage.compile_figures(
            account,
            member_usage.read(quota.status),
            self._members.sightings(account.namespace, account.lens),
            watch,
            now=asyncio.get_running_loop().time(),
            grace_seconds=quota.grace_seconds,
            is_old=lambda text: datetime.fromisoformat(text) < now - timedelta(seconds=LAST_SEEN_SECONDS),
        )
        undercounts = [
            one
            for cluster in figures
            if cluster.unbound
            for one in undercount.find(
                cluster.name,
                account.namespace,
                self._members.sorts(cluster.name, account.namespace),
                self._bindings.bindings,
                cluster.unbound,
            )
            if account.selector.matches(one.binding.stamp.priority_class)
        ][:MOST_UNDERCOUNTS]
        findings = [
            member_usage.members_ready(figures),
            member_usage.unbound_usage(
                account, figures, is_charged=quota.charges_unbound, undercounts=[str(one) for one in undercounts]
            ),
        ]
        said = " ".join(one["message"] for one in quota.status.get("conditions") or ())
        news = [one for one in undercounts if str(one) not in said]
        if not member_usage.names_of_pods(account):
            figures, findings = [], []
        return karmadaquota.with_members(account, figures, findings, now.strftime("%Y-%m-%dT%H:%M:%SZ")), news

    def _next_look(self, key: ObjectKey, account: Account) -> float | None:
        looks = [self._expiry.seconds / 4] if account.reservations or account.advances else []
        watch = self._watches.get(key)
        if watch is not None:
            now = asyncio.get_running_loop().time()
            turn = member_usage.next_change(watch, now, karmadaquota.quota(account).grace_seconds)
            looks += [] if turn is None else [turn + 0.001]
            looks += [LAST_SEEN_SECONDS] if karmadaquota.quota(account).status.get("clusters") else []
        return min(looks, default=None)
