"""A simulated federation of tenants: an API server that keeps Leases, replicas that come and go, and a validator.

What is simulated is the API server, its watches, the clocks, and what becomes of a request after it was admitted.
Presence, rosters, titles, turns and the asking of validators are the product's own code.

Two things must hold whatever happens: no two calls of the validator are about one tenant at the same time, and a tenant
never has more than the validator allows, although it counts nothing and only believes what it is told.
"""

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from federation_quota import names
from federation_quota.accounting.answer import Allowed, Answer, Denied, Later
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import UnreachableError
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.kube import codec, error, lease
from federation_quota.kube.client import Client, Page
from federation_quota.kube.mirrors import BindingMirror, claim
from federation_quota.kube.presence import Presence, take_roll
from federation_quota.kube.roster import Roster
from federation_quota.kube.titles import LeaseTitles, read
from federation_quota.ledger.claim import NO_CLAIM
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Ask
from federation_quota.ledger.settling import EXPIRY_SECONDS, LiveLook
from federation_quota.resources import Resources
from federation_quota.tenants import tenant as tenants
from federation_quota.validators import Context, Decision, Request, Tenant, allow, refuse
from webhook.calls import Calls
from webhook.tenancy import Tenancy
from webhook.validation import Change, Objection, Validation

SYSTEM = "system"
NAMESPACES = {"shop": "shop", "shop-eu": "shop", "bank": "bank"}
"""Each with its tenant."""
LIMIT = 20
LONGEST_WRITE_SECONDS = 34.0
SECONDS = 400.0
STALL_CHANCE = 0.002
"""That a watch stalls, each time that it has something to bring,"""
STALL_SECONDS = (1.0, 90.0)
"""and for how long."""
DELETION_CHANCE = 0.5
"""That room is made by a deletion where little is left, each time that somebody would ask for more."""


class World:
    """The store, and all that is in flight."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        random.seed(seed)  # how long a replica waits after a failure
        self.version = 100
        self.leases: dict[str, dict[str, Any]] = {}
        self.bindings: dict[ObjectKey, Binding] = {}
        self.replicas: list[Replica] = []
        self.flights: list[tuple[Binding, Binding | None]] = []  # allowed and to be stored, and what was reviewed
        self.inside: dict[str, str] = {}  # by tenant, who is asking the validator about it
        self.counts: dict[str, int] = {}
        self.is_sticky = self.rng.random() < 0.3  # all requests come through one replica
        self.clients = self.rng.choice((1, 3, 3))  # where there is one, tenants are often left alone
        self.doubt = self.rng.choice((0.03, 0.03, 0.15))  # that a write is late; and that its answer is lost
        self.violation = ""
        self.violated = asyncio.Event()
        self._uids = itertools.count(1)

    def violate(self, what: str) -> None:
        self.violation = self.violation or f"{self.now:.3f}: {what}"
        self.violated.set()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def note(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def uid(self) -> str:
        return f"uid{next(self._uids)}"

    def next_version(self) -> int:
        self.version += self.rng.randint(1, 3)
        return self.version

    def store_lease(self, document: dict[str, Any]) -> dict[str, Any]:
        document["metadata"]["resourceVersion"] = str(self.next_version())
        self.leases[document["metadata"]["name"]] = document
        if document["metadata"]["labels"].get(names.COMPONENT) == names.TENANTS[names.COMPONENT]:
            body = json.dumps(document).encode()
            for one in self.replicas:
                one.titles.put_nowait(body)
        return document

    def store_binding(self, binding: Binding) -> None:
        stored = replace(binding, version=self.next_version())
        self.bindings[stored.key] = stored
        for one in self.replicas:
            one.events.put_nowait((stored, False))
        self.check(NAMESPACES[binding.key.namespace])

    def total(self, tenant: str) -> int:
        """What a tenant has, or will have by what was allowed."""
        found = {key: _cores(one) for key, one in self.bindings.items() if NAMESPACES[key.namespace] == tenant}
        for new, old in self.flights:
            if NAMESPACES[new.key.namespace] == tenant and self.can_land(new, old):
                found[new.key] = max(found.get(new.key, 0), _cores(new))
        return sum(found.values())

    def check(self, tenant: str) -> None:
        """Whether that is no more than the validator allows."""
        total = self.total(tenant)
        if total > LIMIT:
            self.violate(f"tenant {tenant} has {total} of {LIMIT}")

    def can_land(self, new: Binding, old: Binding | None) -> bool:
        """Whether the API server would still store it: on what was reviewed, or not at all."""
        stored = self.bindings.get(new.key)
        return (stored is None) if old is None else (stored is not None and stored.version == old.version)

    def delete_binding(self, key: ObjectKey) -> None:
        gone = self.bindings.pop(key, None)
        if gone is not None:
            last = replace(gone, version=self.next_version())
            for one in self.replicas:
                one.events.put_nowait((last, True))


def _cores(binding: Binding) -> int:
    return int(binding.demand["cpu"].nano // 10**9)


class Api:
    """The API server as one replica reaches it: slowly, sometimes not at all, and sometimes without an answer."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.unreachable_until = 0.0
        self.is_dead = False

    async def _way(self) -> None:
        rng = self._world.rng
        await asyncio.sleep(rng.expovariate(200))
        if self.is_dead:
            await asyncio.Event().wait()
        if self._world.now < self.unreachable_until:
            await asyncio.sleep(min(1.0, self.unreachable_until - self._world.now))
            raise error.NoAnswerError("out of reach", was_sent=False)

    async def _doubtful(self, apply: Any) -> bytes:  # noqa: ANN401
        """A write, of which the answer may be lost, or which may be stored only after everybody has given it up."""
        await self._way()
        fate = self._world.rng.random()
        if fate < self._world.doubt:
            self._world.note("late write")
            asyncio.get_running_loop().call_later(self._world.rng.uniform(0.5, LONGEST_WRITE_SECONDS), _try, apply)
            raise error.NoAnswerError("no answer")
        body: bytes = apply()
        if fate < 2 * self._world.doubt:
            self._world.note("lost answer")
            raise error.NoAnswerError("no answer")
        await asyncio.sleep(self._world.rng.expovariate(300))
        return body

    async def create(self, _resource: object, body: Mapping[str, Any], _namespace: str, **_: object) -> bytes:
        def apply() -> bytes:
            name = body["metadata"]["name"]
            if name in self._world.leases:
                raise error.AlreadyExistsError(409, "AlreadyExists")
            document = json.loads(json.dumps(body))
            document["metadata"].update(namespace=SYSTEM, uid=self._world.uid())
            document["metadata"].setdefault("labels", {})
            return json.dumps(self._world.store_lease(document)).encode()

        return await self._doubtful(apply)

    async def patch(self, _resource: object, name: str, body: Mapping[str, Any], _namespace: str, **_: object) -> bytes:
        def apply() -> bytes:
            stored = self._world.leases.get(name)
            if stored is None:
                raise error.NotFoundError(404, "NotFound")
            wanted = (body.get("metadata") or {}).get("resourceVersion")
            if wanted and wanted != stored["metadata"]["resourceVersion"]:
                self._world.note("conflict")
                raise error.ConflictError(409, "Conflict")
            return json.dumps(self._world.store_lease(_merged(stored, body))).encode()

        return await self._doubtful(apply)

    async def get(self, _resource: object, name: str, _namespace: str, **_: object) -> bytes:
        await self._way()
        if name not in self._world.leases:
            raise error.NotFoundError(404, "NotFound")
        return json.dumps(self._world.leases[name]).encode()

    async def list(
        self, _resource: object, _namespace: str, *, label_selector: str, **_: object
    ) -> AsyncGenerator[Page, None]:
        await self._way()
        wanted = dict(part.split("=") for part in label_selector.split(","))
        found = [
            msgspec.Raw(json.dumps(one).encode())
            for one in self._world.leases.values()
            if wanted.items() <= one["metadata"]["labels"].items()
        ]
        yield Page(found, self._world.version, None)

    @property
    def client(self) -> Client:
        return cast(Client, self)


def _try(apply: Any) -> None:  # noqa: ANN401
    with contextlib.suppress(error.KubeError):
        apply()


def _merged(stored: Any, patch: Any) -> Any:  # noqa: ANN401
    if not isinstance(patch, Mapping) or not isinstance(stored, dict):
        return patch
    merged = dict(stored)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key, {} if isinstance(value, Mapping) else None), value)
    return merged


@dataclass
class Budget:
    """A validator that believes what it is told, and takes its time."""

    world: World
    replica: str
    name: str = "budget"
    enabled: bool = True

    def start(self, context: Context) -> None: ...

    async def validate(self, request: Request, tenant: Tenant) -> Decision:
        world = self.world
        if tenant.name in world.inside:
            world.violate(f"{self.replica} beside {world.inside[tenant.name]} about {tenant.name}")
        world.inside[tenant.name] = self.replica
        try:
            fate = world.rng.random()
            await asyncio.sleep(world.rng.expovariate(50) if fate > 0.01 else 5.0)
            after = tenant.used + request.increase
            return allow() if after["cpu"].nano <= LIMIT * 10**9 else refuse("no more")
        finally:
            world.inside.pop(tenant.name, None)


class Here:
    """A call of the validator on the simulated loop: in a thread, time would be real, and no seed the same twice."""

    def __init__(self, _name: str, method: Callable[..., Coroutine[Any, Any, Decision]], *arguments: object) -> None:
        self.over = asyncio.ensure_future(method(*arguments))

    def stop(self) -> bool:
        return self.over.cancel()


@dataclass(eq=False)
class Replica:
    """One replica of the webhook, as far as tenants go."""

    world: World
    name: str
    api: Api = field(init=False)
    titles: "asyncio.Queue[bytes]" = field(default_factory=asyncio.Queue)
    events: "asyncio.Queue[tuple[Binding, bool]]" = field(default_factory=asyncio.Queue)
    tasks: list["asyncio.Task[Any]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = self.world
        self.api = Api(world)
        rate = world.rng.uniform(0.95, 1.05)  # how fast its clock goes
        clock = lambda: world.now * rate  # noqa: E731
        numbers = itertools.count(1)
        self.presence = Presence(
            self.api.client,
            SYSTEM,
            prefix="webhook",
            labels=names.REPLICAS,
            clock=clock,
            new_incarnation=lambda: f"{self.name}-{next(numbers)}",
        )
        self.roster = Roster(clock)
        self.observation = Observation()
        self.mirror = BindingMirror(self.observation)
        self.mirror.replace(list(world.bindings.values()), world.version)
        self.tenancy = Tenancy(
            store=LeaseTitles(self.api.client, SYSTEM),
            me=lambda: self.presence.incarnation,
            is_present=self.presence.is_current,
            roll=self._roll,
            observation=self.observation,
            look=self._look,
        )
        self.validation = Validation(
            [Budget(world, self.name)],
            Calls(2.0, begin=Here),
            self.tenancy,
            self.observation.view,
            labels=lambda namespace: {"quota.karmada.io/tenant": NAMESPACES[namespace]},
            look=self._labels,
            namespaces=lambda tenant: tenants.namespaces(
                tenant, ((name, {"quota.karmada.io/tenant": whose}) for name, whose in NAMESPACES.items())
            ),
        )
        for work in (self.presence.run(), self.tenancy.run(), self._watch_titles(), self._watch_bindings()):
            self.tasks.append(asyncio.create_task(work))

    async def _roll(self) -> frozenset[str]:
        try:
            await take_roll(self.api.client, SYSTEM, names.selector(names.REPLICAS), self.roster)
        except error.KubeError as problem:
            raise UnreachableError(str(problem)) from problem
        return self.roster.unsettled(EXPIRY_SECONDS)

    async def _look(self, namespace: str, binding: str) -> LiveLook:
        await self.api._way()
        found = self.world.bindings.get(ObjectKey(namespace, binding))
        return LiveLook(found.version if found else None)

    async def _labels(self, namespace: str) -> dict[str, str]:
        return {"quota.karmada.io/tenant": NAMESPACES[namespace]}

    async def _watch_titles(self) -> None:
        while True:
            body = await self.titles.get()
            await self._lag()
            self.tenancy.stored(read(lease.decode(body)))

    async def _watch_bindings(self) -> None:
        while True:
            binding, is_gone = await self.events.get()
            await self._lag()
            (self.mirror.delete if is_gone else self.mirror.upsert)(binding)

    async def _lag(self) -> None:
        rng = self.world.rng
        await asyncio.sleep(rng.expovariate(300) if rng.random() > STALL_CHANCE else rng.uniform(*STALL_SECONDS))

    def crash(self) -> None:
        self.api.is_dead = True
        for task in self.tasks:
            task.cancel()

    async def leave(self) -> None:
        await self.tenancy.close(timeout_seconds=2.0)
        self.crash()


class Scenario:
    """Clients, faults, and time."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self._requests: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    async def run(self) -> None:
        world = self.world
        for number in (1, 2):
            world.replicas.append(Replica(world, f"r{number}"))
        try:
            async with asyncio.TaskGroup() as tasks:
                clients = [tasks.create_task(self._client(tasks)) for _ in range(world.clients)]
                trouble = tasks.create_task(self._trouble())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(world.violated.wait(), SECONDS)
                for task in (*clients, trouble):
                    task.cancel()
        finally:
            for replica in world.replicas:
                replica.crash()

    async def _client(self, tasks: asyncio.TaskGroup) -> None:
        rng = self.world.rng
        while True:
            # Long pauses now and then: titles are given up only when nobody comes.
            await asyncio.sleep(rng.expovariate(2) if rng.random() > 0.03 else rng.uniform(5, 30))
            live = [one for one in self.world.replicas if not one.api.is_dead]
            if live:
                tasks.create_task(self._request(live[0] if self.world.is_sticky else rng.choice(live)))

    async def _request(self, replica: Replica) -> None:
        world, rng = self.world, self.world.rng
        namespace = rng.choice(list(NAMESPACES))
        stored = [one for key, one in world.bindings.items() if key.namespace == namespace]
        if stored and rng.random() < (DELETION_CHANCE if world.total(NAMESPACES[namespace]) > 0.8 * LIMIT else 0.05):
            world.delete_binding(rng.choice(stored).key)
            return
        old = rng.choice(stored) if stored and rng.random() < 0.4 else None
        new = _binding(namespace, old, f"b{next(self._numbers)}", rng.randint(1, 5), world.uid())
        before = claim(old) if old else NO_CLAIM
        uid, base = (new.uid, None) if old is None else (None, old.version)
        ask = Ask(world.uid(), new.key.name, claim(new), before, uid, base)
        if not ask.increases:
            self._land(new, old)
            return
        # The API server may ask several times about one request, of several replicas.
        answers = []
        for _ in range(1 if rng.random() > 0.1 else 2):
            answers.append(await self._judged(replica, new, ask))
        for answer in answers:
            world.note(type(answer).__name__)
        if all(isinstance(one, Allowed) for one in answers) and rng.random() > 0.05:
            flight = (new, old)
            world.flights.append(flight)
            world.check(NAMESPACES[namespace])
            await asyncio.sleep(rng.expovariate(200) if rng.random() > 0.2 else rng.uniform(0, LONGEST_WRITE_SECONDS))
            self._land(new, old)
            world.flights.remove(flight)

    async def _judged(self, replica: Replica, new: Binding, ask: Ask) -> Answer | Objection:
        review = codec.AdmissionRequest(
            uid="1",
            operation="CREATE" if ask.uid else "UPDATE",
            kind=codec.GroupVersionKind(),
            resource=codec.GroupVersionResource(),
            object=msgspec.Raw(b"{}"),
        )

        async def quotas() -> Answer:
            await asyncio.sleep(self.world.rng.expovariate(100))
            fate = self.world.rng.random()
            if not replica.presence.is_current():
                return Later("lost")
            return Denied(Denial("q", (), "")) if fate < 0.05 else Allowed()

        judging = asyncio.ensure_future(
            replica.validation.judge(Change(review, new, ask), self.world.now + 9.5, quotas)
        )
        replica.tasks.append(judging)
        try:
            return await judging
        except asyncio.CancelledError:
            if replica.api.is_dead:
                return Later("the replica is gone")
            raise
        finally:
            replica.tasks.remove(judging)

    def _land(self, new: Binding, old: Binding | None) -> None:
        if self.world.can_land(new, old):
            self.world.store_binding(new)

    async def _trouble(self) -> None:
        """Replicas die, leave, come back, and lose the API server."""
        world, rng = self.world, self.world.rng
        numbers = itertools.count(3)
        while True:
            await asyncio.sleep(rng.uniform(3, 40))
            live = [one for one in world.replicas if not one.api.is_dead]
            victim = rng.choice(live)
            match rng.choice(["crash", "leave", "unreachable", "start", "start"]):
                case "crash" if len(live) > 1:
                    world.note("crash")
                    victim.crash()
                case "leave" if len(live) > 1:
                    world.note("leave")
                    await victim.leave()
                case "unreachable":
                    world.note("unreachable")
                    victim.api.unreachable_until = world.now + rng.uniform(1, 25)
                case "start" if len(live) < 3:
                    world.replicas.append(Replica(world, f"r{next(numbers)}"))


def _binding(namespace: str, old: Binding | None, name: str, amount: int, uid: str) -> Binding:
    template = TemplateRef("apps/v1", "Deployment", namespace, name)
    demand = Resources.parse({"cpu": str(amount)})
    if old is not None:
        return replace(old, demand=demand)
    return Binding(ObjectKey(namespace, name), uid, 0, template, demand=demand)
