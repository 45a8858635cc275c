"""The webhook's server as it leaves: whoever has connected is answered, and is sent elsewhere with the answer."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from federation_quota.health import Health
from federation_quota.kube import codec
from federation_quota.monitoring import Address
from federation_quota.pki.authority import create_authority, sign_leaf
from federation_quota.pki.serving import ReloadableContext
from tests.pki.tls import ADDRESS, client_context
from webhook.review import Verdict
from webhook.server import Server

pytestmark = pytest.mark.virtual_time


@dataclass(frozen=True)
class Webhook:
    """A server that has nothing to judge, and somebody who trusts it."""

    server: Server
    port: int
    trust: ssl.SSLContext

    async def connect(self, connection: socket.socket | None = None) -> "Client":
        where: dict[str, Any] = {"sock": connection} if connection else {"host": ADDRESS, "port": self.port}
        reader, writer = await asyncio.open_connection(**where, ssl=self.trust, server_hostname=ADDRESS)
        return Client(reader, writer)


@dataclass(frozen=True)
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self) -> str:
        """The whole answer's head."""
        self.writer.write(b"GET /livez HTTP/1.1\r\nHost: webhook\r\n\r\n")
        head = await self.reader.readuntil(b"\r\n\r\n")
        await self.reader.readexactly(len(b"ok"))
        return head.decode()


@pytest.fixture
async def webhook() -> AsyncIterator[Webhook]:
    now = datetime.now(UTC)
    authority = create_authority(now)
    context = ReloadableContext()
    context.load(sign_leaf(authority, [ADDRESS], now))
    server = Server({"/judge": _judge}, health=Health(ready={}, live={}))
    with socket.create_server((ADDRESS, 0)) as free:
        port = free.getsockname()[1]
    await server.start(Address(ADDRESS, port), context.context)
    yield Webhook(server, port, client_context([authority.certificate]))
    with contextlib.suppress(Exception):
        await server.stop(0)


async def _judge(request: codec.AdmissionRequest, deadline: float) -> Verdict:
    raise AssertionError("what these tests send is no review")


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_who_has_connected_when_it_stops_listening_is_answered(webhook: Webhook, turns: int) -> None:
    stopping = asyncio.create_task(webhook.server.stop(0))
    queued = []
    for _ in range(turns):  # the event loop has accepted some of them, and knows of others not yet
        queued += [socket.create_connection((ADDRESS, webhook.port)) for _ in range(3)]
        await asyncio.sleep(0)
    for one in queued:
        one.setblocking(False)
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*(_asked(webhook, one) for one in queued))
    assert all(answer.startswith("HTTP/1.1 200") for answer in answers)
    await stopping
    with pytest.raises(ConnectionRefusedError):
        await webhook.connect()


async def test_who_takes_long_to_ask_is_waited_for_and_who_never_asks_is_not(webhook: Webhook) -> None:
    slow, silent = (socket.create_connection((ADDRESS, webhook.port)) for _ in range(2))
    slow.setblocking(False)
    stopping = asyncio.create_task(webhook.server.stop(0))
    await asyncio.sleep(2)  # the machine does much else
    assert not stopping.done()
    assert (await _asked(webhook, slow)).startswith("HTTP/1.1 200")
    await stopping
    silent.close()


@pytest.mark.parametrize("has_asked_before", [False, True])
async def test_the_rest_of_a_request_is_waited_for(webhook: Webhook, has_asked_before: bool) -> None:
    client = await webhook.connect()
    if has_asked_before:
        await client.ask()
    client.writer.write(b"POST /judge HTTP/1.1\r\nHost: webhook\r\nContent-Length: 10\r\n\r\nhalf ")
    await asyncio.sleep(0.1)
    stopping = asyncio.create_task(webhook.server.stop(0))
    await asyncio.sleep(2)
    assert not stopping.done()
    client.writer.write(b"of it")
    async with asyncio.timeout(5):
        assert (await client.reader.readline()).startswith(b"HTTP/1.1 400")
    await stopping


async def _asked(webhook: Webhook, connection: socket.socket) -> str:
    return await (await webhook.connect(connection)).ask()


async def test_while_it_drains_it_answers_and_each_answer_ends_its_connection(webhook: Webhook) -> None:
    kept = await webhook.connect()
    assert "Connection: close" not in await kept.ask()
    stopping = asyncio.create_task(webhook.server.stop(0.5))
    await asyncio.sleep(0)
    assert "Connection: close" in await kept.ask()
    assert await kept.reader.read() == b""
    fresh = await webhook.connect()
    assert "Connection: close" in await fresh.ask()
    await stopping
