"""Clients that ask as fast as they are answered, for a while, and what they were told.

One process for all of them: it shares the machine's cores with what it measures, whoever is measured alike.
"""

import asyncio
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from federation_quota.kube.config import Connection

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings"
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
_PATCH = {**_HEADERS, "Content-Type": "application/merge-patch+json"}


@dataclass(frozen=True, slots=True)
class Request:
    """One thing to ask."""

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str]


@dataclass(slots=True)
class Told:
    """What came of a turn."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)  # of what ended as wanted, in seconds
    others: Counter[str] = field(default_factory=Counter)  # of all else: how it ended

    @property
    def rate(self) -> float:
        """What ended as wanted, per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """The latency that so many did not exceed, in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def binding(name: str, namespace: str, replicas: int = 1, *, says_class: bool = True) -> dict[str, Any]:
    """A binding as Karmada has it after scheduling, when its own quota looks at it, too.

    With `says_class` it is written as under Karmada's gate ResourceQuotaEstimate.
    """
    requirements: dict[str, Any] = {"resourceRequest": {"cpu": "100m", "memory": "64Mi"}}
    if says_class:
        requirements["namespace"] = namespace
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": name},
            "replicas": replicas,
            "replicaRequirements": requirements,
            "clusters": [{"name": "m1", "replicas": replicas}],
        },
    }


def creation(namespace: str, name: str, replicas: int = 1, *, says_class: bool = True) -> Request:
    """One new binding."""
    body = msgspec.json.encode(binding(name, namespace, replicas, says_class=says_class))
    return Request("POST", BINDINGS.format(namespace=namespace), body, _HEADERS)


def creations(namespace: str, prefix: str, *, says_class: bool = True) -> Iterator[Request]:
    """One new binding after the other."""
    for number in itertools.count():
        yield creation(namespace, f"{prefix}-{number}", says_class=says_class)


def deletion(namespace: str) -> Request:
    """Of all bindings of a namespace."""
    return Request("DELETE", BINDINGS.format(namespace=namespace), b"", {})


def scalings(namespace: str, name: str) -> Iterator[Request]:
    """One binding, up and down and up: every second one asks for more."""
    path = f"{BINDINGS.format(namespace=namespace)}/{name}"
    bodies = [
        msgspec.json.encode({"spec": {"replicas": size, "clusters": [{"name": "m1", "replicas": size}]}})
        for size in (2, 1)
    ]
    for body in itertools.cycle(bodies):
        yield Request("PATCH", path, body, _PATCH)


def is_stored(status: int, _body: bytes) -> bool:
    """What most clients want."""
    return status in (200, 201)


def is_denied(status: int, body: bytes) -> bool:
    """What one wants who measures denials: refused by a quota, and nothing else."""
    return status == 403 and b'"QuotaExceeded"' in body


class Clients:
    """The connections to one API server, kept over all turns."""

    def __init__(self, connection: Connection, most: int) -> None:
        self._connection = connection
        self._most = most
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Clients":
        identity = await self._connection.credentials.identity()
        connector = aiohttp.TCPConnector(limit=self._most, ssl=identity.tls or True, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(
            connector=connector, headers=dict(identity.headers), cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, request: Request) -> tuple[int, bytes]:
        """One request, answered or not: a connection that broke is status 0."""
        if self._session is None:
            raise RuntimeError("used inside its `async with` block")
        url = f"{self._connection.server.rstrip('/')}{request.path}"
        try:
            async with self._session.request(request.method, url, data=request.body, headers=request.headers) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError) as problem:
            return 0, str(problem).encode()

    async def turn(
        self,
        plans: list[Iterator[Request]],
        seconds: float,
        is_wanted: Callable[[int, bytes], bool] = is_stored,
        *,
        per_second: float = math.inf,
    ) -> Told:
        """Each plan is one client's, followed until the time is over; what is under way then is waited for.

        All of them together ask no more than `per_second`.
        """
        told = Told()
        began = free = time.perf_counter()

        async def follow(plan: Iterator[Request]) -> None:
            nonlocal free
            while (start := time.perf_counter()) - began < seconds:
                if free > start:
                    mine, free = free, free + 1 / per_second
                    await asyncio.sleep(mine - start)
                    start = mine
                else:
                    free = start + 1 / per_second
                status, body = await self.ask(next(plan))
                if is_wanted(status, body):
                    told.latencies.append(time.perf_counter() - start)
                else:
                    told.others[_words(status, body)] += 1

        await asyncio.gather(*(follow(plan) for plan in plans))
        told.seconds = time.perf_counter() - began
        return told


def _words(status: int, body: bytes) -> str:
    """How a request ended, in a few words that many of a kind share."""
    try:
        answer = msgspec.json.decode(body)
        return f"{status} {answer.get('reason') or ''}".strip()
    except (msgspec.MsgspecError, AttributeError):
        return f"{status} {body[:60].decode(errors='replace')}"
