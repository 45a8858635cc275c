"""TLS that changes its certificate while it serves.

`ReloadableContext` is the context that a server is started with, once; `CertificateKeeper` polls a `CertificateSource`
and changes what the context shows. Listening, routing and everything above TLS is the webhook's.

A new pair gets a context of its own, and each handshake is handed the current one. Loading it into the context that
already serves would be shorter, and wrong twice: a load that fails halfway (a key that does not match) leaves a context
that serves nobody, and OpenSSL keeps one certificate for each kind of key, so that after a change from EC to RSA the
old certificate is still the one that clients get.
"""

import asyncio
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from cryptography import x509

from federation_quota.pki.authority import CertificateError, KeyPair, describe, fingerprint, is_valid, to_pem
from federation_quota.pki.source import CertificateSource

POLL_SECONDS: Final = 10.0
READ_SECONDS: Final = 5.0
SETTLE: Final = timedelta(minutes=1)

Trusts = Callable[[Sequence[x509.Certificate]], bool]

_log = structlog.get_logger(__name__)


class ReloadableContext:
    """One SSLContext for the whole life of a server; what it shows can be replaced at any time."""

    def __init__(self) -> None:
        # The sessions that clients resume belong to this one, and so outlive a reload.
        self.context = _server_context()
        self.context.sni_callback = self._hand_over
        self._current: ssl.SSLContext | None = None

    def load(self, pair: KeyPair) -> None:
        """Show this pair in every handshake from now on; open connections go on as they are."""
        context = _server_context()
        try:
            with _readable(to_pem(pair.chain) + pair.key_pem) as path:
                context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise CertificateError(f"{describe(pair.leaf)} cannot be served: {error.reason}") from None
        self._current = context

    def _hand_over(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> int | None:
        """Called by OpenSSL at the beginning of every handshake, whether the client names a server or not."""
        del name, context
        if self._current is None:
            return int(ssl.ALERT_DESCRIPTION_INTERNAL_ERROR)
        connection.context = self._current
        return None


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """What is served, for metrics, health and people."""

    expires_at: datetime | None = None  # None until there is a certificate
    fingerprint: str | None = None
    loads: int = 0
    failures: int = 0  # times that a source had nothing good to give
    error: str | None = None  # what is wrong now; the last good certificate is served all the same
    is_held_back: bool = False  # a new certificate is there, but not yet trusted everywhere

    def seconds_left(self, now: datetime) -> float:
        """Until the certificate expires; 0 without one."""
        return (self.expires_at - now).total_seconds() if self.expires_at else 0.0


class CertificateKeeper:
    """Keeps what a context shows equal to what a source gives: polled, because no watch reaches into a mount."""

    def __init__(
        self,
        source: CertificateSource,
        context: ReloadableContext,
        *,
        now: Callable[[], datetime],
        trusts: Trusts,  # whether every hook is seen to trust a chain; `publishing.is_trusted_everywhere`
        settle: timedelta = SETTLE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        poll_seconds: float = POLL_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._source = source
        self._context = context
        self._now = now
        self._trusts = trusts
        self._settle = settle
        self._sleep = sleep
        self._poll_seconds = poll_seconds
        self._read_seconds = read_seconds
        self._served: KeyPair | None = None
        self._candidate: tuple[KeyPair, datetime] | None = None  # and since when it is seen to be trusted
        self._reading: asyncio.Task[KeyPair] | None = None
        self._expires_at: datetime | None = None
        self._loads = 0
        self._failures = 0
        self._error: str | None = None
        self._is_held_back = False

    @property
    def status(self) -> CertificateStatus:
        """How it stands."""
        shown = fingerprint(self._served.leaf) if self._served else None
        return CertificateStatus(self._expires_at, shown, self._loads, self._failures, self._error, self._is_held_back)

    def is_ready(self) -> bool:
        """Whether API servers can call: a certificate is served, has not expired, and every hook trusts it."""
        served = self._served
        return served is not None and is_valid(served.leaf, self._now()) and self._trusts(served.chain)

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                await self.refresh()
                await self._sleep(self._poll_seconds)
        finally:
            if self._reading is not None:
                self._reading.cancel()

    async def refresh(self) -> None:
        """Ask the source once, and show what it gives if that is good. Whatever fails, what is served stays."""
        now = self._now()
        try:
            pair = await self._read(now)
            if pair is not self._served and self._may_show(pair, now):
                self._context.load(pair)
                self._show(pair)
        except CertificateError as error:
            self._failures += 1
            if str(error) != self._error:
                self._error = str(error)
                if self._served is None:
                    _log.warning("certificate.awaited", reason=self._error)
                else:
                    _log.error("certificate.refused", reason=self._error)
            return
        self._is_held_back = pair is not self._served
        if self._error is not None:
            self._error = None
            _log.info("certificate.recovered")

    async def _read(self, now: datetime) -> KeyPair:
        """In a thread, since files may be slow; one at a time, however long that one hangs."""
        if self._reading is None:
            self._reading = asyncio.create_task(asyncio.to_thread(self._source.current, now))
        done, _ = await asyncio.wait({self._reading}, timeout=self._read_seconds)
        if not done:
            raise CertificateError(f"the certificate could not be read within {self._read_seconds} s")
        task, self._reading = self._reading, None
        return task.result()

    def _may_show(self, pair: KeyPair, now: datetime) -> bool:
        """At once where what is served helps nobody; else when the new pair has been trusted for a while."""
        served = self._served
        if served is None or not is_valid(served.leaf, now) or not self._trusts(served.chain):
            return True
        if not self._trusts(pair.chain):
            self._candidate = None
            return False
        if self._candidate is None or self._candidate[0] is not pair:
            self._candidate = (pair, now)
        return now - self._candidate[1] >= self._settle

    def _show(self, pair: KeyPair) -> None:
        self._served, self._candidate = pair, None
        self._loads += 1
        self._expires_at = min(link.not_valid_after_utc for link in pair.chain)
        _log.info(
            "certificate.loaded",
            fingerprint=fingerprint(pair.leaf),
            issuer=pair.leaf.issuer.rfc4514_string(),
            expires_at=self._expires_at.isoformat(),
        )


def _server_context() -> ssl.SSLContext:
    """TLS 1.2 and up, with session tickets; which curve is agreed on is left to OpenSSL, or clients would ask twice."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def _readable(content: bytes) -> Iterator[str]:
    """A path that OpenSSL can read a secret from: in memory, with no name in any folder; gone at once."""
    if not hasattr(os, "memfd_create"):  # not Linux: a file that only its owner can read
        with tempfile.NamedTemporaryFile(prefix="federation-quota-") as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    with os.fdopen(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"
