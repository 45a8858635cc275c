"""The HTTPS server: reviews in, verdicts out, health for whoever watches over it.

Each hook is a path and a function from a review and its deadline to a verdict. The server knows nothing of what they
judge. It answers within the time that the API server gives (`?timeout=10s`), says clearly what is wrong with a request
that is no review, and goes on.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from aiohttp import web

from federation_quota import logs, metrics
from federation_quota.health import Health
from federation_quota.kube import codec
from federation_quota.monitoring import Address
from webhook.connections import Connections
from webhook.intake import LARGEST_BODY, Intake
from webhook.listener import Listener
from webhook.refusals import Refusals
from webhook.review import QUOTA_EXCEEDED, Verdict, encode, later, refuse
from webhook.turns import Turns

log = structlog.get_logger()

Hook = Callable[[codec.AdmissionRequest, float], Awaitable[Verdict]]

DEFAULT_TIMEOUT_SECONDS = 10.0
# API servers give no review more; somebody else might.
LONGEST_TIMEOUT_SECONDS = 30.0
# For how long a connection may be idle. Go's clients give theirs up after 90 s: it is theirs to end it, or a request
# that is on its way just then would fail.
IDLE_SECONDS = 180.0
# Kept back for the way here and home, a second and more where CPU is short: an answer that comes too late is an error
# for the client, one in time is at least «later».
MARGIN_SHARE = 0.2
LEAST_MARGIN_SECONDS = 0.5
# What the object of a review is called in the log.
_KIND: Final = {
    "resourcebindings": "binding",
    "karmadaquotas": "quota",
    "elasticquotas": "quota",
    "compositeelasticquotas": "quota",
    "quotatrees": "tree",
    "works": "work",
}
_TIMEOUT = re.compile(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


class Server:
    """The admission server of one replica."""

    def __init__(
        self,
        hooks: Mapping[str, Hook],
        *,
        health: Health,
        intake: Intake | None = None,  # other limits than usual
        connections: Connections | None = None,
    ) -> None:
        self._health = health
        self._app = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._part])
        self._connections = connections or Connections()
        self._app.add_routes(health.routes())
        refusals, intake, turns = Refusals(), intake or Intake(), Turns()
        for path, hook in hooks.items():
            handler = _Handler(path.removeprefix("/"), hook, refusals, intake, turns, self._connections)
            self._app.router.add_post(path, handler.handle)
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            shutdown_timeout=30,
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,  # no API server compresses a review
            lingering_time=5.0,
        )
        self._listener = Listener(self._runner, self._connections)

    @property
    def is_listening(self) -> bool:
        """Whether who connects is answered."""
        return self._listener.is_open

    async def start(self, address: Address, context: ssl.SSLContext, *, shares_port: bool = False) -> None:
        """Listen; `shares_port`: beside other replicas on the same machine."""
        await self._runner.setup()
        await self._listener.open(address, context, shares_port=shares_port)

    async def stop(self, drain_seconds: float) -> None:
        """Say that no more should come, go on answering what comes anyway, then finish what is under way."""
        self._health.drain()
        await asyncio.sleep(drain_seconds)
        await self._listener.close()
        await self._runner.cleanup()  # from here on nothing is read any more, not even the rest of a request

    @web.middleware
    async def _part(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """While draining every answer ends its connection: the next request goes to another replica."""
        with self._connections.busy(request.protocol):
            answer = await handler(request)
        if self._health.is_draining:
            answer.force_close()
        return answer


class _Handler:
    """One hook as aiohttp calls it: measured, and with a word in the log about what is refused."""

    def __init__(
        self, name: str, hook: Hook, refusals: Refusals, intake: Intake, turns: Turns, connections: Connections
    ) -> None:
        self._name = name
        self._connections = connections
        self._hook = hook
        self._refusals = refusals
        self._intake = intake
        self._turns = turns
        self._seconds = metrics.admission_seconds.labels(name)
        self._denied = metrics.denied.labels(name)

    async def handle(self, request: web.Request) -> web.Response:
        """One request."""
        began = asyncio.get_running_loop().time()
        allowed = _allowed_seconds(request)
        deadline = began + allowed - max(LEAST_MARGIN_SECONDS, MARGIN_SHARE * allowed)
        async with self._intake.body(request) as body:
            self._connections.heard(request.protocol)
            return await self._answer(body, began, deadline)

    async def _answer(self, body: bytes, began: float, deadline: float) -> web.Response:
        try:
            review = codec.decode_review(body)
        except codec.CodecError as error:
            log.warning("review.unreadable", hook=self._name, problem=str(error), size=len(body))
            return web.Response(status=400, text=f"not an AdmissionReview: {error}")
        with logs.about_review(review.uid):
            verdict = await self._judge(review, deadline)
            self._tell(review, verdict)
        self._seconds.observe(asyncio.get_running_loop().time() - began)
        metrics.admissions.labels(self._name, _result(verdict), _reason(verdict)).inc()
        return web.Response(body=encode(review.uid, verdict), content_type="application/json")

    async def _judge(self, review: codec.AdmissionRequest, deadline: float) -> Verdict:
        try:
            async with asyncio.timeout_at(deadline + LEAST_MARGIN_SECONDS / 2), self._turns.of(self._queue(review)):
                return await self._hook(review, deadline)
        except codec.CodecError as error:
            return refuse(400, "BadRequest", str(error))
        except TimeoutError:
            return later("no decision could be made in time")
        except Exception:
            log.exception("review.failed", operation=review.operation, namespace=review.namespace, name=review.name)
            return refuse(500, "InternalError", "federation-quota failed to judge this: its log says why")

    def _queue(self, review: codec.AdmissionRequest) -> str:
        # The Works of all tenants are in one namespace for each member: there they have queues of their own.
        is_shared = review.resource.resource == "works"
        return f"{self._name} {review.namespace}/{review.name if is_shared else ''}"

    def _tell(self, review: codec.AdmissionRequest, verdict: Verdict) -> None:
        """One line for each refusal; none where the same is refused again."""
        about = (self._name, review.namespace, review.name, review.user_info.username)
        if verdict.is_allowed:
            self._refusals.forget(about)
            return
        denial = verdict.denial
        # What is used changes all the time where much is going on: that alone is no news.
        said = (denial.quota, denial.requested, denial.limited) if denial else (verdict.code, verdict.message)
        if verdict.code == 500 or not self._refusals.is_news(about, said):
            return  # of a failure everything has been said
        if verdict.reason == QUOTA_EXCEEDED:
            self._denied.inc()
        review_log = log.bind(
            hook=self._name,
            operation=review.operation,
            namespace=review.namespace,
            user=review.user_info.username,
            **{_KIND.get(review.resource.resource, "name"): review.name},
        )
        if denial:
            amounts = {"requested": denial.requested, "used": denial.used, "limited": denial.limited}
            review_log.info("review.denied", quota=denial.quota, **amounts)
        elif verdict.code == 429:
            review_log.info("review.postponed", message=verdict.message)
        else:
            review_log.info("review.refused", code=verdict.code, reason=verdict.reason, message=verdict.message)


def _result(verdict: Verdict) -> str:
    if verdict.is_allowed:
        return "allowed"
    return {429: "later", 500: "failed"}.get(verdict.code, "refused")


def _reason(verdict: Verdict) -> str:
    return "Warned" if verdict.is_allowed and verdict.warnings else verdict.reason


def _allowed_seconds(request: web.Request) -> float:
    """The time that the API server gives: its `timeout` parameter, as Go writes durations."""
    match = _TIMEOUT.fullmatch(request.query.get("timeout", ""))
    if not match or not any(match.groups()):
        return DEFAULT_TIMEOUT_SECONDS
    return min(60 * float(match[1] or 0) + float(match[2] or 0), LONGEST_TIMEOUT_SECONDS)
