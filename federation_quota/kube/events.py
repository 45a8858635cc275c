"""Events on objects, for people: `kubectl describe` shows what happened to a quota, a binding, a workload.

`record` never waits: reports go into a bounded queue, and one task stores them. What cannot be stored is counted and
dropped: an Event is a courtesy, nothing depends on it. How often the same thing is said is decided in
`kube.correlation`.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

import structlog

from federation_quota.kube.client import Client
from federation_quota.kube.correlation import Correlator, Reference, Report, Verdict
from federation_quota.kube.error import KubeError, NotFoundError
from federation_quota.kube.resource import Resource

log = structlog.get_logger()

EVENTS = Resource("", "v1", "events", "Event")
# The API server's own limits.
_LONGEST_MESSAGE = 1024
_LONGEST_REASON = 128
_LONGEST_NAME = 253


class Recorder:
    """Says what happened, in the name of one component."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str,
        capacity: int = 1000,
        timeout_seconds: float = 10.0,
        correlator: Correlator | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._timeout_seconds = timeout_seconds
        self._correlator = correlator or Correlator()
        self._clock = clock
        self._now = now
        self._queue: asyncio.Queue[Report] = asyncio.Queue(capacity)
        self.dropped = 0

    def record(self, about: Reference, reason: str, message: str, *, is_warning: bool = False) -> None:
        """Say it, if there is room to."""
        kind = "Warning" if is_warning else "Normal"
        report = Report(about, reason[:_LONGEST_REASON], _shortened(message), kind)
        try:
            self._queue.put_nowait(report)
        except asyncio.QueueFull:
            self._drop("the queue is full")

    async def run(self) -> NoReturn:
        """Store what is reported, until cancelled."""
        while True:
            report = await self._queue.get()
            try:
                await self._store(report)
            except KubeError as problem:
                self._drop(str(problem))
            finally:
                self._queue.task_done()

    async def drain(self, timeout_seconds: float) -> bool:
        """Whether everything reported so far was dealt with in that time: for a good exit."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._queue.join()
        except TimeoutError:
            return False
        return True

    async def _store(self, report: Report) -> None:
        moment = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        verdict = self._correlator.judge(report, self._clock(), moment)
        if verdict is None:
            self._drop("too many about one object")
            return
        if verdict.known.name:
            try:
                await self._count(verdict, moment)
                return
            except NotFoundError:
                # Events live for an hour: this is the first one again.
                verdict.known.first, verdict.known.count = moment, 1
        await self._create(verdict, moment)

    async def _count(self, verdict: Verdict, moment: str) -> None:
        body = {"count": verdict.known.count, "lastTimestamp": moment, "message": verdict.report.message}
        namespace = _namespace(verdict.report.about)
        seconds = self._timeout_seconds
        await self._client.patch(
            EVENTS, verdict.known.name, body, namespace, is_idempotent=True, timeout_seconds=seconds
        )

    async def _create(self, verdict: Verdict, moment: str) -> None:
        about = verdict.report.about
        # As client-go names them: an event is never about its own name.
        suffix = f".{time.time_ns():x}"
        name = about.name[: _LONGEST_NAME - len(suffix)] + suffix
        namespace = _namespace(about)
        body = self._manifest(name, verdict, moment)
        await self._client.create(EVENTS, body, namespace, timeout_seconds=self._timeout_seconds)
        verdict.known.name = name

    def _manifest(self, name: str, verdict: Verdict, moment: str) -> dict[str, Any]:
        report, about = verdict.report, verdict.report.about
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": _namespace(about)},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "reason": report.reason,
            "message": report.message,
            "type": report.type,
            "count": verdict.known.count,
            "firstTimestamp": verdict.known.first,
            "lastTimestamp": moment,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        log.warning("events.dropped", reason=reason, dropped=self.dropped)


def _namespace(about: Reference) -> str:
    """Where Events about objects without a namespace are looked for."""
    return about.namespace or "default"


def _shortened(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _LONGEST_MESSAGE:
        return message
    return encoded[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "…"
