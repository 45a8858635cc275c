"""The webhook deployable: `federation-quota-webhook --help`."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from federation_quota import dump, hooks, karmadaquota, logs, metrics, monitoring, names
from federation_quota import settings as common
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.lag import Lag
from federation_quota.accounting.observation import Observation
from federation_quota.elastic.underway import Identity
from federation_quota.health import Check, Health, failing, not_stuck
from federation_quota.identity import EVERYBODY, Identities
from federation_quota.kube import certificates, codec, config, legacies
from federation_quota.kube.client import Client
from federation_quota.kube.discovery import Discovery
from federation_quota.kube.forest import NAMESPACES, ForestMirror, Ledgers
from federation_quota.kube.lease import elapsed
from federation_quota.kube.mirrors import PRIORITY_CLASSES, BindingMirror, PriorityMirror, QuotaMirror
from federation_quota.kube.presence import Presence
from federation_quota.kube.quotas import (
    KARMADA_QUOTAS,
    RESOURCE_BINDINGS,
    USAGE_ACCOUNTS,
    QuotaStore,
    decode_quota,
    decode_usage,
    resource_of,
)
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.resource import Resource
from federation_quota.kube.roster import Roster
from federation_quota.kube.underway import SharedUnderway
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.reservation import Reservation
from federation_quota.monitoring import Address, Monitor
from federation_quota.pki.serving import CertificateKeeper, ReloadableContext
from federation_quota.room import Room
from federation_quota.validators import Validator, registry
from webhook import assignment, loading
from webhook.advice import Advice
from webhook.asks import AskList
from webhook.bindings import BindingReview
from webhook.deliberation import Deliberation
from webhook.elastic import ElasticReview
from webhook.holding import Holding
from webhook.identity import IdentityReview
from webhook.leaves import Leaves
from webhook.namespaces import NamespaceReview, runs_uncharged
from webhook.pending import PendingList, writer
from webhook.prospects import Prospects
from webhook.quotas import QuotaReview
from webhook.server import Server
from webhook.stamping import Stamping
from webhook.validators import Validators
from webhook.waiting import WaitingList
from webhook.works import WorkReview
from webhook.writers import refuse_account, refuse_writer

log = structlog.get_logger()

READY_LOOK_SECONDS = 0.1
LONGEST_VALIDATION_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What this deployable is told."""

    common: common.Settings
    address: Address
    server_names: tuple[str, ...]
    certificate: Path | None
    key: Path | None
    identities: Identities
    is_warning_only: bool
    shares_port: bool
    drain_seconds: float
    validators: tuple[Validator, ...]  # that are on
    validator_settings: Mapping[str, Mapping[str, str]]  # by validator
    validator_seconds: float


def flags() -> common.Parser:
    """Everything that can be set."""
    parser = common.Parser("federation-quota-webhook", description="Decides on ResourceBindings: is there quota?")
    parser.common()
    parser.setting("--listen", "Address and port to serve on.", "0.0.0.0:8443")
    parser.setting("--server-names", "DNS names and IPs, comma separated, that API servers call it by.", "localhost")
    parser.setting("--certificate", "File with a certificate chain to serve, instead of one of the system's own.")
    parser.setting("--key", "File with its key.")
    parser.setting(
        "--ownerless-users", "Users, comma separated, whose workloads have no owner, and no user's limit.", ""
    )
    parser.setting(
        "--ownerless-groups", "The same for everybody in one of these groups: system:serviceaccounts:ci.", ""
    )
    parser.setting(
        "--service-accounts",
        "Whether those of a namespace are one owner, system:serviceaccounts:NAMESPACE, or each is one.",
        "namespace",
        ["namespace", "each"],
    )
    parser.setting(
        "--ignored-groups",
        "Groups, comma separated, that are not kept of an owner; `ad:*` for all that begin so. No limit is about them.",
        EVERYBODY,
    )
    parser.setting(
        "--owner-administrators",
        "Users, comma separated, who may write themselves whose a workload is: not those who apply what others wrote.",
        "",
    )
    parser.setting("--warn-only", "Let everything through and only warn: the break-glass.", "false", ["true", "false"])
    parser.setting("--share-port", "Share the port with other replicas on this machine.", "false", ["true", "false"])
    parser.setting("--drain-seconds", "How long to go on answering after a request to end.", "5")
    parser.setting("--validators", "Names, comma separated, of the installed validators to ask.", "")
    parser.setting("--validator-settings", "What they are told: VALIDATOR.KEY=VALUE, comma separated.", "")
    parser.setting("--validator-seconds", "How long a validator may take for an answer.", "2")
    return parser


def parse(arguments: list[str] | None = None) -> Settings:
    """The settings on the command line, or one clear line why they make no sense."""
    parser = flags()
    options = parser.parse_args(arguments)
    try:
        address = Address.parse(options.listen)
    except ValueError as problem:
        parser.error(f"--listen: {problem}")
    if bool(options.certificate) != bool(options.key):
        parser.error("--certificate and --key go together")
    try:
        drain_seconds = float(options.drain_seconds)
    except ValueError:
        parser.error(f"--drain-seconds {options.drain_seconds!r} is not a number")
    validator_seconds = _limit(parser, options.validator_seconds)
    wanted = common.names(options.validators)
    try:
        validator_settings = registry.settings(options.validator_settings, wanted)
        validators = loading.load(wanted)
    except registry.ValidatorError as problem:
        raise SystemExit(f"{parser.prog}: {problem}") from None
    return Settings(
        common=common.common(options),
        address=address,
        server_names=common.names(options.server_names),
        certificate=Path(options.certificate) if options.certificate else None,
        key=Path(options.key) if options.key else None,
        identities=Identities(
            frozenset(common.names(options.ownerless_users)),
            frozenset(common.names(options.ownerless_groups)),
            common.names(options.ignored_groups),
            frozenset(common.names(options.owner_administrators)),
            options.service_accounts == "namespace",
        ),
        is_warning_only=options.warn_only == "true",
        shares_port=options.share_port == "true",
        drain_seconds=drain_seconds,
        validators=validators,
        validator_settings=validator_settings,
        validator_seconds=validator_seconds,
    )


def _limit(parser: common.Parser, text: str) -> float:
    """A time limit that leaves the rest of a review some time."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_VALIDATION_SECONDS:
        parser.error(f"--validator-seconds {text!r}: it is a number, at most {LONGEST_VALIDATION_SECONDS:g}")
    return seconds


class _Meter:
    """What the accountant does, counted."""

    def committed(self, admissions: int) -> None:
        """One write was stored."""
        if admissions:
            metrics.batch_size.observe(admissions)

    def spent(self, account: Account, reservation: Reservation) -> None:
        """One was admitted without a write."""
        metrics.advance_admissions.inc()


class Replica:
    """One replica, wired together."""

    def __init__(self, settings: Settings, federation: Client, host: Client, tasks: asyncio.TaskGroup) -> None:
        self._settings = settings
        self._federation = federation
        self._host = host
        self._tasks = tasks
        self._context = ReloadableContext()
        namespace = settings.common.namespace
        self._observation = observation = Observation()
        self._lag = Lag(observation, asyncio.get_running_loop().time)
        roster = Roster(elapsed)
        self._presence = Presence(
            federation,
            namespace,
            prefix="webhook",
            labels=names.REPLICAS,
            prepare=self._prepare,
            legacy=lambda: legacies.encode(self._accountant.legacy()),
        )
        store = QuotaStore(
            federation,
            observation,
            roster=roster,
            presence_namespace=namespace,
            presence_selector=names.selector(names.REPLICAS),
            identity=self._identity,
            expiry_seconds=settings.common.expiry_seconds,
        )
        self._accountant = Accountant(
            replica=lambda: self._presence.incarnation,
            observation=observation,
            store=store,
            tasks=tasks,
            is_present=self._presence.is_current,
            meter=_Meter(),
            expiry_seconds=settings.common.expiry_seconds,
        )
        priorities = PriorityMirror()
        mirror = BindingMirror(observation)
        self._bindings = Reflector(federation, RESOURCE_BINDINGS, decode=codec.decode_stored_binding, sink=mirror)
        self._quotas = Reflector(
            federation,
            KARMADA_QUOTAS,
            decode=decode_quota,
            sink=QuotaMirror(self._quota_stored, self._accountant.forget),
            on_rewind=lambda _seen, _now: self._rewind(KARMADA_QUOTAS),
        )
        self._usage = Reflector(
            federation,
            USAGE_ACCOUNTS,
            decode=decode_usage,
            sink=QuotaMirror(self._quota_stored, self._accountant.forget),
            on_rewind=lambda _seen, _now: self._rewind(USAGE_ACCOUNTS),
        )
        self._leaves = Leaves(
            roots=lambda: self._forest.trees.values,
            labels=self._labels,
            look=self._look_at_labels,
            on_stored=self._leaf_stored,
            on_deleted=self._accountant.forget,
        )
        self._forest = ForestMirror(
            federation,
            on_limits=self._accountant.limit,
            ledgers=Ledgers(
                lambda _resource: QuotaMirror(self._leaves.quota_stored, self._leaves.quota_deleted), self._rewind
            ),
        )
        self._changes = SharedUnderway(federation, namespace)
        self._waiting = WaitingList(self._accountant.accounts, mirror, store)
        self._asks = AskList(self._leaf, mirror, store)
        self._pending = PendingList(mirror, writer(federation))
        self._validators = Validators(
            settings.validators,
            federation,
            namespace,
            presence=self._presence,
            store=store,
            observation=observation,
            labels=self._labels,
            look=self._look_at_labels,
            namespaces=self._forest.namespaces,
            limit_seconds=settings.validator_seconds,
            expiry_seconds=settings.common.expiry_seconds,
            is_warning_only=settings.is_warning_only,
        )
        self._priorities = Reflector(federation, PRIORITY_CLASSES, decode=PriorityMirror.decode, sink=priorities)
        self._trust = certificates.PublishedTrust(federation)
        is_system = settings.common.system_users.__contains__
        prospects = Prospects(
            self._leaves,
            self._leaf,
            lambda: self._forest.forest,
            observation,
            mirror,
            settings.is_warning_only,
        )
        only_warns = settings.is_warning_only
        advice = Advice(
            self._accountant, observation, mirror, federation, is_warning_only=only_warns, prospects=prospects
        )
        works = WorkReview(
            self._accountant,
            federation,
            store,
            self._presence.is_current,
            settings.is_warning_only,
            has_leaves=lambda: self._leaves.exist,
        )
        holding = Holding(
            stamping=Stamping(
                federation,
                Discovery(federation),
                priorities.values,
                self._leaves,
                workloads=settings.common.workloads,
            ),
            is_system=is_system,
            holders=self._holders,
            room=lambda place: Room(
                self._accountant.accounts(place), observation.view, is_warning_only=settings.is_warning_only
            ),
            note=self._waiting.note,
            leaf=lambda name: None if settings.is_warning_only else self._leaves.account(name),
            has_leaves=lambda: self._leaves.exist,
            pending=self._pending.find,
        )
        self._health = Health(
            ready={**self._conditions(), "listening": self._why_not_listening},
            live={"admission": not_stuck(self._accountant.overdue_seconds)},
        )
        deliberation = Deliberation(self._forest, self._changes)
        is_busy = partial(runs_uncharged, mirror)
        elastic = ElasticReview(self._forest, deliberation, is_system, is_busy)
        self._server = Server(
            {
                hooks.VALIDATE_BINDINGS: BindingReview(
                    self._accountant,
                    is_system,
                    settings.is_warning_only,
                    holding.would_hold,
                    self._waiting.note_in,
                    self._asks.note,
                    self._validators.validation,
                    self._pending,
                ),
                hooks.STAMP_BINDINGS: holding,
                hooks.GUARD_BINDINGS: refuse_writer,
                hooks.GUARD_ACCOUNTS: refuse_account,
                hooks.STAMP_TEMPLATES: IdentityReview(settings.identities),
                hooks.VALIDATE_QUOTAS: QuotaReview(is_system),
                hooks.VALIDATE_ELASTIC: elastic,
                hooks.MANAGE_ELASTIC: replace(elastic, is_for_managers=True),
                hooks.VALIDATE_NAMESPACES: NamespaceReview(deliberation, is_busy),
                hooks.VALIDATE_WORKS: works,
                hooks.VALIDATE_TENANTS: assignment.refuse_assignment,
                hooks.WARN_WORKLOADS: advice,
                hooks.DENY_WORKLOADS: replace(advice, denies=True),
            },
            health=self._health,
        )
        self._keeper = self._make_keeper()

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until asked to stop; then drain, and leave last of all."""
        dump.on_signal(names.WEBHOOK, self._parts())
        await self._validators.start(self._settings.validator_settings)
        runs: list[Coroutine[Any, Any, None]] = [one.run() for one in (*self._known, *self._trust.reflectors)]
        runs += [self._keeper.run(), self._waiting.run(), self._asks.run(), self._pending.run()]
        runs += self._validators.runs()
        background = [self._tasks.create_task(run) for run in runs]
        presence = self._tasks.create_task(self._presence.run(), name="presence")
        async with self._monitor():
            if await self._is_ready(stopping):
                await self._serve(stopping)
        lists = (self._waiting, self._asks, self._pending)
        await asyncio.gather(*(one.drain(timeout_seconds=1.0) for one in lists))
        await self._validators.stop(timeout_seconds=2.0)
        await self._accountant.give_back(timeout_seconds=2.0)
        presence.cancel()
        for task in background:
            task.cancel()

    async def _serve(self, stopping: asyncio.Event) -> None:
        settings = self._settings
        await self._server.start(settings.address, self._context.context, shares_port=settings.shares_port)
        log.info("webhook.serving", host=settings.address.host, port=settings.address.port)
        await stopping.wait()
        log.info("webhook.draining", seconds=settings.drain_seconds)
        await self._server.stop(settings.drain_seconds)

    async def _is_ready(self, stopping: asyncio.Event) -> bool:
        """Wait until it is, or is asked to stop: a port that is open is one that answers, also to who only connects."""
        said: dict[str, str] = {}
        conditions = self._conditions()
        while (reasons := failing(conditions)) and not stopping.is_set():
            if reasons != said:
                log.info("webhook.not_ready", **reasons)
            said = reasons
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READY_LOOK_SECONDS):
                    await stopping.wait()
        return not stopping.is_set()

    def _conditions(self) -> dict[str, Check]:
        """What must hold before it listens."""
        return {"views": self._why_not_current, "certificate": self._why_not_trusted}

    def _why_not_listening(self) -> str:
        return "" if self._server.is_listening else "its port is not open"

    def _quota_stored(self, account: Account) -> None:
        self._lag.hear(account.observed)
        self._accountant.learn(account)
        self._waiting.learn(account)

    def _labels(self, namespace: str) -> Mapping[str, str] | None:
        known = self._forest.namespaces.items.get(namespace)
        return known.value.labels if known else None

    async def _look_at_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace as it is stored now; none where it is not."""
        pages = self._federation.list(NAMESPACES, field_selector=f"metadata.name={namespace}", timeout_seconds=2.0)
        async with contextlib.aclosing(pages):
            async for page in pages:
                for item in page.items:
                    return codec.decode_object(item)["metadata"].get("labels") or {}
        return {}

    def _leaf_stored(self, account: Account) -> None:
        self._lag.hear(account.observed)
        self._accountant.learn(account)
        self._asks.learn(account)

    def _leaf(self, name: str) -> Account | None:
        """A leaf as last read or written: fresher than the watch has it."""
        return next(iter(self._accountant.accounts(domain.of_leaf(name))), None)

    def _identity(self, tree: str, node: str) -> Identity | None:
        return self._forest.identity(tree, node)

    def _rewind(self, resource: Resource) -> None:
        self._lag.rewind()
        self._validators.rewind()
        self._accountant.rewind(lambda place: resource_of(place) == resource)

    def _holders(self, namespace: str) -> list[str]:
        """The quotas of a namespace that hold what does not fit."""
        accounts = self._accountant.accounts(namespace)
        return [one.name for one in accounts if karmadaquota.quota(one).on_exceeded == karmadaquota.HOLD]

    async def _prepare(self, incarnation: str) -> None:
        """Before this incarnation may admit anything: every account and every limit that exists by now is known."""
        log.info("webhook.preparing", incarnation=incarnation)
        for reflector in self._known:
            await reflector.synced.wait()
        accounts = (self._quotas, self._usage, self._forest.roots, *self._forest.quotas)
        while not all(await asyncio.gather(*(one.refresh(timeout_seconds=30) for one in accounts))):
            log.warning("webhook.quotas_not_listed")

    @property
    def _known(self) -> list[Reflector[Any]]:
        """Everything that decisions are made by."""
        own: list[Reflector[Any]] = [self._bindings, self._quotas, self._usage, self._priorities]
        return [*own, *self._forest.reflectors, self._changes.reflector]

    def _make_keeper(self) -> CertificateKeeper:
        settings = self._settings
        if settings.certificate and settings.key:
            source = certificates.provided(settings.certificate, settings.key)
        else:
            view = certificates.AuthorityView(self._host, settings.common.namespace)
            self._tasks.create_task(view.reflector.run(), name="authority")
            source = certificates.internal(view, (*settings.server_names, *settings.common.monitoring.server_names))
        return certificates.keeper(source, self._context, self._trust.trusts)

    def _monitor(self) -> Monitor:
        """What reviews are served with does for metrics, too, unless there is something for them alone."""
        settings = self._settings.common
        return monitoring.build(
            settings.monitoring,
            self._health,
            self._sample,
            host=self._host,
            namespace=settings.namespace,
            tasks=self._tasks,
            shared=self._context.context,
        )

    def _sample(self) -> None:
        metrics.view_lag_seconds.set(self._lag.seconds())
        monitoring.show_expiry("admission", self._keeper)

    def _why_not_current(self) -> str:
        return "" if self._presence.is_current() else "bindings and quotas are still being read"

    def _why_not_trusted(self) -> str:
        return "" if self._keeper.is_ready() else "no certificate is served that every hook trusts"

    def _parts(self) -> dict[str, dump.Part]:
        """What SIGUSR2 shows."""
        view = self._observation.view
        accountant = self._accountant
        reflectors = [*self._known, *self._trust.reflectors]
        return {
            "not_ready": self._health.why_not_ready,
            "presence": lambda: {"name": self._presence.name, "current": self._presence.is_current()},
            "view": lambda: {**dump.describe_view(view), "lag_seconds": self._lag.seconds()},
            "accounts": lambda: [
                {**dump.describe_account(one.account, view, accountant.reservation_age_seconds), "asks": one.asks}
                for one in accountant.committers()
                if one.account is not None
            ],
            "waiting": self._waiting.describe,
            "asks": self._asks.describe,
            "pending": self._pending.describe,
            "tenants": self._validators.describe,
            "reflectors": lambda: [one.describe() for one in reflectors],
            "certificate": lambda: asdict(self._keeper.status),
        }


async def serve(settings: Settings) -> None:
    """Run one replica until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with contextlib.AsyncExitStack() as stack:
        federation = await stack.enter_async_context(
            Client(await config.load(kubeconfig=settings.common.kubeconfig), connections=256)
        )
        host = federation
        if settings.common.host_kubeconfig:
            host = await stack.enter_async_context(
                Client(await config.load(kubeconfig=settings.common.host_kubeconfig))
            )
        async with asyncio.TaskGroup() as tasks:
            replica = Replica(settings, federation, host, tasks)
            await replica.run(stopping)
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()


def main() -> None:
    """The console script."""
    settings = parse()
    metrics.keep(metrics.WEBHOOK)
    try:
        asyncio.run(serve(settings))
    except* Exception as problems:
        for problem in logs.causes(problems):
            log.error("webhook.ended", problem=str(problem), kind=type(problem).__name__)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
