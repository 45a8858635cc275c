"""A store of accounts and bindings in memory, and one replica at work on it, for tests in simulated time.

Unlike the simulated world it does nothing by itself: what other replicas write, which answers are lost and when a view
is fed is said by the test, step by step.
"""

import asyncio
import functools
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ParamSpec

from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.answer import Answer
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import ConflictError, Store, UnreachableError
from federation_quota.ledger import domain, settling
from federation_quota.ledger.account import Account
from federation_quota.ledger.advance import Terms
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Ask, Books
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.level import compact
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import LiveLook
from federation_quota.ledger.view import Entry
from federation_quota.limits import usage
from federation_quota.limits.subject import Subject
from federation_quota.resources import Resources
from tests.simulation import clock

NAMESPACE = "test"
HERE = "here"
NO_ADVANCES = Terms(worth=10**9)
"""Every admission with a write: what most tests are about."""

Change = Callable[[Account], Account | None]
Parameters = ParamSpec("Parameters")


def in_simulated_time(test: Callable[Parameters, Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
    """The test as one that pytest runs by itself, in a loop whose time costs nothing."""

    @functools.wraps(test)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        clock.run(test(*args, **kwargs))

    return run


def as_stored(account: Account, current: Account) -> Account:
    """The account as an API server keeps it: of a write it takes the status, never the spec."""
    stored = replace(account, limits=current.limits, selector=current.selector)
    if not isinstance(stored, usage.UsageAccount):
        return stored
    # Told as in a status, by the limits that whoever wrote it knew.
    told = (replace(one, amounts=Resources(compact(one.amounts, account.limits))) for one in account.advances)
    return replace(stored, sight=None, advances=tuple(told))


class Bookstore(Store):
    """What is stored, under versions that count all changes alike, as an API server's do."""

    def __init__(self, *, latency_seconds: float = 0.005) -> None:
        self.version_now = 100
        self.accounts: dict[str, Account] = {}
        self.bindings: dict[str, Entry] = {}
        self.live = [HERE]
        self.left: dict[str, Legacy | None] = {}
        self.latency_seconds = latency_seconds
        self.attempts: list[str] = []  # accounts that somebody tried to write, taken or not
        self.writes: list[Account] = []  # as they were stored
        self.reads = 0
        self.lists = 0
        self.looks: list[str] = []
        self.roll_calls = 0
        self.is_down = False  # nothing is answered
        self.refuses_writes = False  # everything but writes is answered
        self.lost_answers = 0  # so many of the next writes are stored, and nobody is told
        self._disturbances: defaultdict[str, list[Change]] = defaultdict(list)

    # What the test does

    def put(self, account: Account) -> Account:
        """Store an account, whatever was there."""
        stored = replace(account, version=str(self._next()), uid=account.uid or f"uid-{account.name}")
        self.accounts[account.name] = stored
        return stored

    def put_binding(self, name: str, claim: Claim, uid: str | None = None) -> Entry:
        """Store a binding; a name that is there already keeps its uid."""
        known = self.bindings.get(name)
        entry = Entry(uid or (known.uid if known else f"uid-{name}"), self._next(), claim)
        self.bindings[name] = entry
        return entry

    def delete_binding(self, name: str) -> Entry:
        """Delete a binding: its uid, at the version of its end."""
        return replace(self.bindings.pop(name), version=self._next())

    def disturb(self, name: str, change: Change = lambda account: account) -> None:
        """Somebody else writes the account, or deletes it (None), just before the next write that comes for it."""
        self._disturbances[name].append(change)

    # What the product does

    async def read(self, namespace: str, name: str) -> Account | None:
        await self._answer()
        self.reads += 1
        return self.accounts.get(name)

    async def open(self, subject: Subject) -> Account:
        await self._answer()
        known = self.accounts.get(subject.account)
        return known or self.put(usage.unopened(subject))

    async def write(self, account: Account) -> Account:
        self.attempts.append(account.name)
        await self._answer()
        if self.refuses_writes:
            raise UnreachableError("refused")
        if self._disturbances[account.name]:
            changed = self._disturbances[account.name].pop(0)(self.accounts[account.name])
            if changed is None:
                del self.accounts[account.name]
            else:
                self.put(changed)
        current = self.accounts.get(account.name)
        if current is None or (current.version, current.uid) != (account.version, account.uid):
            raise ConflictError
        # The status is written, the spec never.
        stored = self.put(as_stored(account, current))
        self.writes.append(stored)
        if self.lost_answers:
            self.lost_answers -= 1
            raise UnreachableError("the answer was lost")
        await self._answer()
        return stored

    async def limits_stand(self, account: Account, names: Collection[str]) -> bool:
        await self._answer()
        return True

    async def is_stored(self, account: Account) -> bool:
        await self._answer()
        stored = self.accounts.get(account.name)
        return stored is not None and (stored.uid, stored.version) == (account.uid, account.version)

    async def look(self, namespace: str, binding: str) -> LiveLook:
        await self._answer()
        self.looks.append(binding)
        name = domain.binding_in(namespace, binding).name if domain.is_usage(namespace) else binding
        entry = self.bindings.get(name)
        return LiveLook(entry.version if entry else None)

    async def versions(self, namespace: str, among: Collection[str] | None = None) -> dict[str, int]:
        await self._answer()
        self.lists += 1
        prefix = f"{NAMESPACE}/" if domain.is_usage(namespace) else ""
        return {prefix + name: entry.version for name, entry in self.bindings.items()}

    async def version(self) -> int:
        await self._answer()
        return self.version_now

    async def replicas(self) -> dict[str, Legacy | None]:
        await self._answer()
        self.roll_calls += 1
        return {**dict.fromkeys(self.live), **self.left}

    def _next(self) -> int:
        self.version_now += 1
        return self.version_now

    async def _answer(self) -> None:
        await asyncio.sleep(self.latency_seconds)
        if self.is_down:
            raise UnreachableError("no answer")


class Replica:
    """One replica: its accountant, and a view that sees what the test shows it."""

    def __init__(
        self,
        store: Bookstore,
        tasks: asyncio.TaskGroup,
        name: str = HERE,
        expiry_seconds: float = 60.0,
        terms: Terms = NO_ADVANCES,
    ) -> None:
        self.store = store
        self.observation = Observation()
        self.is_present = True
        self.batches: list[int] = []  # the admissions of each write
        self.advanced: list[str] = []  # the bindings of which something was admitted without one
        self.accountant = Accountant(
            replica=lambda: name,
            observation=self.observation,
            store=store,
            tasks=tasks,
            is_present=lambda: self.is_present,
            expiry_seconds=expiry_seconds,
            meter=self,
            terms=terms,
            lasting=terms,
        )
        self._ids = itertools.count(1)

    def committed(self, admissions: int) -> None:
        """As its meter."""
        self.batches.append(admissions)

    def spent(self, account: Account, reservation: Reservation) -> None:
        """As its meter."""
        self.advanced.append(reservation.binding)

    def relist(self) -> None:
        """Show everything there is: bindings and accounts."""
        entries = [(NAMESPACE, name, entry) for name, entry in self.store.bindings.items()]
        self.observation.replace(entries, self.store.version_now)
        for account in self.store.accounts.values():
            self.accountant.learn(account)

    def see(self, *names: str) -> None:
        """Show these bindings as they are stored."""
        for name in names:
            self.observation.upsert(NAMESPACE, name, self.store.bindings[name])

    def create(self, binding: str, claim: Claim, uid: str | None = None) -> Ask:
        """The ask of a CREATE."""
        return Ask(f"id{next(self._ids)}", binding, claim, uid=uid or f"uid-{binding}")

    def update(self, binding: str, claim: Claim) -> Ask:
        """The ask of an UPDATE of what is stored."""
        stored = self.store.bindings[binding]
        return Ask(f"id{next(self._ids)}", binding, claim, stored.claim, base=stored.version)

    async def answer(
        self, ask: Ask, *, within_seconds: float = 8.0, dry_run: bool = False, may_exceed: bool = False
    ) -> Answer:
        """What the accountant says, as the webhook asks it."""
        deadline = asyncio.get_running_loop().time() + within_seconds
        return await self.accountant.answer(
            {NAMESPACE: ask}, deadline=deadline, dry_run=dry_run, may_exceed=lambda _domain, _name: may_exceed
        )


class _Tasks(asyncio.TaskGroup):
    """A group whose tasks can all be ended: committers serve for as long as their account exists."""

    def __init__(self) -> None:
        super().__init__()
        self._started: list[asyncio.Task[Any]] = []

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:  # noqa: ANN401
        task = super().create_task(coro, **options)
        self._started.append(task)
        return task

    def cancel(self) -> None:
        for task in self._started:
            task.cancel()


@asynccontextmanager
async def at_work(
    store: Bookstore,
    name: str = HERE,
    expiry_seconds: float = settling.EXPIRY_SECONDS,
    terms: Terms = NO_ADVANCES,
) -> AsyncIterator[Replica]:
    """A replica that has seen everything there is, for as long as the block lasts."""
    async with _Tasks() as tasks:
        replica = Replica(store, tasks, name, expiry_seconds, terms)
        replica.relist()
        try:
            yield replica
        finally:
            tasks.cancel()


async def together(replica: Replica, *asks: Ask, within_seconds: float = 8.0) -> list[Answer]:
    """The answers to asks that come at the same moment, in their order."""
    return await asyncio.gather(*(replica.answer(ask, within_seconds=within_seconds) for ask in asks))


def kinds(answers: list[Answer]) -> list[str]:
    """Which answers these are, whatever they say."""
    return [type(answer).__name__ for answer in answers]


def reserved(store: Bookstore, name: str = "quota") -> list[str]:
    """The bindings for which an account holds something."""
    return [one.binding for one in store.accounts[name].reservations]


def used(replica: Replica, name: str = "quota") -> str:
    """The cpu that an account has used, as the replica sees it."""
    return str(Books(replica.store.accounts[name], replica.observation.view).used["cpu"])


def now() -> float:
    """The simulated time."""
    return asyncio.get_running_loop().time()


def active(account: Account, *replicas: str) -> Account:
    """The account as it is once all replicas have joined it."""
    shape = account.lens.shape
    joined = frozenset((replica, shape) for replica in replicas or (HERE,))
    return replace(account, active_shape=shape, joined=joined)
