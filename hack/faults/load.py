"""Steady load: clients that create, scale and delete bindings in several namespaces whose quotas are nearly full.

Each client has its own random numbers, from the seed and its own number: what it chooses does not depend on what the
others do. What it was told goes into a list, for the checker. Nothing is tried again.
"""

import asyncio
import contextlib
import itertools
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from faults import charge
from faults.api import BINDINGS, DEPLOYMENTS, Api
from faults.checker import Request
from faults.history import Key
from faults.recorder import Recorder

CPU, MEMORY = "100m", "64Mi"
PAUSE_SECONDS = 0.35
MOST_REPLICAS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace, its limit, and who is at work in it."""

    namespace: str
    hard: dict[str, str]
    clients: int = 3
    names: int = 8  # bindings, shared by all of its clients
    is_real: bool = False  # Deployments, which Karmada makes bindings of
    is_tidal: bool = False  # each client creates bindings of its own, as fast as it can, and deletes them all again

    def quota(self) -> dict[str, Any]:
        """Its quota."""
        return {
            "apiVersion": "quota.karmada.io/v1alpha1",
            "kind": "KarmadaQuota",
            "metadata": {"name": "limit", "namespace": self.namespace},
            "spec": {"hard": self.hard},
        }


PLACES = (
    # Unlimited, there would be about three replicas per name: each has less than it would use of something.
    Place("faults-cpu", {"cpu": "1700m"}),
    Place("faults-memory", {"memory": "1152Mi", "cpu": "10"}),
    Place("faults-pods", {"pods": "14", "cpu": "1500m"}, clients=2, names=6),
    # From nothing to the limit and back, in seconds: busy times, in which admissions are cheaper than elsewhere.
    Place("faults-tide", {"pods": "130"}, names=30, is_tidal=True),
    Place("faults-real", {"cpu": "1", "pods": "30"}, clients=1, names=4, is_real=True),
)


@dataclass(slots=True)
class Log:
    """All requests that were answered, or given up, in that order."""

    requests: list[Request] = field(default_factory=list)
    in_a_row: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By namespace: how many were decided since the last one that was not."""

    def add(self, request: Request) -> None:
        """One more."""
        self.requests.append(request)
        namespace = request.key.namespace
        self.in_a_row[namespace] = self.in_a_row[namespace] + 1 if request.is_decided else 0


class Load:
    """The clients; they work between `resume` and `pause`."""

    def __init__(self, api: Api, recorder: Recorder, places: Sequence[Place], seed: int) -> None:
        self.log = Log()
        self.places = places
        self._api = api
        self._recorder = recorder
        self._seed = seed
        self._going = asyncio.Event()
        self._is_over = False
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def resume(self) -> None:
        """Go on."""
        self._going.set()

    async def pause(self) -> None:
        """Send nothing more, and return when nothing is under way."""
        self._going.clear()
        await self._idle.wait()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The clients are there while the block lasts."""
        async with asyncio.TaskGroup() as group:
            for place in self.places:
                for number in range(place.clients):
                    group.create_task(self._work(place, number), name=f"client {place.namespace} {number}")
            try:
                yield
            finally:
                self._is_over = True
                self._going.set()

    async def _work(self, place: Place, number: int) -> None:
        rng = random.Random(f"{self._seed} {place.namespace} {number}")  # noqa: S311 - to be repeatable
        tide = itertools.cycle(range(2 * place.names))
        while await self._may_go_on():
            self._under_way += 1
            self._idle.clear()
            try:
                if place.is_real:
                    await self._deploy(place, rng)
                elif place.is_tidal:
                    await self._rise_or_fall(place, rng, number, next(tide))
                else:
                    await self._step(place, rng)
            finally:
                self._under_way -= 1
                if not self._under_way:
                    self._idle.set()
            pause = PAUSE_SECONDS / 4 if place.is_tidal else PAUSE_SECONDS
            await asyncio.sleep(pause * (0.5 + rng.random()))

    async def _may_go_on(self) -> bool:
        await self._going.wait()
        return not self._is_over

    async def _step(self, place: Place, rng: random.Random) -> None:
        """One request about one binding."""
        name, replicas, chance = f"b{rng.randrange(place.names)}", rng.randint(1, MOST_REPLICAS), rng.random()
        path = BINDINGS.format(place.namespace)
        ask = _cost(replicas)
        key = Key(place.namespace, name)
        if chance < 0.35:
            body = _binding(place.namespace, name, replicas)
            await self._send(key, "create", "POST", path, body, ask)
        elif chance < 0.8:
            # No resourceVersion in it: the API server reviews again, on a fresh object, for every conflict.
            await self._send(key, "scale", "PATCH", f"{path}/{name}", {"spec": {"replicas": replicas}}, ask)
        else:
            await self._send(key, "delete", "DELETE", f"{path}/{name}")

    async def _rise_or_fall(self, place: Place, rng: random.Random, client: int, turn: int) -> None:
        path = BINDINGS.format(place.namespace)
        key = Key(place.namespace, f"b{client}-{turn % place.names}")
        replicas = rng.randint(1, 3)
        if turn < place.names:
            body = _binding(place.namespace, key.name, replicas)
            await self._send(key, "create", "POST", path, body, _cost(replicas))
        else:
            await self._send(key, "delete", "DELETE", f"{path}/{key.name}")

    async def _deploy(self, place: Place, rng: random.Random) -> None:
        """One request about one Deployment; what Karmada makes of it is between it and the quota."""
        name, replicas, chance = f"d{rng.randrange(place.names)}", rng.randint(1, MOST_REPLICAS), rng.random()
        path = DEPLOYMENTS.format(place.namespace)
        key = Key(place.namespace, name)
        if chance < 0.3:
            await self._send(key, "create", "POST", path, _deployment(name, replicas))
        elif chance < 0.85:
            await self._send(key, "scale", "PATCH", f"{path}/{name}", {"spec": {"replicas": replicas}})
        else:
            await self._send(key, "delete", "DELETE", f"{path}/{name}?propagationPolicy=Background")

    async def _send(
        self,
        key: Key,
        verb: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        ask: charge.Amounts | None = None,
    ) -> None:
        sent, seen = self._recorder.now(), self._recorder.history.version
        answer = await self._api.ask(method, path, body)
        self.log.add(
            Request(key, verb, sent, self._recorder.now(), seen, answer.code, answer.reason, answer.message, ask)
        )


def policy(namespace: str) -> dict[str, Any]:
    """What makes Karmada spread the Deployments of a namespace."""
    scheduling = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "everything", "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"replicaScheduling": scheduling},
        },
    }


def _cost(replicas: int) -> charge.Amounts:
    each = charge.amounts({"cpu": CPU, "memory": MEMORY, "pods": "1"})
    return {name: amount * replicas for name, amount in each.items()}


def _binding(namespace: str, name: str, replicas: int) -> dict[str, Any]:
    """A binding as Karmada's detector makes it, for a workload that does not matter."""
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": name},
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": CPU, "memory": MEMORY}},
        },
    }


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example/none:1",
        "resources": {"requests": {"cpu": CPU, "memory": MEMORY}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }
