"""The webhook's server under clients that send too much, too slowly, or nothing: others are answered all the same."""

import asyncio
import contextlib
import json
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from federation_quota.health import Health
from federation_quota.kube import codec
from federation_quota.monitoring import Address
from federation_quota.pki.authority import create_authority, sign_leaf
from federation_quota.pki.serving import ReloadableContext
from tests.kube.eventually import eventually
from tests.pki.tls import ADDRESS, client_context
from webhook import listener
from webhook.connections import Connections
from webhook.intake import LARGEST_BODY, SMALL_BODY, Intake
from webhook.review import ALLOWED, Verdict
from webhook.server import Server
from webhook.turns import MOST_AT_ONCE

pytestmark = pytest.mark.virtual_time

PATH = "/validate/things"
MEMORY = 2 * LARGEST_BODY
MOST = 30
SOON = 0.5


@dataclass
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, str]:
        """Status and text; 0 where the connection was ended without an answer."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            return int(head.split()[1]), (await self.reader.readexactly(length)).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, ""

    async def ended(self) -> bool:
        """Wait for the server to end it."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


@dataclass
class Webhook:
    """A server with small limits; its one hook judges at once, or when it may."""

    port: int
    trust: ssl.SSLContext
    gate: asyncio.Event
    intake: Intake
    held: int = 0  # reviews that wait at the gate
    namespaces: list[str] = field(default_factory=list)  # of all that came to it

    async def hook(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        self.held += 1
        self.namespaces.append(request.namespace)
        await self.gate.wait()
        self.held -= 1
        return ALLOWED

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection(ADDRESS, self.port, ssl=self.trust, server_hostname=ADDRESS))

    async def post(self, body: bytes, head: bytes = b"") -> Client:
        client = await self.connect()
        client.send(posting(len(body), head) + body)
        return client


def posting(length: int, head: bytes = b"") -> bytes:
    return f"POST {PATH} HTTP/1.1\r\nHost: webhook\r\nContent-Length: {length}\r\n".encode() + head + b"\r\n"


def review(size: int = 0) -> bytes:
    request = {"uid": "u", "operation": "CREATE", "kind": {}, "resource": {}, "object": {"a": "x" * size}}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


@pytest.fixture
async def webhook(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Webhook]:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", SOON)
    now = datetime.now(UTC)
    authority = create_authority(now)
    context = ReloadableContext()
    context.load(sign_leaf(authority, [ADDRESS], now))
    with socket.create_server((ADDRESS, 0)) as free:
        port = free.getsockname()[1]
    gate = asyncio.Event()
    gate.set()
    intake = Intake(read_seconds=3 * SOON, memory=MEMORY)
    webhook = Webhook(port, client_context([authority.certificate]), gate, intake)
    server = Server(
        {PATH: webhook.hook},
        health=Health(ready={}, live={}),
        intake=intake,
        connections=Connections(most=MOST, first_request_seconds=SOON),
    )
    await server.start(Address(ADDRESS, port), context.context)
    async with asyncio.timeout(60):
        yield webhook
    with contextlib.suppress(Exception):
        await server.stop(0)


async def is_served(webhook: Webhook) -> bool:
    return (await (await webhook.post(review())).answer())[0] == 200


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(webhook: Webhook) -> None:
    client = await webhook.connect()
    client.send(posting(LARGEST_BODY + 1))
    assert await client.answer() == (
        413,
        f"a body of {LARGEST_BODY + 1} bytes: a review has {LARGEST_BODY} at most",
    )
    assert await client.ended()


async def test_a_body_that_grows_too_large_is_refused(webhook: Webhook) -> None:
    client = await webhook.connect()
    client.send(f"POST {PATH} HTTP/1.1\r\nHost: webhook\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    for _ in range(LARGEST_BODY // 0x10000 + 2):
        client.send(chunk)
        with contextlib.suppress(ConnectionError):
            await client.writer.drain()
    assert await client.answer() == (413, f"a body of more bytes: a review has {LARGEST_BODY} at most")


async def test_the_largest_review_is_judged(webhook: Webhook) -> None:
    client = await webhook.post(review(LARGEST_BODY - 1000))
    assert (await client.answer())[0] == 200


async def test_what_is_compressed_is_no_review(webhook: Webhook) -> None:
    """A few bytes could become as many as there is memory."""
    client = await webhook.post(zlib.compress(b" " * 2 * LARGEST_BODY), b"Content-Encoding: deflate\r\n")
    assert (await client.answer())[0] == 400


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST ", posting(100)[:-2], b"GET /livez HTTP/1.1\r\nX: y\r\n"],
    ids=["nothing", "half a line", "half a head", "half of another"],
)
async def test_who_does_not_come_to_the_point_is_cut_off(webhook: Webhook, sent: bytes) -> None:
    client = await webhook.connect()
    client.send(sent)
    assert await is_served(webhook)
    assert await client.ended()


async def test_who_sends_a_head_byte_by_byte_is_cut_off(webhook: Webhook) -> None:
    client = await webhook.connect()

    async def drip() -> None:
        for byte in posting(10) * 1000:
            client.send(bytes([byte]))
            await asyncio.sleep(SOON / 10)

    dripping = asyncio.create_task(drip())
    assert await client.ended()
    dripping.cancel()


@pytest.mark.parametrize("length", [1000, SMALL_BODY * 2], ids=["small", "large"])
async def test_who_does_not_send_what_was_announced_is_told_and_cut_off(webhook: Webhook, length: int) -> None:
    client = await webhook.connect()
    client.send(posting(length) + b"{")
    assert await is_served(webhook)
    assert await client.answer() == (408, "the body did not arrive in time")
    assert await client.ended()


async def test_a_handshake_that_never_comes_is_given_up(webhook: Webhook) -> None:
    silent = [await asyncio.open_connection(ADDRESS, webhook.port) for _ in range(2 * MOST)]
    assert await is_served(webhook)
    for reader, _ in silent:
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def test_idle_connections_make_room_for_new_ones(webhook: Webhook) -> None:
    """The one that has been idle for longest; one that is used stays."""
    first = await webhook.post(review())
    assert (await first.answer())[0] == 200
    for _ in range(3 * MOST):
        client = await webhook.post(review())
        assert (await client.answer())[0] == 200
        first.send(posting(len(review())) + review())
        assert (await first.answer())[0] == 200
    assert await is_served(webhook)


async def test_who_got_its_turn_too_late_is_asked_to_come_again(webhook: Webhook) -> None:
    """It was kept waiting by others: that is no fault of its own, even if the rest of it is slow to come."""
    webhook.gate.clear()
    large = [await webhook.post(review(LARGEST_BODY - 1000)) for _ in range(2)]
    await eventually(lambda: webhook.held == 2, "reviews at the gate")
    slow = await webhook.connect()
    slow.send(posting(LARGEST_BODY - 1000))
    await eventually(lambda: webhook.intake.waiting == 1, "a body that waits for others")
    webhook.gate.set()
    assert [(await one.answer())[0] for one in large] == [200, 200]
    assert await slow.answer() == (503, "too many large bodies at once: try again")


async def test_large_bodies_wait_for_each_other_and_small_ones_for_nobody(webhook: Webhook) -> None:
    webhook.gate.clear()
    large = [await webhook.post(review(LARGEST_BODY - 1000)) for _ in range(6)]
    await eventually(lambda: webhook.held >= 2, "reviews at the gate")  # what fits into the memory for them
    answers = [asyncio.create_task(one.answer()) for one in large]
    small = asyncio.create_task(is_served(webhook))
    await eventually(lambda: webhook.held >= 3, "reviews at the gate")
    done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
    assert webhook.held == 3
    assert {one.result() for one in done} == {(503, "too many large bodies at once: try again")}
    webhook.gate.set()
    assert await small
    assert {status for status, _ in await asyncio.gather(*answers)} == {200, 503}
    # And what they held is free again.
    assert (await (await webhook.post(review(LARGEST_BODY - 1000))).answer())[0] == 200


def of(namespace: str, uid: str) -> bytes:
    document = json.loads(review())
    document["request"] |= {"namespace": namespace, "uid": uid}
    return json.dumps(document).encode()


async def test_a_namespace_with_too_much_under_way_waits_for_itself_alone(webhook: Webhook) -> None:
    webhook.gate.clear()
    flood = [await webhook.post(of("flooded", f"f{number}")) for number in range(MOST_AT_ONCE + 2)]
    answers = [asyncio.create_task(one.answer()) for one in flood]
    await eventually(lambda: webhook.held >= MOST_AT_ONCE, "reviews at the gate")
    other = asyncio.create_task((await webhook.post(of("quiet", "q"))).answer())
    await eventually(lambda: webhook.held > MOST_AT_ONCE, "reviews at the gate")
    assert "quiet" in webhook.namespaces
    assert webhook.namespaces.count("flooded") == MOST_AT_ONCE
    webhook.gate.set()
    assert (await other)[0] == 200
    assert {status for status, _ in await asyncio.gather(*answers)} == {200}
