"""How to reach an API server and who to be there: `kubernetes`' own configuration, reduced to a frozen value.

Kubeconfigs (contexts, several files, certificates, tokens, exec plugins, OIDC, proxy-url, tls-server-name) and the
service account of a pod are read by `kubernetes`; exec plugins are run by `kube.execplugin`, because their failure must
be heard. What a request needs comes out as an `Identity`; it is renewed before it ends, when its files change, and when
the server refuses it. Nothing here speaks to an API server, and no identity appears in a log or a repr.

`kubernetes` takes a third of a second to import: it is imported when a configuration is first read.
"""

import asyncio
import functools
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import structlog

from federation_quota.kube.error import CredentialsError

log = structlog.get_logger()

# How often files are looked at for a change, and service account tokens read again (kubelets rotate them).
CHECK_SECONDS = 30.0
# A refused identity is not renewed more often: a server that refuses everybody must not run plugins in a loop.
RENEWAL_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """What one request goes out with. A new TLS context means new connections: those in use keep the old one."""

    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    tls: ssl.SSLContext | None = field(repr=False, default=None)  # None: plain HTTP


class Credentials(Protocol):
    """Where identities come from."""

    async def identity(self) -> Identity:
        """The identity to use now; CredentialsError where there is none."""

    async def renew(self, refused: Identity) -> bool:
        """The server answered 401 to that one: whether there is another to try."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One API server, and who to be there."""

    server: str
    credentials: Credentials = field(repr=False)
    proxy: str | None = field(repr=False, default=None)  # may hold a password
    server_name: str | None = None  # expected in the server's certificate, where the address is not
    namespace: str | None = None  # of the context or of the pod
    proxy_headers: Mapping[str, str] = field(repr=False, default_factory=dict)  # for the proxy, not for the server


@dataclass(frozen=True, slots=True)
class Tls:
    """The ingredients of a TLS context, so that an unchanged one is not made anew."""

    authority: bytes | None = field(default=None, repr=False)  # PEM; None: the system's authorities
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    is_verified: bool = True


@dataclass(frozen=True, slots=True)
class Material:
    """One reading of a configuration."""

    server: str
    tls: Tls | None
    authorization: str | None = field(default=None, repr=False)
    expires: datetime | None = None
    proxy: str | None = field(default=None, repr=False)
    server_name: str | None = None
    namespace: str | None = None
    files: tuple[Path, ...] = ()  # a change of these calls for another reading
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


Read = Callable[[], Awaitable[Material]]


class StaticCredentials:
    """One identity for good: a member's token and CA from its Secret."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def identity(self) -> Identity:
        """The one."""
        return self._identity

    async def renew(self, refused: Identity) -> bool:
        """There is no other."""
        return False


class RenewedCredentials:
    """An identity that is read again when it nears its end, when its files change, or when it was refused."""

    def __init__(
        self,
        read: Read,
        first: Material,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._read = read
        self._clock = clock
        self._now = now
        self._renewing = asyncio.Lock()
        self._adopt(first)

    async def identity(self) -> Identity:
        """The identity to use now."""
        if self._clock() >= self._look_at:
            async with self._renewing:
                if self._clock() >= self._look_at:
                    await self._look()
        return self._identity

    async def renew(self, refused: Identity) -> bool:
        """Read anew, unless somebody just did."""
        async with self._renewing:
            if self._identity is not refused:
                return True
            if self._clock() - self._read_at < RENEWAL_PAUSE_SECONDS:
                return False
            log.info("credentials.refused", server=self._material.server)
            before = self._material
            self._adopt(await self._read())
            return self._material.authorization != before.authorization or self._material.tls != before.tls

    async def _look(self) -> None:
        now = self._clock()
        is_due = self._renew_at is not None and now >= self._renew_at
        if not is_due and self._stamps == _stamps(self._material.files):
            self._look_at = self._next_look(now)
            return
        try:
            self._adopt(await self._read())
        except CredentialsError as error:
            if self._end_at is not None and now >= self._end_at:
                raise
            # What we have still works. A file that is half written now will be whole at the next look.
            log.warning("credentials.renewal_failed", server=self._material.server, error=str(error))
            self._look_at = now + CHECK_SECONDS / 6

    def _adopt(self, material: Material) -> None:
        self._material = material
        self._read_at = now = self._clock()
        self._stamps = _stamps(material.files)
        self._renew_at: float | None = None
        self._end_at: float | None = None
        if material.expires is not None:
            life = (material.expires - self._now()).total_seconds()
            self._end_at = now + life
            self._renew_at = now + max(life - 60.0, life * 0.8) if life > 0 else now + RENEWAL_PAUSE_SECONDS
        self._look_at = self._next_look(now)
        self._identity = identity_of(material)

    def _next_look(self, now: float) -> float:
        due = now + CHECK_SECONDS
        return due if self._renew_at is None else min(due, self._renew_at)


async def load(*, kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """The connection that kubectl would use: a named kubeconfig, KUBECONFIG, the pod's own, ~/.kube/config."""
    from federation_quota.kube import configuration  # noqa: PLC0415 - brings in `kubernetes`, a third of a second

    return await connect(configuration.reading(kubeconfig, context))


async def connect(read: Read) -> Connection:
    """The connection that a reading describes. Its server stays; its identity is renewed."""
    first = await read()
    return Connection(
        server=first.server,
        credentials=RenewedCredentials(read, first),
        proxy=first.proxy,
        server_name=first.server_name,
        namespace=first.namespace,
    )


def static(
    server: str,
    *,
    token: str | None = None,
    authority: bytes | None = None,
    is_verified: bool = True,
    proxy: str | None = None,
    server_name: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Connection:
    """A connection from plain values, as a Karmada Cluster and its Secret hold them."""
    tls = Tls(authority=authority, is_verified=is_verified) if server.startswith("https:") else None
    material = Material(server, tls, f"Bearer {token}" if token else None, headers=headers or {})
    return Connection(server, StaticCredentials(identity_of(material)), proxy, server_name)


def identity_of(material: Material) -> Identity:
    """What a reading comes to."""
    headers = dict(material.headers)
    if material.authorization:
        headers["Authorization"] = material.authorization
    return Identity(MappingProxyType(headers), tls_context(material.tls) if material.tls else None)


@functools.lru_cache(maxsize=64)  # the same ingredients give the same context, and with it the same connections
def tls_context(tls: Tls) -> ssl.SSLContext:
    """A client's context. Certificates are judged as Go judges them: clusters were made by and for Go."""
    try:
        context = ssl.create_default_context(cadata=tls.authority.decode() if tls.authority else None)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not tls.is_verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.certificate and tls.key:
            # The ssl module reads keys from files only. The file is ours alone and gone at once.
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                file.write(tls.certificate.rstrip() + b"\n" + tls.key)
                file.flush()
                context.load_cert_chain(file.name)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise CredentialsError(f"the TLS material cannot be used: {error}") from error
    return context


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, int] | None, ...]:
    """What tells that files have changed; kubelets swap a symbolic link, so the target is looked at."""
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
