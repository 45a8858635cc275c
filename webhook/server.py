"""The HTTPS server: reviews in, verdicts out, health for whoever watches over it.

Each hook is a path and a function from a review and its deadline to a verdict. The server knows nothing of what they
judge. It answers within the time that the API server gives (`?timeout=10s`), says clearly what is wrong with a request
that is no review, and goes on.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import web

from federation_quota.kube import codec
from webhook.listener import Listener
from webhook.review import Verdict, encode, later, refuse

log = structlog.get_logger()

Hook = Callable[[codec.AdmissionRequest, float], Awaitable[Verdict]]

# A review holds an object and its old self, each up to what an API server takes: aiohttp's default is too small.
LARGEST_BODY = 16 * 1024 * 1024
DEFAULT_TIMEOUT_SECONDS = 10.0
# Kept back for the way home: an answer that comes too late is an error for the client, one in time is at least «later».
MARGIN_SECONDS = 0.5
_TIMEOUT = re.compile(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


class Server:
    """The admission server of one replica."""

    def __init__(self, hooks: Mapping[str, Hook], *, is_ready: Callable[[], str]) -> None:
        self._is_ready = is_ready  # why not, or nothing
        self._is_draining = False
        self._app = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._part])
        self._app.router.add_get("/livez", _alive)
        self._app.router.add_get("/readyz", self._ready)
        for path, hook in hooks.items():
            self._app.router.add_post(path, _handler(hook))
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=30)
        self._listener = Listener(self._runner)

    async def start(self, host: str, port: int, context: ssl.SSLContext, *, shares_port: bool = False) -> None:
        """Listen; `shares_port`: beside other replicas on the same machine."""
        await self._runner.setup()
        await self._listener.open(host, port, context, shares_port=shares_port)

    async def stop(self, drain_seconds: float) -> None:
        """Say that no more should come, go on answering what comes anyway, then finish what is under way."""
        self._is_draining = True
        await asyncio.sleep(drain_seconds)
        await self._listener.close()
        await self._runner.cleanup()

    @web.middleware
    async def _part(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """While draining every answer ends its connection: the next request goes to another replica."""
        answer = await handler(request)
        if self._is_draining:
            answer.force_close()
        return answer

    async def _ready(self, _request: web.Request) -> web.Response:
        reason = "draining" if self._is_draining else self._is_ready()
        return web.Response(text=reason or "ok", status=503 if reason else 200)


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _handler(hook: Hook) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        deadline = asyncio.get_running_loop().time() + _allowed_seconds(request) - MARGIN_SECONDS
        body = await request.read()
        try:
            review = codec.decode_review(body)
        except codec.CodecError as error:
            log.warning("review.unreadable", path=request.path, problem=str(error), size=len(body))
            return web.Response(status=400, text=f"not an AdmissionReview: {error}")
        verdict = await _judge(hook, review, deadline)
        if not verdict.is_allowed:
            log.info(
                "review.refused",
                path=request.path,
                operation=review.operation,
                namespace=review.namespace,
                name=review.name,
                user=review.user_info.username,
                code=verdict.code,
                reason=verdict.reason,
                message=verdict.message,
            )
        return web.Response(body=encode(review.uid, verdict), content_type="application/json")

    return handle


async def _judge(hook: Hook, review: codec.AdmissionRequest, deadline: float) -> Verdict:
    try:
        async with asyncio.timeout_at(deadline + MARGIN_SECONDS / 2):
            return await hook(review, deadline)
    except codec.CodecError as error:
        return refuse(400, "BadRequest", str(error))
    except TimeoutError:
        return later("no decision could be made in time")
    except Exception:
        log.exception("review.failed", operation=review.operation, namespace=review.namespace, name=review.name)
        return refuse(500, "InternalError", "federation-quota failed to judge this: its log says why")


def _allowed_seconds(request: web.Request) -> float:
    """The time that the API server gives: its `timeout` parameter, as Go writes durations."""
    match = _TIMEOUT.fullmatch(request.query.get("timeout", ""))
    if not match or not any(match.groups()):
        return DEFAULT_TIMEOUT_SECONDS
    return 60 * float(match[1] or 0) + float(match[2] or 0)
