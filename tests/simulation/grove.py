"""A store with a tree of quotas, replicas of the webhook that see it late, and administrators who change it at once.

The reviews are the real ones, and so is what they share. Simulated are the API server (which reviews again where an
object has changed meanwhile, and may drop a write that was let through), the watches, which lag and stall, and time.
"""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from federation_quota.elastic import quota as quotas
from federation_quota.elastic import topology
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.elastic.underway import WRITE_SECONDS
from federation_quota.kube import codec
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS
from federation_quota.kube.reflector import Reflector
from tests.simulation.violation import Violation
from tests.unit.forests import Mirror, Shared, Shelf
from webhook.deliberation import Deliberation
from webhook.elastic import ElasticReview
from webhook.review import Verdict

Object = dict[str, Any]

PLURALS: Final = {one.kind: one.plural for one in (ELASTIC_QUOTAS, COMPOSITE_ELASTIC_QUOTAS)}
PARENTS: Final = ("dept", "lab")
NAMESPACES: Final = ("a", "b", "c", "d")
REVIEW_SECONDS: Final = 10.0
# An API server cuts every write somewhat before anybody takes it for gone.
CUT_SECONDS: Final = WRITE_SECONDS - 1


@dataclass(frozen=True)
class Wish:
    """What an administrator wants there to be; without a spec, nothing."""

    kind: str
    name: str
    spec: Object | None


class Replica(Mirror):
    """What one replica of the webhook has seen."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self._world = world
        self.shared = Shared(world.shelf)
        self.seen = dict.fromkeys(PLURALS, 0)  # how much of each kind's history
        self.is_stalled = False
        for reflector in self.reflectors:
            reflector.refresh = self._refresher(reflector)  # type: ignore[method-assign] # nobody runs it
        self.review = ElasticReview(
            self, Deliberation(self, self.shared), lambda _user: False, lambda _namespace: False
        )

    def _refresher(self, reflector: Reflector[Any]) -> Any:  # noqa: ANN401
        async def refresh(timeout_seconds: float) -> bool:
            await asyncio.sleep(self._world.latency())
            self.read(reflector)
            return True

        return refresh

    async def refresh(self, timeout_seconds: float) -> bool:
        for reflector in self.reflectors:
            await reflector.refresh(timeout_seconds)
        return True

    def read(self, reflector: Reflector[Any]) -> None:
        """List a kind."""
        kind, world = reflector.resource.kind, self._world
        if kind in self.seen:
            self.seen[kind] = len(world.history[kind])
            stored = [one for one in world.objects.values() if one["kind"] == kind]
            reflector._sink.replace([reflector._decode(json.dumps(one).encode()) for one in stored], world.version)
        reflector.version = world.version
        reflector._milestones.reach(world.version)

    async def watch(self) -> None:
        """See what happens, some time later."""
        while True:
            await asyncio.sleep(self._world.latency())
            if self.is_stalled:
                continue
            await asyncio.sleep(0)
            self._see_changes_under_way()
            for kind, history in self._world.history.items():
                reflector = next(one for one in self.reflectors if one.resource.kind == kind)
                for version, event in history[self.seen[kind] :]:
                    item = reflector._decode(json.dumps(event["object"]).encode())
                    (reflector._sink.delete if event["type"] == "DELETED" else reflector._sink.upsert)(item)
                    reflector.version = version
                    reflector._milestones.reach(version)
                self.seen[kind] = len(history)

    def _see_changes_under_way(self) -> None:
        """Decode the list only where it has changed, as a watch brings it: this is called every ten milliseconds."""
        shelf = self._world.shelf
        if shelf.version != self.shared._kept.version:
            self.shared.replace([self.shared.reflector._decode(shelf.stored)], shelf.version)


@dataclass
class World:
    """One seed."""

    seed: int
    replicas: list[Replica] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.shelf = Shelf()
        self.version = 100
        self.objects: dict[tuple[str, str], Object] = {}
        self.history: dict[str, list[tuple[int, Object]]] = {kind: [] for kind in PLURALS}
        self.forests: list[Forest] = []  # everything that was ever true
        self._store(Wish(COMPOSITE, "dept", {"min": {"cpu": 10}}))

    def latency(self) -> float:
        """Mostly soon, sometimes not."""
        return self.random.expovariate(1 / 0.01) if self.random.random() < 0.95 else self.random.uniform(0, 2)

    async def run(self, administrators: int = 5, changes: int = 12) -> None:
        self.replicas = [Replica(self) for _ in range(2)]
        for replica in self.replicas:
            for reflector in replica.reflectors:
                replica.read(reflector)
        background = [asyncio.create_task(one.watch()) for one in self.replicas]
        background.append(asyncio.create_task(self._stall()))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(administrators):
                tasks.create_task(self._administer(changes))
        for task in background:
            task.cancel()

    async def _stall(self) -> None:
        """Watches that stand still for a while, as they do where a connection is cut and nobody says so."""
        while True:
            await asyncio.sleep(self.random.uniform(0, 20))
            victim = self.random.choice(self.replicas)
            victim.is_stalled = True
            await asyncio.sleep(self.random.choice([1.0, 10.0, 2 * WRITE_SECONDS]))
            victim.is_stalled = False

    async def _administer(self, changes: int) -> None:
        for _ in range(changes):
            await asyncio.sleep(self.random.choice([0.0, 0.0, 0.02, 3.0]))
            await self._ask_for(self._wish())

    def _wish(self) -> Wish:
        draw = self.random
        if draw.random() < 0.25:
            name = draw.choice(PARENTS)
            parent: Object = {"min": {"cpu": draw.choice([4, 10])}, **self._limits()}
            return Wish(COMPOSITE, name, None if draw.random() < 0.5 else parent)
        namespace = draw.choice(NAMESPACES)
        spec: Object | None = {"parent": draw.choice(PARENTS), "min": {"cpu": draw.randint(1, 8)}, **self._limits()}
        if draw.random() < 0.25:
            spec = None
        if draw.random() < 0.3:
            return Wish(COMPOSITE, f"team-{namespace}", spec and {**spec, "namespaces": [namespace]})
        return Wish(ELASTIC, f"{namespace}/quota", spec)

    def _limits(self) -> Object:
        """Now and then one of a user, who may have no more below than above."""
        if self.random.random() < 0.6:
            return {}
        most = {"cpu": self.random.randint(1, 3)}
        return {"limits": [{"users": [self.random.choice(["ann", "*"])], "maxResources": most}]}

    async def _ask_for(self, wish: Wish) -> None:
        """One request to the API server: reviewed, and stored if nothing has changed since."""
        deadline = asyncio.get_running_loop().time() + CUT_SECONDS
        while asyncio.get_running_loop().time() < deadline - REVIEW_SECONDS:
            old = self.objects.get((wish.kind, wish.name))
            if old is None and wish.spec is None:
                return
            made = self._made(wish, old)
            asked_at = len(self.forests) - 1
            verdict = await self._reviewed(made, old, wish)
            self.counts[str(verdict.code)] += 1
            if not verdict.is_allowed:
                self._check_refusal(verdict, wish, asked_at)
                return
            on_its_way = self.random.choice([0.0, 0.01, 0.5, 20.0]) + self.latency()
            if asyncio.get_running_loop().time() + on_its_way >= deadline or self.random.random() < 0.1:
                self.counts["lost"] += 1  # somebody else refused it, or it took too long
                return
            await asyncio.sleep(on_its_way)
            if self.objects.get((wish.kind, wish.name)) is old:
                self._store(wish, made)
                return
            self.counts["again"] += 1

    async def _reviewed(self, new: Object | None, old: Object | None, wish: Wish) -> Verdict:
        namespace, _, name = wish.name.rpartition("/")
        request = codec.AdmissionRequest(
            uid="u",
            operation="DELETE" if new is None else "CREATE" if old is None else "UPDATE",
            kind=codec.GroupVersionKind(),
            resource=codec.GroupVersionResource("quota.karmada.io", "v1alpha1", PLURALS[wish.kind]),
            namespace=namespace,
            name=name,
            object=msgspec.Raw(json.dumps(new).encode()),
            old_object=msgspec.Raw(json.dumps(old).encode()),
        )
        replica = self.random.choice(self.replicas)
        await asyncio.sleep(self.latency())
        return await replica.review(request, asyncio.get_running_loop().time() + REVIEW_SECONDS)

    def _made(self, wish: Wish, old: Object | None) -> Object | None:
        if wish.spec is None:
            return None
        namespace, _, name = wish.name.rpartition("/")
        new: Object = {"uid": f"uid-{self.random.getrandbits(64):x}", "generation": 0}
        known = old["metadata"] if old else new
        is_changed = old is None or old["spec"] != wish.spec
        generation = known["generation"] + is_changed
        metadata = {"name": name, "uid": known["uid"], "generation": generation}
        return {
            "kind": wish.kind,
            "metadata": metadata | ({"namespace": namespace} if namespace else {}),
            "spec": wish.spec,
        }

    def _store(self, wish: Wish, made: Object | None = None) -> None:
        made = made or self._made(wish, None)
        self.version += 1
        key = wish.kind, wish.name
        before = self.objects.get(key)
        if made is None:
            if before is None:
                return
            del self.objects[key]
            self.history[wish.kind].append((self.version, {"type": "DELETED", "object": before}))
        else:
            made["metadata"]["resourceVersion"] = str(self.version)
            self.objects[key] = made
            self.history[wish.kind].append((self.version, {"type": "MODIFIED", "object": made}))
        self.forests.append(Forest.of(quotas.read(one) for one in self.objects.values()))
        self._check(self.forests[-1], wish)

    def _check(self, forest: Forest, wish: Wish) -> None:
        """Every quota fits beside all others."""
        for one in forest.quotas.values():
            rest = replace(forest, quotas={name: other for name, other in forest.quotas.items() if name != one.name})
            if errors := topology.check_quota(rest, one):
                raise Violation(f"{wish} was stored: {errors[0]}")

    def _check_refusal(self, verdict: Verdict, wish: Wish, asked_at: int) -> None:
        """There was a moment since it was asked for at which it was wrong."""
        if verdict.code != 422:
            return
        for forest in self.forests[asked_at:]:
            if self._is_wrong(forest, wish):
                return
        raise Violation(f"{wish} was refused without a reason: {verdict.message}")

    def _is_wrong(self, forest: Forest, wish: Wish) -> bool:
        known = forest.quotas.get(wish.name)
        if wish.spec is None:
            return known is not None and bool(topology.check_quota_deletion(forest, known))
        made = self._made(wish, None)
        return made is not None and bool(topology.check_quota(forest, quotas.read(made), known))
