"""An API server's stand-in that speaks HTTP: it passes everything on, and lies as it is told to.

For what no byte-wise proxy can do: errors in place of answers, answers lost after the deed was done, watches that end,
repeat themselves or are too old. It takes the client's certificate, and speaks for it to the real server.
"""

import asyncio
import contextlib
import json
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from localfed.authority import Authority
from localfed.controlplane import FEDERATION, MASTERS
from localfed.federation import Federation
from localfed.ports import LOOPBACK

_NOT_PASSED_ON = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-encoding"}


@dataclass(slots=True)
class Lies:
    """What it does beside passing on; each is a chance between 0 and 1, but for the times."""

    refuses: float = 0.0  # of answering `codes` instead of asking
    loses: float = 0.0  # of answering `codes` although the server has done it
    codes: tuple[int, ...] = (500,)
    ends_watches_after: float | None = None  # seconds
    repeats_watches: bool = False  # every event twice
    rewinds_watches: int = 0  # watches begin that many versions earlier than asked for
    expires_watches: bool = False  # 410, at once or as an event


class Gateway:
    """One of them, for as long as its block lasts."""

    def __init__(self, session: aiohttp.ClientSession, upstream: str, rng: random.Random) -> None:
        self.lies = Lies()
        self.port = 0
        self.passed = 0
        self.lied = 0
        self._session = session
        self._upstream = upstream
        self._rng = rng
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_closed = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on, or not; where the client or the server goes meanwhile, it just ends."""
        task = asyncio.current_task()
        if task is None or self._is_closed:
            raise web.HTTPServiceUnavailable
        self._tasks.add(task)
        try:
            return await self._serve(request)
        except (aiohttp.ClientError, ConnectionError):
            return web.Response(status=502)
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """End what is under way, and take nothing more."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        lies, is_watch = self.lies, "watch" in request.query
        if is_watch and lies.expires_watches and self._rng.random() < 0.5:
            return self._error(410)
        if self._rng.random() < lies.refuses:
            return self._error(self._rng.choice(lies.codes))
        if is_watch:
            return await self._watch(request)
        async with self._ask(request, dict(request.query)) as answer:
            body = await answer.read()
            if self._rng.random() < lies.loses:
                return self._error(self._rng.choice(lies.codes))
            self.passed += 1
            return web.Response(status=answer.status, body=body, headers=_passed(answer.headers))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        lies, query = self.lies, dict(request.query)
        if lies.rewinds_watches and query.get("resourceVersion", "0") != "0":
            self.lied += 1
            query["resourceVersion"] = str(max(1, int(query["resourceVersion"]) - lies.rewinds_watches))
        response = web.StreamResponse()
        try:
            async with asyncio.timeout(lies.ends_watches_after), self._ask(request, query) as answer:
                response = web.StreamResponse(status=answer.status, headers=_passed(answer.headers))
                await response.prepare(request)
                async for line in answer.content:
                    await response.write(line)
                    if lies.repeats_watches:
                        self.lied += 1
                        await response.write(line)
                    if lies.expires_watches:
                        await response.write(json.dumps({"type": "ERROR", "object": _status(410)}).encode() + b"\n")
                        self.lied += 1
                        break
        except TimeoutError:
            self.lied += 1
        if response.prepared:
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                await response.write_eof()
        return response

    @asynccontextmanager
    async def _ask(self, request: web.Request, query: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
        headers["Impersonate-User"] = _who(request)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with self._session.request(
            request.method,
            self._upstream + request.path,
            params=query,
            data=await request.read(),
            headers=headers,
            timeout=timeout,
        ) as answer:
            yield answer

    def _error(self, code: int) -> web.Response:
        self.lied += 1
        headers = {"Retry-After": "1"} if code == 429 else {}
        return web.json_response(_status(code), status=code, headers=headers)


@asynccontextmanager
async def opened(federation: Federation, port: int, rng: random.Random) -> AsyncIterator[Gateway]:
    """A gateway to the federation's API server on that port."""
    authority = Authority(federation.directory.pki / FEDERATION, f"{FEDERATION}-ca")
    there = ssl.create_default_context(cafile=str(authority.certificate))
    there.load_cert_chain(*authority.issue("gateway-client", common_name="gateway", organizations=[MASTERS]))
    here = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    here.verify_mode = ssl.CERT_REQUIRED
    here.load_cert_chain(*authority.issue("gateway", common_name="gateway"))
    connector = aiohttp.TCPConnector(ssl=there, limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20, auto_decompress=True) as session:
        gateway = Gateway(session, f"https://{LOOPBACK}:{port}", rng)
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", gateway.serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=here)
        await site.start()
        gateway.port = runner.addresses[0][1]
        try:
            yield gateway
        finally:
            await gateway.close()
            await runner.cleanup()


def _who(request: web.Request) -> str:
    """The name in the client's certificate."""
    certificate = request.get_extra_info("peercert") or {}
    found = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return str(found[0])


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED_ON}


def _status(code: int) -> dict[str, object]:
    reasons = {410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"a fault on purpose: {code}",
        "reason": reasons.get(code, "InternalError"),
        "code": code,
    }
