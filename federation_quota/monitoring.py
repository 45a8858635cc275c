"""The listener for whoever watches over a process: `/metrics`, `/livez`, `/readyz`, and what else it has to tell.

Plain HTTP, or, where a token is asked for, TLS. Health needs no token: kubelets have none. What names people is told
for a token alone.
"""

import asyncio
import functools
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import structlog
from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from federation_quota import metrics
from federation_quota.health import Health
from federation_quota.kube import certificates
from federation_quota.kube.authorization import AccessError, Authorizer, PathAccess
from federation_quota.kube.client import Client
from federation_quota.pki.serving import CertificateKeeper, ReloadableContext

log = structlog.get_logger()

METRICS: Final = "/metrics"

Teller = Callable[[web.Request], Awaitable[web.Response]]
"""Answers who may ask."""


class ListenError(Exception):
    """Nobody can listen there."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Of the form ADDRESS:PORT; ValueError where it is not."""
        host, _, port = text.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"{text!r} is not of the form ADDRESS:PORT")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the process can be watched over, and by whom."""

    address: Address
    needs_token: bool = False
    server_names: tuple[str, ...] = ()
    certificate: tuple[Path, Path] | None = None  # files with a chain and its key; None: of the system's own authority


class Monitor(AbstractAsyncContextManager["Monitor"]):
    """One process's. Listens inside its `async with` block."""

    def __init__(
        self,
        address: Address,
        health: Health,
        *,
        authorizer: Authorizer | None = None,  # None: whoever reaches it may read what names nobody
        tls: ssl.SSLContext | None = None,
        keeper: CertificateKeeper | None = None,  # of what `tls` serves, where that is served here alone
        sample: Callable[[], None] = lambda: None,  # set what is not kept up to date; called before each exposition
        guarded: Mapping[str, Teller] | None = None,  # further paths, for who has a token that may get them
    ) -> None:
        self._address = address
        self._sample = sample
        self._authorizer = authorizer
        self._tls = tls
        self._keeper = keeper
        # Where nobody is asked who they are, nobody is told of people.
        self._told: Collector = metrics.Everything() if authorizer else metrics.REGISTRY
        self._turn = asyncio.Lock()
        app = web.Application(client_max_size=64 * 1024)
        app.add_routes([web.get(METRICS, self._expose), *health.routes()])
        app.add_routes([web.get(path, self._guard(teller)) for path, teller in (guarded or {}).items()])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await listen(self._runner, self._address, "--metrics-listen", tls=self._tls)
        log.info("monitor.serving", host=self._address.host, port=self._address.port, tls=self._tls is not None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        status = asdict(self._keeper.status) if self._keeper else None
        return {"address": str(self._address), "needs_token": self._authorizer is not None, "certificate": status}

    async def _expose(self, request: web.Request) -> web.Response:
        refusal = await self._refusal(request)
        if refusal:
            return refusal
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        async with self._turn:
            self._sample()
            if self._keeper:
                show_expiry("metrics", self._keeper)
            # In a thread: with thousands of quotas this takes long enough for an admission to notice.
            body = await asyncio.to_thread(encode, self._told)
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    def _guard(self, teller: Teller) -> Teller:
        async def tell(request: web.Request) -> web.Response:
            if self._authorizer is None:
                text = "this is told over TLS, and for a token: start the process with --metrics-authorization=token\n"
                return web.Response(status=403, text=text)
            return await self._refusal(request) or await teller(request)

        return tell

    async def _refusal(self, request: web.Request) -> web.Response | None:
        if self._authorizer is None:
            return None
        try:
            await self._authorizer.require(request.headers.get("Authorization"), PathAccess("get", request.path))
        except AccessError as problem:
            metrics.authorizations.labels(problem.result).inc()
            challenge = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else {}
            return web.Response(status=problem.status, text=f"{problem}\n", headers=challenge)
        metrics.authorizations.labels("allowed").inc()
        return None


def build(
    settings: Settings,
    health: Health,
    sample: Callable[[], None],
    *,
    host: Client,  # whose tokens are asked for, and where the system's authority is
    namespace: str,
    tasks: asyncio.TaskGroup,
    shared: ssl.SSLContext | None = None,  # served where there is no certificate for this listener alone
    guarded: Mapping[str, Teller] | None = None,
) -> Monitor:
    """The listener that the settings ask for."""
    make = functools.partial(Monitor, settings.address, health, sample=sample, guarded=guarded)
    if not settings.needs_token:
        return make()
    authorizer = Authorizer(host)
    if shared and not settings.certificate:
        return make(authorizer=authorizer, tls=shared)
    if settings.certificate:
        source = certificates.provided(*settings.certificate)
    else:
        view = certificates.AuthorityView(host, namespace)
        tasks.create_task(view.reflector.run(), name="metrics authority")
        source = certificates.internal(view, settings.server_names)
    context = ReloadableContext()
    keeper = certificates.keeper(source, context, certificates.trusted_anyhow)
    tasks.create_task(keeper.run(), name="metrics certificate")
    return make(authorizer=authorizer, tls=context.context, keeper=keeper)


def show_expiry(listener: str, keeper: CertificateKeeper) -> None:
    """Set the metric of what that listener serves."""
    expires_at = keeper.status.expires_at
    if expires_at:
        metrics.certificate_expiry_timestamp_seconds.labels(listener).set(expires_at.timestamp())


async def listen(
    runner: web.AppRunner, address: Address, flag: str, *, tls: ssl.SSLContext | None = None, shares_port: bool = False
) -> web.TCPSite:
    """Have the application served there; ListenError, naming the flag that says where, if that cannot be."""
    site = web.TCPSite(
        runner,
        address.host,
        address.port,
        ssl_context=tls,
        reuse_address=True,
        reuse_port=shares_port,
        backlog=1024,
    )
    try:
        await site.start()
    except OSError as problem:
        raise ListenError(f"cannot listen on {address} ({flag}): {problem.strerror or problem}") from None
    return site
