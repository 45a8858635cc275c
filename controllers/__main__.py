"""The controllers deployable: `federation-quota-controllers --help`."""

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from controllers import auditing
from controllers.accounts import AccountController
from controllers.authority import AuthorityController, GivenAuthority
from controllers.elastic.counting import Counting
from controllers.elastic.trees import TreeController
from controllers.elastic.watching import Watching, decode
from controllers.installation import Installation
from controllers.limits import Limits
from controllers.members import Members
from controllers.pending import PendingController
from controllers.removal import RemovalError, uninstall
from controllers.reporting import Reporting
from controllers.subjects import SubjectController
from controllers.titles import TitleSweeper
from controllers.trust import Publication
from controllers.unowned import Unowned
from controllers.usage import UsageTeller
from controllers.waking import WakingController
from federation_quota import dump, logs, metrics, monitoring, names
from federation_quota import settings as common
from federation_quota.accounting.lag import Lag
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey
from federation_quota.health import Health, not_stuck
from federation_quota.kube import certificates, codec, config
from federation_quota.kube.client import Client
from federation_quota.kube.elector import Elector, Leadership, LeadershipLostError
from federation_quota.kube.error import KubeError
from federation_quota.kube.events import Recorder
from federation_quota.kube.forest import ForestMirror
from federation_quota.kube.lease import elapsed
from federation_quota.kube.presence import sweep, take_roll
from federation_quota.kube.quotas import (
    COMPOSITE_ELASTIC_QUOTAS,
    ELASTIC_QUOTAS,
    KARMADA_QUOTAS,
    RESOURCE_BINDINGS,
    USAGE_ACCOUNTS,
    QuotaStore,
    decode_quota,
    decode_usage,
)
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.retry import Policy, is_repeatable
from federation_quota.kube.roster import Roster
from federation_quota.kube.workqueue import WorkQueue
from federation_quota.ledger.account import Account
from federation_quota.limits import usage
from federation_quota.limits.scheme import Schemes
from federation_quota.limits.subject import Subject
from federation_quota.placement import Placements
from federation_quota.tenants import tenant as tenants

log = structlog.get_logger()

# Long enough that a busy webhook, which writes the same statuses, is not disturbed at every admission; short enough
# that people who look after a change see it.
COALESCE_SECONDS = 0.2
# Pods come and go by the hundred where bindings change once; nobody is judged by them at once.
PODS_SECONDS = 0.5
WORKERS = 4
SWEEP_SECONDS = 30.0
# How long to leave an API server alone that could not take what the system stands on.
INSTALL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What this deployable is told."""

    common: common.Settings
    webhook_url: str
    is_warning_only: bool
    authority: Path | None  # of the certificates that the webhook is given; None: the system has its own
    uninstalls: bool  # instead of serving


def flags() -> common.Parser:
    """Everything that can be set."""
    parser = common.Parser("federation-quota-controllers", description="Keeps quotas true, and the system installed.")
    parser.common()
    parser.setting("--webhook-url", "Where the federation API server reaches the webhook: https://HOST:PORT.")
    parser.setting(
        "--certificate-authority",
        "File with the CA of the certificate that the webhook is given; default: the system's own authority.",
    )
    parser.setting("--warn-only", "As the webhook's: nothing waits for quota.", "false", ["true", "false"])
    parser.add_argument(
        "--uninstall",
        action="store_true",
        help="Remove our webhook configurations, release what is held, and exit. Quotas stay.",
    )
    return parser


def parse(arguments: list[str] | None = None) -> Settings:
    """The settings on the command line, or one clear line why they make no sense."""
    parser = flags()
    options = parser.parse_args(arguments)
    if options.uninstall:
        return Settings(common.common(options), "", is_warning_only=False, authority=None, uninstalls=True)
    if not options.webhook_url or not options.webhook_url.startswith("https://"):
        parser.error("--webhook-url is needed, and must start with https://")
    authority = Path(options.certificate_authority) if options.certificate_authority else None
    if authority and not authority.is_file():
        parser.error(f"--certificate-authority: there is no file at {authority}")
    if authority and options.metrics_authorization == "token" and not options.metrics_certificate:
        parser.error(
            "--metrics-authorization=token: without an authority of the system's own, give --metrics-certificate"
        )
    return Settings(
        common=common.common(options),
        webhook_url=options.webhook_url.rstrip("/"),
        is_warning_only=options.warn_only == "true",
        authority=authority,
        uninstalls=False,
    )


class Candidate:
    """One replica: standby with warm views, and leader when elected."""

    def __init__(self, settings: Settings, federation: Client, host: Client) -> None:
        namespace = settings.common.namespace
        self._federation = federation
        self._namespace = namespace
        self._leadership: Leadership | None = None
        # Everything below writes as the leader, or not at all.
        self._host = host  # a standby, too, asks it who may read metrics
        federation, host = federation.permitted(self._permit), host.permitted(self._permit)
        self._led = federation
        self._monitoring = settings.common.monitoring
        self._observation = Observation()
        self._lag = Lag(self._observation, asyncio.get_running_loop().time)
        self._audits = auditing.Audits()
        self._elector: Elector | None = None
        self._roster = Roster(elapsed)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("accounts", coalesce_seconds=COALESCE_SECONDS)
        self._quotas = auditing.AuditedQuotas(self._quota_stored, self._quota_deleted, self._audits.quotas)
        self._bindings = auditing.AuditedBindings(self._observation, self._binding_changed, self._audits)
        self._installation = Installation(
            federation,
            namespace=namespace,
            url=settings.webhook_url,
            system_users=settings.common.system_users,
            workloads=settings.common.workloads,
        )
        # Whoever starts finds the Leases of the dead, cannot tell since when they are, and waits for each anew: they go
        # as soon as nothing that they let through can still come.
        self._expiry_seconds = settings.common.expiry_seconds
        store = QuotaStore(
            federation,
            self._observation,
            expiry_seconds=self._expiry_seconds,
            roster=self._roster,
            presence_namespace=namespace,
            presence_selector=names.selector(names.REPLICAS),
        )
        identity = uuid.uuid4().hex
        self._recorder = Recorder(federation, component=names.SYSTEM, instance=f"{names.CONTROLLERS}-{identity}")
        reporting = Reporting(self._recorder)
        self._placements = Placements()
        self._unowned = Unowned()
        self._members = Members(federation, self._placements, self._pods_changed, self._member_changed)
        self._accounts = AccountController(
            self._quotas,
            self._bindings,
            self._observation,
            store,
            self._members,
            reporting,
            expiry_seconds=self._expiry_seconds,
        )
        self._pending = PendingController(
            self._bindings, reporting, tenant_of=self._tenant_of, on_due=self._pending_due
        )
        self._waking = WakingController(
            self._observation,
            self._bindings,
            store,
            reporting,
            is_warning_only=settings.is_warning_only,
            rests_until=self._pending.rests_until,
            tried=self._pending.tried,
        )
        quotas = Reflector(
            federation,
            KARMADA_QUOTAS,
            decode=decode_quota,
            sink=self._quotas,
            on_rewind=lambda _seen, _now: self._lag.rewind(),
        )
        self._reflectors: list[Reflector[Any]] = [
            Reflector(federation, RESOURCE_BINDINGS, decode=codec.decode_stored_binding, sink=self._bindings),
            quotas,
        ]
        self._subject_queue: WorkQueue[Subject] = WorkQueue("subjects", coalesce_seconds=COALESCE_SECONDS)
        self._limits = Limits(
            self._observation,
            self._bindings,
            self._audits.usage,
            self._usage_stored,
            self._usage_deleted,
            is_warning_only=settings.is_warning_only,
        )
        self._subjects = SubjectController(self._limits, self._observation, store, expiry_seconds=self._expiry_seconds)
        self._watching = Watching(
            self._observation,
            self._bindings,
            counting=Counting(self._members),
            hindered=self._limits.hindered,
            doubt_seconds=self._expiry_seconds,
        )
        self._forest = ForestMirror(federation, self._forest_changed, self._limits_changed)
        self._trees = TreeController(
            self._watching,
            self._forest,
            store,
            reporting,
            is_warning_only=settings.is_warning_only,
            rests_until=self._pending.rests_until,
            tried=self._pending.tried,
            fitting=self._limits.fitting,
        )
        leaves = [
            Reflector(
                federation,
                resource,
                decode=decode(resource.kind),
                sink=auditing.AuditedLeaves(self._watching.accounts, self._trees.account_changed, audit),
            )
            for resource, audit in (
                (ELASTIC_QUOTAS, self._audits.elastic),
                (COMPOSITE_ELASTIC_QUOTAS, self._audits.composites),
            )
        ]
        owned = Reflector(federation, USAGE_ACCOUNTS, decode=decode_usage, sink=self._limits.accounts)
        self._elastic: list[Reflector[Any]] = [*leaves, owned, *self._forest.reflectors]
        elastic, composites = leaves
        self._audited: auditing.Watched = [
            (self._audits.quotas, [quotas]),
            (self._audits.elastic, [elastic]),
            (self._audits.composites, [composites]),
            # What an account limits stands on quotas and trees.
            (self._audits.usage, [owned, *self._forest.reflectors[:3]]),
        ]
        self._trust = certificates.PublishedTrust(federation)
        publication = Publication(self._installation.ensure_hooks, self._installation.read_hooks, self._has_webhook)
        self._authority: AuthorityController | GivenAuthority = AuthorityController(host, namespace, publication)
        if settings.authority:
            self._authority = GivenAuthority(settings.authority, publication)
        self._identity = identity
        self._titles = TitleSweeper(federation, namespace, elapsed)
        self._health = Health(
            ready={"views": self._why_not_synced, "trust": self._trust.why_not},
            live={
                "accounts": not_stuck(self._queue.busy_seconds),
                "subjects": not_stuck(self._subject_queue.busy_seconds),
                "waking": not_stuck(self._waking.busy_seconds),
                "trees": not_stuck(self._trees.busy_seconds),
                "pending": not_stuck(self._pending.busy_seconds),
            },
        )

    async def run(self) -> None:
        """Keep the views warm, stand for election, and do the leader's work whenever elected."""
        async with asyncio.TaskGroup() as tasks:
            usage = UsageTeller(lambda: self._forest.forest, lambda: self._bindings.bindings, self._why_not_known)
            monitor = monitoring.build(
                self._monitoring,
                self._health,
                self._sample,
                host=self._host,
                namespace=self._namespace,
                tasks=tasks,
                guarded=usage.routes(),
            )
            dump.on_signal(names.CONTROLLERS, {**self._parts(), "monitor": monitor.describe})
            async with monitor:
                await self._stand(tasks)

    async def _stand(self, tasks: asyncio.TaskGroup) -> None:
        # A client of its own: behind other requests it could renew too late.
        async with Client(self._federation.connection, connections=4) as client:
            await _persistently(lambda: self._installation.ensure_namespace(client))
            self._elector = elector = Elector(
                client, self._namespace, names.LEADER_LEASE, identity=self._identity, on_overstay=_end_process
            )
            for reflector in (*self._reflectors, *self._elastic, *self._trust.reflectors):
                tasks.create_task(reflector.run())
            tasks.create_task(self._members.run())
            tasks.create_task(auditing.listen(self._audited, self._observation))
            await elector.run(self._lead)

    async def _lead(self, leadership: Leadership) -> None:
        log.info("controllers.leading", token=leadership.token)
        self._leadership = leadership
        await _persistently(self._installation.ensure_kinds)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._authority.run())
            tasks.create_task(self._sweep())
            for reflector in self._reflectors:
                await reflector.synced.wait()
            for _ in range(WORKERS):
                tasks.create_task(self._queue.serve(self._accounts.reconcile))
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._wake())
            tasks.create_task(self._pending.run(self._led))
            tasks.create_task(self._keep_trees())

    async def _keep_trees(self) -> None:
        for reflector in self._elastic:
            await reflector.synced.wait()
        async with (
            asyncio.TaskGroup() as tasks,
            Client(self._federation.connection, retry=Policy(attempts=1)) as client,
        ):
            for _ in range(WORKERS):
                tasks.create_task(self._subject_queue.serve(self._subjects.reconcile))
            await self._trees.run(client.permitted(self._permit))

    async def _wake(self) -> None:
        """With a client of its own: what cannot be done at once is decided on anew, not tried again as it was."""
        async with Client(self._federation.connection, retry=Policy(attempts=1)) as client:
            await self._waking.run(client.permitted(self._permit))

    def _permit(self) -> None:
        """Whether this may write now. A leader that slept through its term learns it here, before it writes."""
        if self._leadership is None:
            raise LeadershipLostError("this replica does not lead")
        self._leadership.check()

    async def _sweep(self) -> None:
        """Leases of replicas that are gone pile up otherwise, and hold up new quotas whenever a replica starts."""
        while True:
            try:
                await take_roll(self._led, self._namespace, names.selector(names.REPLICAS), self._roster)
                await sweep(self._led, self._namespace, self._roster, gone_seconds=2 * self._expiry_seconds)
                if self._forest.is_synced:
                    await self._titles.sweep({self._tenant_of(name) for name in self._forest.namespaces.items})
            except KubeError as problem:
                log.warning("presence.not_swept", problem=str(problem))
            await asyncio.sleep(SWEEP_SECONDS)

    async def _has_webhook(self) -> bool:
        await take_roll(self._federation, self._namespace, names.selector(names.REPLICAS), self._roster)
        return bool(self._roster.live())

    @property
    def _leads(self) -> bool:
        leadership = self._elector.leadership if self._elector else None
        return leadership is not None and leadership.is_valid()

    def _why_not_synced(self) -> str:
        is_synced = all(reflector.synced.is_set() for reflector in self._reflectors)
        return "" if is_synced else "bindings and quotas are still being read"

    def _why_not_known(self) -> str:
        return self._why_not_synced() or ("" if self._forest.is_synced else "quotas and trees are still being read")

    def _sample(self) -> None:
        """What is told about quotas is told by one replica, the leader: otherwise sums would count them twice."""
        leads = self._leads
        accounts = tuple(self._quotas.accounts.values()) if leads else ()
        metrics.leader.set(leads)
        metrics.view_lag_seconds.set(self._lag.seconds())
        owned = tuple(self._limits.accounts.accounts.values()) if leads else ()
        metrics.quota_amounts.show(accounts)
        metrics.usage_amounts.show(owned)
        metrics.reservations.set(sum(len(account.reservations) for account in (*accounts, *owned)))
        oldest = max(self._accounts.oldest_seconds(), self._subjects.oldest_seconds())
        metrics.reservation_oldest_seconds.set(oldest if leads else 0.0)
        waiting, held = self._waking.counts() if leads else (0, 0)
        metrics.waiting.set(waiting)
        metrics.held.set(held + (self._trees.held() if leads else 0))
        metrics.unowned.set(self._unowned.count if leads else 0)
        metrics.member_stale.clear()  # some may have left the federation
        for cluster, problem in self._members.problems().items():
            metrics.member_stale.labels(cluster).set(bool(problem))

    def _parts(self) -> dict[str, dump.Part]:
        """What SIGUSR2 shows."""
        view = self._observation.view
        reflectors = [*self._reflectors, *self._elastic, *self._trust.reflectors]
        return {
            "not_ready": self._health.why_not_ready,
            "leadership": lambda: self._elector.describe() if self._elector else None,
            "view": lambda: {**dump.describe_view(view), "lag_seconds": self._lag.seconds()},
            "accounts": lambda: [
                dump.describe_account(account, view, self._accounts.age_seconds)
                for _, account in sorted(self._quotas.accounts.items())
            ],
            "subjects": lambda: [
                dump.describe_account(account, view, self._subjects.age_seconds)
                for _, account in sorted(self._limits.accounts.accounts.items())
            ],
            "queues": lambda: [
                self._queue.describe(),
                self._subject_queue.describe(),
                *self._waking.describe(),
                self._trees.describe(),
                self._pending.describe(),
            ],
            "reflectors": lambda: [one.describe() for one in reflectors],
        }

    def _quota_stored(self, account: Account) -> None:
        self._lag.hear(account.observed)
        self._waking.quota_stored(account)
        self._queue.add(ObjectKey(account.namespace, account.name))

    def _quota_deleted(self, namespace: str, name: str, _version: int) -> None:
        self._waking.quota_deleted(namespace, name)
        self._queue.add(ObjectKey(namespace, name))

    def _usage_stored(self, account: Account) -> None:
        self._lag.hear(account.observed)
        self._waking.quota_stored(account)
        self._subject_changed(usage.kept(account).subject)

    def _usage_deleted(self, subject: Subject) -> None:
        self._waking.quota_deleted(subject.domain, subject.account)
        self._subject_changed(subject)

    def _subject_changed(self, subject: Subject) -> None:
        self._subject_queue.add(subject)
        self._trees.owner_changed(subject.tree)

    def _limits_changed(self, schemes: Schemes) -> None:
        if self._limits.limit(schemes):
            self._waking.fit(schemes)
            for subject in self._limits.everybody():
                self._subject_queue.add(subject)

    def _forest_changed(self) -> None:
        self._trees.forest_changed()

    def _tenant_of(self, namespace: str) -> str:
        known = self._forest.namespaces.items.get(namespace)
        return tenants.of(namespace, known.value.labels if known else {})

    def _pending_due(self, binding: Binding) -> None:
        """What a validator refused may be tried: by its tree, or by who wakes."""
        if binding.stamp.leaf:
            self._trees.account_changed(binding.stamp.leaf)
        self._waking.look_at(binding.key.namespace)

    def _pods_changed(self, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            for name in self._quotas.names(namespace):
                self._queue.add_after(ObjectKey(namespace, name), PODS_SECONDS)
        self._trees.pods_changed(namespaces)

    def _member_changed(self, _cluster: str) -> None:
        for key in self._quotas.accounts:
            self._queue.add(key)
        self._trees.member_changed()

    def _binding_changed(self, before: Binding | None, after: Binding | None) -> None:
        self._placements.change(before, after)
        self._unowned.binding_changed(before, after)
        self._pending.binding_changed(before, after)
        self._waking.binding_changed(before, after)
        self._trees.binding_changed(before, after)
        subjects = self._limits.subjects(before, after)
        self._waking.owners_changed(one.domain for one in subjects)
        for subject in subjects:
            self._subject_queue.add(subject)
        binding = after or before
        if binding is None:
            return
        for name in self._quotas.names(binding.key.namespace):
            self._queue.add(ObjectKey(binding.key.namespace, name))


async def _persistently(ensure: Callable[[], Awaitable[None]]) -> None:
    """Until it is done: a server that is away for a while, or in trouble, is no reason to end. One that refuses is."""
    while True:
        try:
            return await ensure()
        except KubeError as problem:
            if not is_repeatable(problem, is_idempotent=True):
                raise
            log.warning("installation.failed", problem=str(problem))
        await asyncio.sleep(INSTALL_SECONDS)


def _end_process() -> None:
    """The work of a leader that was voted out does not stop: two must never act, so this process ends."""
    log.error("controllers.overstayed")
    os._exit(1)


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with contextlib.AsyncExitStack() as stack:
        federation = await stack.enter_async_context(Client(await config.load(kubeconfig=settings.common.kubeconfig)))
        host = federation
        if settings.common.host_kubeconfig:
            host = await stack.enter_async_context(
                Client(await config.load(kubeconfig=settings.common.host_kubeconfig))
            )
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(Candidate(settings, federation, host).run())
            await stopping.wait()
            log.info("controllers.stopping")
            work.cancel()


def main() -> None:
    """The console script."""
    settings = parse()
    if settings.uninstalls:
        try:
            asyncio.run(uninstall(settings.common))
        except (KubeError, RemovalError) as left:
            raise SystemExit(f"not uninstalled, run it again: {left}") from None
        return
    metrics.keep(metrics.CONTROLLERS)
    try:
        asyncio.run(serve(settings))
    except* Exception as problems:
        for problem in logs.causes(problems):
            log.error("controllers.ended", problem=str(problem), kind=type(problem).__name__)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
