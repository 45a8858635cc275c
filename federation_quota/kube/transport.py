"""What lies between the client's verbs and the sockets: the session, lines out of a stream, and errors as ours."""

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import aiohttp

from federation_quota.kube.error import NoAnswerError, SilenceError

# The total is the caller's (`Client.request`): these bound what a peer that is not there can cost.
REQUEST = aiohttp.ClientTimeout(total=None, sock_connect=10.0)

# An API server closes idle connections after 90 s: we must be first, or a write may meet a closing connection.
KEEP_ALIVE_SECONDS = 60.0

# etcd refuses objects long before this; a stream without line ends must not fill the memory.
LONGEST_LINE = 64 * 1024 * 1024

# A peer that vanished without a word is noticed by the kernel after about half a minute.
_PROBE_AFTER_SECONDS = 15
_PROBE_EVERY_SECONDS = 5
_PROBES = 3
_UNACKNOWLEDGED_MILLISECONDS = 30_000


def session(connections: int, headers: Mapping[str, str]) -> aiohttp.ClientSession:
    """A session for one server: connections kept alive, no cookies, nothing from the environment."""
    connector = aiohttp.TCPConnector(
        limit=connections,
        limit_per_host=connections,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        ttl_dns_cache=30,
        socket_factory=_socket,
    )
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=headers, trust_env=False, timeout=REQUEST
    )


async def lines(answer: aiohttp.ClientResponse, what: str) -> AsyncIterator[bytes]:
    """The whole lines of a stream, without their ends. What follows the last line end is dropped: it was cut off."""
    rest = bytearray()
    with translated(what):
        async for chunk in answer.content.iter_any():
            start = 0
            end = chunk.find(b"\n")
            while end >= 0:
                if rest:
                    rest += chunk[start:end]
                    line = bytes(rest)
                    rest.clear()
                else:
                    line = chunk[start:end]
                if line:
                    yield line
                start = end + 1
                end = chunk.find(b"\n", start)
            rest += chunk[start:]
            if len(rest) > LONGEST_LINE:
                raise NoAnswerError(f"{what}: a line of more than {LONGEST_LINE} bytes")


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Transport errors, as NoAnswerError. Their texts name hosts and causes, never headers."""
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as raised:
        raise NoAnswerError(f"{what}: {_words(raised)}", was_sent=False, is_permanent=True) from raised
    except aiohttp.ClientConnectorError as raised:
        raise NoAnswerError(f"{what}: {_words(raised)}", was_sent=False) from raised
    except (aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError) as raised:
        raise NoAnswerError(f"{what}: {raised}", was_sent=False) from raised
    except aiohttp.SocketTimeoutError as raised:
        raise SilenceError(f"{what}: nothing was heard for too long") from raised
    except (aiohttp.ClientError, ssl.SSLError, OSError) as raised:
        # TimeoutError is an OSError, but one that says «out of time» belongs to whoever set the limit.
        if isinstance(raised, TimeoutError) and not isinstance(raised, aiohttp.ClientError):
            raise
        raise NoAnswerError(f"{what}: {type(raised).__name__}: {raised}") from raised


def _words(raised: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError) -> str:
    """What went wrong, without the address of a Python object: these texts reach statuses that people read."""
    if isinstance(raised, aiohttp.ClientConnectorCertificateError):
        cause: Exception = raised.certificate_error
    else:
        cause = raised.os_error
    return f"cannot connect to {raised.host}:{raised.port}: {cause}"


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that notices a dead peer; Nagle is off already, by asyncio."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _PROBE_AFTER_SECONDS),
        ("TCP_KEEPINTVL", _PROBE_EVERY_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MILLISECONDS),
    ):
        if hasattr(socket, name):  # not every system has them all
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
