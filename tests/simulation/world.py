"""A simulated federation: a store with versions, an API server that behaves as badly as the real one, and time.

What is simulated is everything around the product: stored objects, watches that lag and stall, requests that are
reviewed several times, on stale objects, that die after they were admitted or are stored long after. What is judged,
and how accounts are written, is the product's own code.
"""

import asyncio
import itertools
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import ConflictError, UnreachableError
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube.mirrors import BindingMirror, claim
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.advance import Terms
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Ask
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import LiveLook
from federation_quota.limits import usage
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.limit import WILDCARD
from federation_quota.limits.registry import Registry
from federation_quota.limits.scheme import NO_LIMITS, Schemes
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.resources import Resources
from federation_quota.stamp import Owner
from tests.conformance.bookstore import as_stored

NAMESPACE = "shop"
# Beside its quotas there are elastic leaves in some worlds, which have bindings of that one, too.
ANOTHER_NAMESPACE = "bank"
PLACES = {"all": NAMESPACE, "gold": NAMESPACE, "team": domain.of_leaf("team"), "lab": domain.of_leaf("lab")}
"""The accounts, and the domain of each. In some worlds there are those of users and groups beside them."""
TREE = "default"

Event = TypeVar("Event")

# All times around reservations are a tenth of the real ones, in the same proportion: a seed then holds ten times as
# much. The API server ends every write by then.
EXPIRY_SECONDS = 6.0
LONGEST_WRITE_SECONDS = 3.4


def place_of(account: str) -> str:
    """The domain that an account is in."""
    return PLACES.get(account) or domain.of_usage(account)


@dataclass(slots=True, eq=False)
class Flight:
    """One reviewed request between its admission and its end, as only the world knows it."""

    id: str
    asks: Mapping[str, Ask]  # by domain, as it was judged
    admitted_at: float | None = None
    stored_at: float | None = None


@dataclass(slots=True)
class Decision:
    """An admission written to an account, and the truth at that moment, to be judged when all is over."""

    account: Account
    reservation: Reservation
    at: float
    stored: dict[str, Claim]
    flights: list[Flight]  # admitted, here or before this account was looking, and not landed yet


class History(list[Event]):
    """What happened to objects of one kind, in order, for those who watch them."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[asyncio.Future[None]] = []

    def append(self, event: Event) -> None:
        super().append(event)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def beyond(self, position: int) -> None:
        """Return when there is more than so much of it."""
        while len(self) <= position:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]


class World:
    """The store, its history, and all that is in flight."""

    STALL_CHANCE = 0.02  # that a watch of bindings stalls, each time that it has something to bring
    # In some worlds every replica takes all that it can get in advance, in some a part, in some nothing.
    TERMS = (
        Terms(1, 1, 1, 2.0, 2.0),
        Terms(2, 1, 1, 1.0, 0.5),
        Terms(2, 1, 1, 1.0, 2.0, for_all=True),
        Terms(3, 1, 2, 1.0, 1.0, for_all=True),
        Terms(worth=10**9),
    )

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.version = 100
        self.bindings: dict[ObjectKey, Binding] = {}
        self.accounts: dict[str, Account] = {}
        self.binding_events = History[tuple[Binding, bool]]()  # as stored, or as it last was, and whether it went
        self.account_events = History[tuple[int, str, Account | None]]()  # version, name, account or deleted
        self.levels: dict[str, Level] = {}  # what the nodes of the tree say of limits
        self.level_events = History[Level]()
        self.schemes: list[Schemes] = [NO_LIMITS]  # as they were, one after the other
        self.flights: list[Flight] = []
        self.decisions: list[Decision] = []
        self.replicas: dict[str, Replica] = {}
        self.leaving: set[str] = set()  # asked nothing any more, and about to go
        self.departed: dict[str, float] = {}
        self.legacies: dict[str, Legacy] = {}
        self._uids = itertools.count(1)
        self.counts: dict[str, int] = {}
        self.advanced: dict[str, set[str]] = {}  # admitted from an advance, by the account's uid
        self.terms = self.rng.choice(self.TERMS)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def note(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def uid(self) -> str:
        return f"uid{next(self._uids)}"

    async def lag(self, mean: float) -> None:
        await asyncio.sleep(self.rng.expovariate(1 / mean))

    # What is stored

    def next_version(self) -> int:
        self.version += self.rng.randint(1, 3)
        return self.version

    def store_binding(self, binding: Binding) -> None:
        stored = replace(binding, version=self.next_version())
        self.bindings[binding.key] = stored
        self.binding_events.append((stored, False))

    def delete_binding(self, key: ObjectKey) -> None:
        last = self.bindings.pop(key, None)
        if last:
            self.binding_events.append((replace(last, version=self.next_version()), True))

    def store_account(self, account: Account) -> Account:
        stored = replace(account, version=str(self.next_version()))
        self.accounts[account.name] = stored
        self.account_events.append((int(stored.version), account.name, stored))
        return stored

    def delete_account(self, name: str) -> None:
        if self.accounts.pop(name, None):
            self.account_events.append((self.next_version(), name, None))

    def store_level(self, level: Level) -> None:
        """An administrator changes what a node says of limits, or where it stands."""
        self.next_version()
        self.levels[level.name] = level
        self.level_events.append(level)
        self.schemes.append(Schemes.of({TREE: list(self.levels.values())}))

    def fitted(self, account: Account) -> Account:
        """The account by the limits that are stored."""
        return usage.fitted(account, self.schemes[-1])

    def spent(self, account: Account) -> Resources:
        claims = claims_in(account.namespace, self.bindings.values())
        return Resources.sum(account.lens.cost(one) for one in claims.values())

    # What was decided

    def decided(self, account: Account, reservation: Reservation) -> None:
        stored = claims_in(account.namespace, self.bindings.values())
        reserved = {one.id for one in account.reservations}
        reserved |= self.advanced.get(account.uid, set())
        admitted = [one for one in self.flights if one.admitted_at is not None or one.id in reserved]
        self.decisions.append(Decision(account, reservation, self.now, stored, admitted))

    def let_through(self, flight: Flight, schemes: Schemes) -> None:
        """A request was admitted by these limits: it has to fit into all that it falls under, whoever was asked."""
        for place, ask in flight.asks.items():
            if domain.is_namespace(place) and ask.new.owner is not None:
                reservation = replace(ask.reservation, binding=f"{place}/{ask.binding}")
                for subject in counting_for(ask.new.owner):
                    account = usage.fitted(usage.unopened(subject), schemes)
                    if account.lens.cost(ask.new):
                        self.decided(account, reservation)


def counting_for(owner: Owner) -> list[Subject]:
    """All whom what somebody has could be charged to."""
    groups = (Subject(TREE, GROUP, name) for name in (*owner.groups, WILDCARD))
    return [Subject(TREE, USER, owner.user), *groups]


def claims_in(place: str, bindings: Collection[Binding]) -> dict[str, Claim]:
    """What these bindings claim in a domain, by what they are called there. Told here once more, and differently from
    the product: it is what that is held against. To a user or group everything may be charged: their lens tells."""
    if domain.is_usage(place):
        return {f"{one.key.namespace}/{one.key.name}": claim(one) for one in bindings}
    return {name: claim for one in bindings for where, name, claim in claims_of(one) if where == place}


def claims_of(binding: Binding) -> Iterator[tuple[str, str, Claim]]:
    yield binding.key.namespace, binding.key.name, claim(binding)
    if binding.stamp.leaf:
        yield f"leaf:{binding.stamp.leaf}", f"{binding.key.namespace}/{binding.key.name}", Claim(binding.assigned)


class _Meter:
    """Takes note of what is admitted without a write."""

    def __init__(self, world: World) -> None:
        self._world = world

    def committed(self, admissions: int) -> None:
        """Seen in the store itself."""

    def spent(self, account: Account, reservation: Reservation) -> None:
        self._world.note("advance of an owner" if usage.is_usage(account) else "advance")
        self._world.advanced.setdefault(account.uid, set()).add(reservation.id)
        self._world.decided(account, reservation)


class SimulatedStore:
    """The store as one component reaches it: slowly, with lost answers, and through reads that are never stale."""

    def __init__(self, world: World, replica: str) -> None:
        self._world = world
        self._replica = replica

    async def read(self, namespace: str, name: str) -> Account | None:
        await self._world.lag(0.01)
        return self._world.accounts.get(name)

    async def write(self, account: Account) -> Account:
        world = self._world
        await world.lag(0.02)
        if self._replica in world.departed:
            raise UnreachableError
        current = world.accounts.get(account.name)
        if current is None or current.version != account.version or current.uid != account.uid:
            world.note("conflict")
            raise ConflictError
        before = {one.id for one in current.reservations}
        stored = world.store_account(as_stored(account, current))
        # A user's account is what the limits make of it, as whoever judged knew them.
        judged = replace(account, version=stored.version) if usage.is_usage(account) else stored
        is_active = account.is_active if usage.is_usage(account) else current.is_active
        for reservation in stored.reservations:
            if reservation.id not in before and is_active:
                world.note("owner" if usage.is_usage(account) else "quota")
                world.decided(judged, reservation)
        if world.rng.random() < 0.02:
            world.note("lost answer")
            raise UnreachableError
        await world.lag(0.01)
        return stored

    async def open(self, subject: Subject) -> Account:
        world = self._world
        await world.lag(0.02)
        if self._replica in world.departed:
            raise UnreachableError
        world.note("opened")
        return world.accounts.get(subject.account) or world.store_account(
            replace(usage.unopened(subject), uid=world.uid())
        )

    async def is_stored(self, account: Account) -> bool:
        stored = await self.read(account.namespace, account.name)
        return stored is not None and (stored.uid, stored.version) == (account.uid, account.version)

    async def limits_stand(self, account: Account, names: Collection[str]) -> bool:
        await self._world.lag(0.01)
        return self._world.fitted(account).shape == account.shape

    async def look(self, namespace: str, binding: str) -> LiveLook:
        await self._world.lag(0.01)
        stored = self._world.bindings.get(domain.binding_in(namespace, binding))
        return LiveLook(stored.version if stored else None)

    async def version(self) -> int:
        await self._world.lag(0.01)
        return self._world.version

    async def versions(self, namespace: str, among: Collection[str] | None = None) -> dict[str, int]:
        await self._world.lag(0.01)
        places = {namespace}
        if not domain.is_namespace(namespace):
            places = {NAMESPACE, ANOTHER_NAMESPACE}
            if among is not None:
                places = {domain.binding_in(namespace, name).namespace for name in among}
        stored = (one for one in self._world.bindings.values() if one.key.namespace in places)
        return {domain.name_in(namespace, one.key): one.version for one in stored}

    async def replicas(self) -> dict[str, Legacy | None]:
        await self._world.lag(0.01)
        now = self._world.now
        lately = [name for name, at in self._world.departed.items() if now - at <= EXPIRY_SECONDS]
        gone = {name: self._world.legacies.get(name) for name in lately}
        return {**dict.fromkeys([*self._world.replicas, *self._world.leaving]), **gone}


class Replica:
    """One webhook replica: the product's accountant, fed by watches that lag."""

    def __init__(self, world: World, name: str, tasks: asyncio.TaskGroup) -> None:
        self.world = world
        self.name = name
        self.observation = Observation()
        self._mirror = BindingMirror(self.observation)
        self._tasks = tasks
        self.accountant = Accountant(
            replica=lambda: name,
            observation=self.observation,
            store=SimulatedStore(world, name),
            tasks=tasks,
            is_present=lambda: name not in world.departed,
            expiry_seconds=EXPIRY_SECONDS,
            meter=_Meter(world),
            terms=world.terms,
            lasting=world.terms,
        )
        self._levels: dict[str, Level] = {}
        self._limits = Registry(self.accountant.limit)

    def start(self) -> None:
        """Present first, then a list of everything, then the watches: the order that the product keeps too."""
        world = self.world
        world.replicas[self.name] = self
        self.relist()
        self._levels = dict(world.levels)
        self._limits.refresh({TREE: list(self._levels.values())})
        for account in world.accounts.values():
            self.accountant.learn(account)
        # Trees and quotas come by watches of their own, either of which may be behind.
        self._tasks.create_task(self._watch_limits(len(world.level_events), is_root=True))
        self._tasks.create_task(self._watch_limits(len(world.level_events), is_root=False))
        self._tasks.create_task(self._watch_bindings(len(world.binding_events)))
        self._tasks.create_task(self._watch_accounts(len(world.account_events)))

    @property
    def schemes(self) -> Schemes:
        """The limits as it knows them."""
        return self._limits.schemes

    def relist(self) -> None:
        self._mirror.replace(list(self.world.bindings.values()), self.world.version)

    async def _watch_bindings(self, position: int) -> None:
        world = self.world
        while True:
            await world.binding_events.beyond(position)
            await world.lag(0.03)
            if world.rng.random() < world.STALL_CHANCE:
                await asyncio.sleep(world.rng.choice([0.2, 1, 10]))
                if world.rng.random() < 0.3:
                    world.note("relist")
                    self.relist()
                    position = len(world.binding_events)
            take = world.rng.randint(1, 6)
            for binding, is_gone in world.binding_events[position : position + take]:
                position += 1
                if is_gone:
                    self._mirror.delete(binding)
                else:
                    self._mirror.upsert(binding)

    async def _watch_limits(self, position: int, *, is_root: bool) -> None:
        world = self.world
        while True:
            await world.level_events.beyond(position)
            await world.lag(0.03)
            if world.rng.random() < 0.05:
                await asyncio.sleep(world.rng.choice([0.2, 1, 5]))
            for level in world.level_events[position : position + world.rng.randint(1, 3)]:
                position += 1
                if (level.name == ROOT) == is_root:
                    self._levels[level.name] = level
                    self._limits.refresh({TREE: list(self._levels.values())})

    async def _watch_accounts(self, position: int) -> None:
        world = self.world
        while True:
            await world.account_events.beyond(position)
            await world.lag(0.03)
            if world.rng.random() < 0.01:
                await asyncio.sleep(world.rng.choice([0.2, 1]))
            take = world.rng.randint(1, 6)
            for version, name, account in world.account_events[position : position + take]:
                position += 1
                if account is None:
                    self.accountant.forget(place_of(name), name, version)
                else:
                    self.accountant.learn(account)
