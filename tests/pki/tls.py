"""A TLS server and its clients on loopback, for tests: real sockets, real handshakes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from cryptography import x509

from federation_quota.pki.authority import to_pem
from federation_quota.pki.serving import ReloadableContext

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Server:
    """Where it listens."""

    port: int


@asynccontextmanager
async def serving(context: ReloadableContext) -> AsyncIterator[Server]:
    """An aiohttp server that answers `pong`."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="pong")

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, ADDRESS, 0, ssl_context=context.context)
        await site.start()
        yield Server(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def client_context(trusted: Iterable[x509.Certificate]) -> ssl.SSLContext:
    """As strict as Python 3.13 is by default, whatever Python runs this."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=to_pem(trusted).decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


class Connection:
    """One connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.tls: ssl.SSLObject = writer.get_extra_info("ssl_object")

    @property
    def leaf(self) -> x509.Certificate:
        """What the server showed."""
        shown = self.tls.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown)

    async def ask(self) -> str:
        """One request and its answer."""
        self._writer.write(b"GET / HTTP/1.1\r\nHost: webhook\r\n\r\n")
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length")
        )
        return (await self._reader.readexactly(length)).decode()

    async def close(self) -> None:
        """End it, rudely or not: the test is over."""
        self._writer.close()


@asynccontextmanager
async def connected(server: Server, context: ssl.SSLContext, name: str | None = ADDRESS) -> AsyncIterator[Connection]:
    """A connection that has been verified."""
    async with asyncio.timeout(120):
        streams = await asyncio.open_connection(ADDRESS, server.port, ssl=context, server_hostname=name)
    connection = Connection(*streams)
    try:
        yield connection
    finally:
        await connection.close()


async def shown_to(server: Server, trusted: Iterable[x509.Certificate], name: str = ADDRESS) -> x509.Certificate:
    """The leaf that a new client gets, if it trusts it."""
    async with connected(server, client_context(trusted), name) as connection:
        assert await connection.ask() == "pong"
        return connection.leaf
