"""The webhook deployable: `federation-quota-webhook --help`."""

import asyncio
import contextlib
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from federation_quota import hooks, karmadaquota, names
from federation_quota import settings as common
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.observation import Observation
from federation_quota.kube import codec, config, legacies
from federation_quota.kube.client import Client
from federation_quota.kube.discovery import Discovery
from federation_quota.kube.lease import elapsed
from federation_quota.kube.mirrors import PRIORITY_CLASSES, BindingMirror, PriorityMirror, QuotaMirror
from federation_quota.kube.presence import Presence
from federation_quota.kube.quotas import KARMADA_QUOTAS, RESOURCE_BINDINGS, QuotaStore, decode_quota
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.roster import Roster
from federation_quota.ledger.account import Account
from federation_quota.pki.serving import CertificateKeeper, ReloadableContext
from federation_quota.room import Room
from webhook import certificates
from webhook.advice import Advice
from webhook.bindings import BindingReview
from webhook.holding import Holding
from webhook.quotas import QuotaReview
from webhook.server import Server
from webhook.stamping import Stamping
from webhook.waiting import WaitingList
from webhook.works import WorkReview

log = structlog.get_logger()

READY_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Settings:
    """What this deployable is told."""

    common: common.Settings
    host: str
    port: int
    server_names: tuple[str, ...]
    certificate: Path | None
    key: Path | None
    is_warning_only: bool
    shares_port: bool
    drain_seconds: float


def flags() -> common.Parser:
    """Everything that can be set."""
    parser = common.Parser("federation-quota-webhook", description="Decides on ResourceBindings: is there quota?")
    parser.common()
    parser.setting("--listen", "Address and port to serve on.", "0.0.0.0:8443")
    parser.setting("--server-names", "DNS names and IPs, comma separated, that API servers call it by.", "localhost")
    parser.setting("--certificate", "File with a certificate chain to serve, instead of one of the system's own.")
    parser.setting("--key", "File with its key.")
    parser.setting("--warn-only", "Let everything through and only warn: the break-glass.", "false", ["true", "false"])
    parser.setting("--share-port", "Share the port with other replicas on this machine.", "false", ["true", "false"])
    parser.setting("--drain-seconds", "How long to go on answering after a request to end.", "5")
    return parser


def parse(arguments: list[str] | None = None) -> Settings:
    """The settings on the command line, or one clear line why they make no sense."""
    parser = flags()
    options = parser.parse_args(arguments)
    host, _, port = options.listen.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"--listen {options.listen!r} is not of the form ADDRESS:PORT")
    if bool(options.certificate) != bool(options.key):
        parser.error("--certificate and --key go together")
    try:
        drain_seconds = float(options.drain_seconds)
    except ValueError:
        parser.error(f"--drain-seconds {options.drain_seconds!r} is not a number")
    return Settings(
        common=common.common(options),
        host=host.strip("[]"),
        port=int(port),
        server_names=tuple(name.strip() for name in options.server_names.split(",")),
        certificate=Path(options.certificate) if options.certificate else None,
        key=Path(options.key) if options.key else None,
        is_warning_only=options.warn_only == "true",
        shares_port=options.share_port == "true",
        drain_seconds=drain_seconds,
    )


class Replica:
    """One replica, wired together."""

    def __init__(self, settings: Settings, federation: Client, host: Client, tasks: asyncio.TaskGroup) -> None:
        self._settings = settings
        self._federation = federation
        self._host = host
        self._tasks = tasks
        self._context = ReloadableContext()
        namespace = settings.common.namespace
        observation = Observation()
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
        )
        self._accountant = Accountant(
            replica=lambda: self._presence.incarnation,
            observation=observation,
            store=store,
            tasks=tasks,
            is_present=self._presence.is_current,
        )
        priorities = PriorityMirror()
        mirror = BindingMirror(observation)
        self._bindings = Reflector(federation, RESOURCE_BINDINGS, decode=codec.decode_stored_binding, sink=mirror)
        self._quotas = Reflector(
            federation,
            KARMADA_QUOTAS,
            decode=decode_quota,
            sink=QuotaMirror(self._quota_stored, self._accountant.forget),
            on_rewind=lambda _seen, _now: self._accountant.rewind(),
        )
        self._waiting = WaitingList(self._accountant.accounts, mirror, store)
        self._priorities = Reflector(federation, PRIORITY_CLASSES, decode=PriorityMirror.decode, sink=priorities)
        self._trust = certificates.PublishedTrust(federation)
        is_system = settings.common.system_users.__contains__
        advice = Advice(self._accountant, observation, mirror, federation, is_warning_only=settings.is_warning_only)
        works = WorkReview(self._accountant, federation, store, self._presence.is_current, settings.is_warning_only)
        holding = Holding(
            stamping=Stamping(federation, Discovery(federation), priorities.values),
            is_system=is_system,
            holders=self._holders,
            room=lambda place: Room(
                self._accountant.accounts(place), observation.view, is_warning_only=settings.is_warning_only
            ),
            note=self._waiting.note,
        )
        self._server = Server(
            {
                hooks.VALIDATE_BINDINGS: BindingReview(
                    self._accountant, is_system, settings.is_warning_only, holding.would_hold, self._waiting.note
                ),
                hooks.STAMP_BINDINGS: holding,
                hooks.VALIDATE_QUOTAS: QuotaReview(is_system),
                hooks.VALIDATE_WORKS: works,
                hooks.WARN_WORKLOADS: advice,
                hooks.DENY_WORKLOADS: replace(advice, denies=True),
            },
            is_ready=self._why_not_ready,
        )
        self._keeper = self._make_keeper()

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until asked to stop; then drain, and leave last of all."""
        runs = [self._bindings.run(), self._quotas.run(), self._priorities.run(), self._keeper.run()]
        runs += [self._waiting.run(), *(reflector.run() for reflector in self._trust.reflectors)]
        background = [self._tasks.create_task(run) for run in runs]
        presence = self._tasks.create_task(self._presence.run(), name="presence")
        if await self._is_ready(stopping):
            await self._serve(stopping)
        await self._waiting.drain(timeout_seconds=1.0)
        presence.cancel()
        for task in background:
            task.cancel()

    async def _serve(self, stopping: asyncio.Event) -> None:
        settings = self._settings
        await self._server.start(settings.host, settings.port, self._context.context, shares_port=settings.shares_port)
        log.info("webhook.serving", host=settings.host, port=settings.port)
        await stopping.wait()
        log.info("webhook.draining", seconds=settings.drain_seconds)
        await self._server.stop(settings.drain_seconds)

    async def _is_ready(self, stopping: asyncio.Event) -> bool:
        """Wait until it is, or is asked to stop: a port that is open is one that answers, also to who only connects."""
        said = ""
        while (reason := self._why_not_ready()) and not stopping.is_set():
            if reason != said:
                log.info("webhook.not_ready", reason=reason)
            said = reason
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READY_LOOK_SECONDS):
                    await stopping.wait()
        return not stopping.is_set()

    def _quota_stored(self, account: Account) -> None:
        self._accountant.learn(account)
        self._waiting.learn(account)

    def _holders(self, namespace: str) -> list[str]:
        """The quotas of a namespace that hold what does not fit."""
        accounts = self._accountant.accounts(namespace)
        return [one.name for one in accounts if karmadaquota.quota(one).on_exceeded == karmadaquota.HOLD]

    async def _prepare(self, incarnation: str) -> None:
        """Before this incarnation may admit anything: every quota that exists by now is known."""
        log.info("webhook.preparing", incarnation=incarnation)
        for reflector in (self._bindings, self._quotas, self._priorities):
            await reflector.synced.wait()
        while not await self._quotas.refresh(timeout_seconds=30):
            log.warning("webhook.quotas_not_listed")

    def _make_keeper(self) -> CertificateKeeper:
        settings = self._settings
        if settings.certificate and settings.key:
            source = certificates.provided(settings.certificate, settings.key)
        else:
            view = certificates.AuthorityView(self._host, settings.common.namespace)
            self._tasks.create_task(view.reflector.run(), name="authority")
            source = certificates.internal(view, settings.server_names)
        return certificates.keeper(source, self._context, self._trust)

    def _why_not_ready(self) -> str:
        if not self._presence.is_current():
            return "bindings and quotas are still being read"
        if not self._keeper.is_ready():
            return "no certificate is served that every hook trusts"
        return ""


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
    try:
        asyncio.run(serve(settings))
    except* Exception as problems:
        for problem in problems.exceptions:
            log.error("webhook.ended", problem=str(problem), kind=type(problem).__name__)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
