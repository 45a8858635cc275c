"""One seed: clients that ask, accounts that come and go, replicas that die, and what must be true of it all."""

import asyncio
import contextlib
import itertools
from dataclasses import replace

from federation_quota.accounting.answer import Allowed, Denied
from federation_quota.accounting.settler import Settler
from federation_quota.accounting.store import ConflictError, UnreachableError
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.ledger import settling
from federation_quota.ledger.account import Account
from federation_quota.limits import usage
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.limit import Limit
from federation_quota.quantity import Quantity, parse
from federation_quota.resources import Resources
from federation_quota.scope import Selector
from federation_quota.stamp import Owner, Stamp
from tests.simulation.invariants import Invariants, Moment, asked_in
from tests.simulation.world import (
    ANOTHER_NAMESPACE,
    EXPIRY_SECONDS,
    LONGEST_WRITE_SECONDS,
    NAMESPACE,
    PLACES,
    Flight,
    Replica,
    SimulatedStore,
    World,
)
from webhook.bindings import asks_of

CLASSES = ["", "gold", "silver"]
KEYS = [ObjectKey(NAMESPACE, f"b{number}") for number in range(5)]
# The same names in both: they are not the same bindings.
KEYS_UNDER_LEAVES = [ObjectKey(place, f"b{number}") for place in (NAMESPACE, ANOTHER_NAMESPACE) for number in range(3)]
LEAVES = ["team", "lab"]
LIMITS = {
    "all": {"cpu": "10"},
    "gold": {"cpu": "6", "pods": "4"},
    "team": {"cpu": "7"},
    "lab": {"cpu": "5", "pods": "4"},
}
OWNERS = [
    Owner("alice", ("dev",)),
    Owner("bob", ("ops", "dev")),
    Owner("carol", ("sales",)),
    Owner("dave"),
]
NODES = {"research": ROOT, "team": "research", "lab": "research"}
"""The quotas of the tree, and where each stands at first."""
DURATION_SECONDS = 40.0
CLIENTS = 3


class Scenario:
    """A world with inhabitants."""

    # In some worlds quotas and replicas change so fast that new ones meet what others have just let through.
    UNREST = (1.0, 1.0, 6.0)
    LEAFY = 0.5  # how many worlds have elastic leaves
    OWNED = 0.5  # how many of these have limits of users and groups
    SLOW = (0.1, 0.5)  # how many of the writes that are let through take long
    RESTLESS = (1.0, 4.0)  # how fast limits change
    CRASH_CHANCE = 0.5  # that a replica dies, where others would leave in good order

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.invariants = Invariants(self.world)
        self.rng = self.world.rng
        self.replica_names = (f"replica{number}" for number in itertools.count())
        self.ids = itertools.count()
        self.unrest = self.rng.choice(self.UNREST)
        self.has_leaves = self.rng.random() < self.LEAFY
        self.has_owners = self.has_leaves and self.rng.random() < self.OWNED
        self.slow = self.rng.choice(self.SLOW)
        self.restless = self.rng.choice(self.RESTLESS)
        self.keys = KEYS_UNDER_LEAVES if self.has_leaves else KEYS
        self.strangers = self.rng.choice((0.0, 0.2))  # how often what members use beyond what is bound changes
        self._tasks: asyncio.TaskGroup
        self._lives: dict[str, asyncio.Task[None]] = {}

    # The cast

    async def run(self) -> None:
        world = self.world
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for _ in range(self.rng.choice([2, 3])):
                self.start_replica()
            self.create_accounts()
            if self.has_owners:
                for name in [ROOT, *NODES]:
                    self.world.store_level(self.level(name))
            inhabitants = [tasks.create_task(self.client()) for _ in range(CLIENTS)]
            inhabitants += [tasks.create_task(self.administrator()), tasks.create_task(self.reaper())]
            if self.has_owners:
                inhabitants.append(tasks.create_task(self.legislator()))
            controller = tasks.create_task(self.controller())
            await asyncio.sleep(DURATION_SECONDS)
            for task in inhabitants:
                task.cancel()
            # All that was in flight has ended, every reservation has expired, every stalled watch has gone on.
            await asyncio.sleep(2 * LONGEST_WRITE_SECONDS + 2 * EXPIRY_SECONDS + 30)
            self.invariants.check_nothing_leaked()
            controller.cancel()
            for life in self._lives.values():
                life.cancel()
        for decision in world.decisions:
            self.invariants.check(decision)

    def create_accounts(self) -> None:
        spec = {
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}]
            }
        }
        self.create_account("all", Selector())
        self.create_account("gold", Selector.from_spec(spec))
        if self.has_leaves:
            for name in LEAVES:
                self.create_account(name, Selector())

    def create_account(self, name: str, selector: Selector) -> None:
        limits = {resource: parse(amount) for resource, amount in LIMITS[name].items()}
        self.world.store_account(Account(PLACES[name], name, limits, selector, uid=self.world.uid()))

    def start_replica(self) -> None:
        name = next(self.replica_names)

        async def live() -> None:
            async with asyncio.TaskGroup() as tasks:
                Replica(self.world, name, tasks).start()

        self._lives[name] = self._tasks.create_task(live())

    def crash_replica(self, name: str) -> None:
        self.world.replicas.pop(name)
        self.world.departed[name] = self.world.now
        self._lives.pop(name).cancel()

    async def retire_replica(self, name: str) -> None:
        """It goes in good order: after its last answer it writes down what it would still have brought."""
        world = self.world
        replica = world.replicas.pop(name)
        world.leaving.add(name)
        await world.lag(0.5)
        await replica.accountant.give_back(timeout_seconds=0.5)
        world.departed[name] = world.now  # from here on it admits nothing
        legacy = replica.accountant.legacy()
        await world.lag(0.02)
        world.leaving.discard(name)
        world.legacies[name] = legacy
        world.note("legacy" if legacy.admissions else "empty legacy")
        self._lives.pop(name).cancel()

    # What people and controllers do

    async def client(self) -> None:
        while True:
            await self.world.lag(0.6)
            key = self.rng.choice(self.keys)
            action = self.rng.random()
            # Each request is a task of its own: a client that goes away does not end it.
            if action < 0.15:
                self.world.delete_binding(key)
            elif key in self.world.bindings:
                self._tasks.create_task(self.update(key))
            else:
                self._tasks.create_task(self.create(key))
                if self.rng.random() < 0.3:  # as Karmada's detector does
                    self._tasks.create_task(self.create(key))

    def wish(self, key: ObjectKey, uid: str, leaf: str = "") -> Binding:
        """A binding as somebody wants it: under a leaf it was given some of what it asks for, by whomever."""
        replicas = self.rng.randint(1, 4)
        given = self.rng.randint(0, replicas) if leaf else 0
        return Binding(
            key,
            uid,
            version=0,
            template=TemplateRef("apps/v1", "Deployment", *key),
            demand=Resources({"cpu": parse(replicas), "pods": parse(replicas)}),
            assigned=Resources({"cpu": parse(given), "pods": parse(given)}),
            stamp=Stamp(self.rng.choice(CLASSES), leaf=leaf, owner=self.owner(key)),
        )

    def owner(self, key: ObjectKey) -> Owner | None:
        """Mostly the same one; whoever deletes what somebody else made, and makes it again, is another."""
        if not self.has_owners or self.rng.random() < 0.1:
            return None
        if self.rng.random() < 0.2:
            return self.rng.choice(OWNERS)
        return OWNERS[sum(map(ord, key.name)) % 2]

    def leaf(self, before: str = "") -> str:
        """Under which leaf: mostly where it was, sometimes another."""
        if not self.has_leaves or (before and self.rng.random() < 0.7):
            return before
        return self.rng.choice([*LEAVES, *LEAVES, ""])

    async def create(self, key: ObjectKey) -> None:
        wanted = self.wish(key, self.world.uid(), self.leaf())
        flight = await self.admit(wanted, None)
        if flight and await self.survives(flight):
            if key not in self.world.bindings:
                self.world.store_binding(wanted)
                flight.stored_at = self.world.now
            self.land(flight)

    async def update(self, key: ObjectKey) -> None:
        """A patch without a resourceVersion: reviewed again, on a fresh object, for every conflict."""
        wanted: Binding | None = None
        for attempt in range(6):
            old = self.world.bindings.get(key)
            if old is None:
                return
            if wanted is None:
                wanted = self.wish(key, old.uid, self.leaf(old.stamp.leaf))
            if attempt == 0 and self.rng.random() < 0.3:
                old = self.stale(key) or old
            flight = await self.admit(replace(wanted, uid=old.uid), old)
            if flight is None:
                return
            if not await self.survives(flight):
                return
            current = self.world.bindings.get(key)
            if current is not None and current.version == old.version:
                self.world.store_binding(replace(wanted, uid=current.uid))
                flight.stored_at = self.world.now
                self.land(flight)
                return
            self.land(flight)

    def stale(self, key: ObjectKey) -> Binding | None:
        """The object as the API server's own cache may still have it."""
        versions = [one for one, is_gone in self.world.binding_events if one.key == key and not is_gone]
        return versions[-2] if len(versions) > 1 else None

    async def admit(self, new: Binding, old: Binding | None) -> Flight | None:
        world = self.world
        await world.lag(0.01)
        replicas = list(world.replicas.values())
        if not replicas:
            return None
        replica = self.rng.choice(replicas)
        asks = asks_of(new, old, identifier=f"id{next(self.ids)}")
        if len(asks) > 1:
            world.note("two domains")
        if old is not None and old.stamp.leaf != new.stamp.leaf:
            world.note("another leaf")
        asked_at, schemes = Moment.of(world), replica.schemes
        flight = Flight(next((one.id for one in asks.values()), ""), asks)
        world.flights.append(flight)
        life = self._lives[replica.name]
        answering = asyncio.ensure_future(replica.accountant.answer(asks, deadline=world.now + 2.4))
        await asyncio.wait([answering, life], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering
        answer = None if answering.cancelled() or answering.exception() else answering.result()
        world.note(type(answer).__name__)
        if isinstance(answer, Allowed):
            flight.admitted_at = world.now
            if replica.schemes is schemes:
                world.let_through(flight, schemes)
            return flight
        if isinstance(answer, Denied):
            self.invariants.check_denial(answer, next(asked_in(answer.denial.namespace, asks)), asked_at)
        self.land(flight)
        return None

    async def survives(self, flight: Flight) -> bool:
        """Whether the request lives on to be stored, and when."""
        chance = self.rng.random()
        if chance < 0.15:
            self.land(flight)
            return False
        if chance < 0.15 + self.slow:
            await asyncio.sleep(self.rng.uniform(0, LONGEST_WRITE_SECONDS - 1))
        else:
            await self.world.lag(0.03)
        return True

    def land(self, flight: Flight) -> None:
        if flight in self.world.flights:
            self.world.flights.remove(flight)

    async def administrator(self) -> None:
        """Quotas come, go, and change what they select."""
        while True:
            await self.world.lag(10.0 / self.unrest)
            name = self.rng.choice(["all", "gold", *(LEAVES if self.has_leaves else [])])
            account = self.world.accounts.get(name)
            if account is None:
                self.create_accounts_of(name)
            elif name in LEAVES and self.rng.random() < 0.6:
                # What is published for it changes: lowered, it may have more than that.
                limits = {resource: self.published(amount) for resource, amount in LIMITS[name].items()}
                self.world.store_account(replace(account, limits=limits))
            elif self.rng.random() < 0.5:
                self.world.delete_account(name)
                if self.rng.random() < 0.7:
                    await self.world.lag(0.2)
                    self.create_accounts_of(name)
            elif name not in LEAVES:
                operator = self.rng.choice(["In", "NotIn"])
                values = [self.rng.choice(["gold", "silver"])]
                expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
                selector = Selector.from_spec({"scopeSelector": {"matchExpressions": [expression]}})
                self.world.store_account(replace(account, selector=selector))

    async def legislator(self) -> None:
        """Limits come, go, change and are what they were again; quotas are moved; accounts are removed."""
        while True:
            await self.world.lag(6.0 / self.restless)
            name = self.rng.choice([ROOT, *NODES])
            before = self.world.levels[name]
            self.world.store_level(self.level(name))
            self.world.note("limits")
            if self.rng.random() < 0.3:
                await self.world.lag(1.0)
                self.world.store_level(before)
                self.world.note("as before")
            accounts = [one for one in self.world.accounts.values() if usage.is_usage(one)]
            for one in accounts:
                if self.rng.random() < 0.1:
                    self.world.note("removed")
                    self.world.delete_account(one.name)

    def level(self, name: str) -> Level:
        """What a node says of limits: named users and groups, and perhaps wildcards; or nothing at all."""
        parent = NODES.get(name, ROOT)
        if name in LEAVES and self.rng.random() < 0.2:
            parent = ROOT
        found = []
        if self.rng.random() < 0.5:
            return Level(name, parent)
        if self.rng.random() < 0.5:
            found.append(self.limit(users=("alice", "bob")[: self.rng.randint(1, 2)]))
        if self.rng.random() < 0.4:
            found.append(self.limit(groups=tuple(self.rng.sample(["dev", "ops", "sales"], self.rng.randint(1, 3)))))
        if self.rng.random() < 0.4:
            found.append(self.limit(users=("*",)))
        if self.rng.random() < 0.3:
            found.append(self.limit(groups=("*",)))
        return Level(name, parent, tuple(found))

    def limit(self, users: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> Limit:
        resources = {"cpu": parse(self.rng.randint(2, 7))} if self.rng.random() < 0.9 else {}
        applications = self.rng.choice([None, 1, 2, 3]) if resources else 2
        return Limit(users, groups, resources, applications)

    def published(self, most: str) -> Quantity:
        return parse(self.rng.randint(int(most) // 2, int(most)))

    def create_accounts_of(self, name: str) -> None:
        if name not in self.world.accounts:
            self.create_account(name, Selector())

    async def reaper(self) -> None:
        """Replicas die without a word, or leave; others start."""
        while True:
            await self.world.lag(20.0 / self.unrest)
            if len(self._lives) > 1:
                name = self.rng.choice(list(self._lives))
                if self.rng.random() < self.CRASH_CHANCE:
                    self.crash_replica(name)
                else:
                    await self.retire_replica(name)
                await self.world.lag(1.0)
            self.start_replica()

    async def controller(self) -> None:
        """Settles idle accounts, from a view of its own."""
        world = self.world
        async with asyncio.TaskGroup() as tasks:
            replica = Replica(world, "controller", tasks)
            replica.start()
            del world.replicas["controller"]  # it admits nothing
            store = SimulatedStore(world, "controller")
            settler = Settler(replica.observation, store, settling.Expiry(EXPIRY_SECONDS))
            while True:
                await world.lag(0.5)
                for account in list(world.accounts.values()):
                    with contextlib.suppress(ConflictError, UnreachableError):
                        settled = await settler.settle(account)
                        is_quota = account.name not in LEAVES and not usage.is_usage(account)
                        if is_quota and self.rng.random() < self.strangers:
                            settled = replace(settled, unbound=Resources({"cpu": parse(self.rng.randint(0, 4))}))
                            world.note("unbound")
                        if settled is not account:
                            await store.write(settled)
