"""The controller of users' and groups' accounts: made, kept true beside limits that come and go, and removed."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from controllers.limits import Limits
from controllers.subjects import IDLE_SECONDS, UNLIMITED_SECONDS, SubjectController
from federation_quota import waiting
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import ConflictError, UnreachableError
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.workqueue import WorkQueue
from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.audit import Audit
from federation_quota.ledger.judging import Books
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import EXPIRY_SECONDS, LiveLook
from federation_quota.limits import usage
from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.scheme import NO_LIMITS, Schemes
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.resources import Resources
from federation_quota.stamp import Owner, Stamp
from tests.conformance.bookstore import in_simulated_time
from tests.unit import waiters
from tests.unit.limits import ANN, BOB, LEAF, TREE, limited, owned, schemes
from tests.unit.waiters import QuotaShelf

ANNS, BOBS, DEVS = Subject(TREE, USER, "ann"), Subject(TREE, USER, "bob"), Subject(TREE, GROUP, "dev")


class Shelf(QuotaShelf):
    """Accounts of users and groups as an API server keeps them: as objects, under versions."""

    def __init__(self, observation: Observation) -> None:
        super().__init__()
        self._observation = observation
        self._versions = 200
        self.on_deleted: list[Any] = []
        self.is_down = False
        self.opened: list[str] = []
        self.closed: list[str] = []

    def keep(self, subject: Subject, status: Mapping[str, Any], uid: str = "") -> Account:
        """Store an account with that status."""
        self._versions += 1
        made = usage.manifest(subject)
        metadata = {**made["metadata"], "uid": uid or f"uid-{self._versions}", "resourceVersion": str(self._versions)}
        stored = self.accounts[subject.account] = usage.read({**made, "metadata": metadata, "status": status})
        for tell in self.on_stored:
            asyncio.get_running_loop().call_later(0.01, tell, stored)
        return stored

    async def open(self, subject: Subject) -> Account:
        await self._answer()
        if subject.account in self.accounts:
            return self.accounts[subject.account]
        self.opened.append(subject.name)
        return self.keep(subject, {})

    async def write(self, account: Account) -> Account:
        await self._answer()
        self._check(account)
        self.writes += 1
        used = Books(account, self._observation.view).used
        return self.keep(usage.kept(account).subject, usage.status(account, used), account.uid)

    async def close(self, account: Account) -> None:
        await self._answer()
        self._check(account)
        stored = self.accounts.pop(account.name)
        assert not stored.reservations
        self.closed.append(usage.kept(account).subject.name)
        for tell in self.on_deleted:
            asyncio.get_running_loop().call_later(0.01, tell, stored)

    async def look(self, namespace: str, binding: str) -> LiveLook:
        await self._answer()
        return LiveLook(None)

    async def replicas(self) -> dict[str, Legacy | None]:
        return {}

    def status(self, subject: Subject = ANNS) -> Mapping[str, Any]:
        return usage.kept(self.accounts[subject.account]).status

    def _check(self, account: Account) -> None:
        current = self.accounts.get(account.name)
        if self.conflicts or current is None or (current.version, current.uid) != (account.version, account.uid):
            self.conflicts = max(0, self.conflicts - 1)
            raise ConflictError

    async def _answer(self) -> None:
        await asyncio.sleep(0.005)
        if self.is_down:
            raise UnreachableError("no answer")


class Stand:
    """What the leader has of it."""

    def __init__(self) -> None:
        self.observation = Observation()
        self.mirror = BindingMirror(self.observation, self._binding_changed)
        self.queue: WorkQueue[Subject] = WorkQueue("subjects", coalesce_seconds=0.1)
        self.limits = Limits(
            self.observation,
            self.mirror,
            Audit(),
            lambda account: self.queue.add(usage.kept(account).subject),
            self.queue.add,
        )
        self.shelf = Shelf(self.observation)
        self.shelf.on_stored.append(self.limits.accounts.upsert)
        self.shelf.on_deleted.append(self.limits.accounts.delete)
        self.controller = SubjectController(self.limits, self.observation, self.shelf)

    def _binding_changed(self, before: Binding | None, after: Binding | None) -> None:
        for subject in self.limits.subjects(before, after):
            self.queue.add(subject)

    def limit(self, known: Schemes) -> None:
        if self.limits.limit(known):
            for subject in self.limits.everybody():
                self.queue.add(subject)

    def put(self, name: str, cpu: int, owner: Owner | None = ANN, leaf: str = LEAF) -> Binding:
        made = waiters.binding(name, cpu, version=self.observation.view.version + 1)
        amounts = Resources.parse({"cpu": cpu, "pods": cpu})
        made = replace(made, demand=amounts, stamp=Stamp(leaf=leaf, owner=owner))
        self.mirror.upsert(made)
        return made

    def delete(self, name: str) -> None:
        known = self.mirror.bindings[waiters.binding(name, 0).key]
        self.mirror.delete(replace(known, version=self.observation.view.version + 1))

    def summary(self, subject: Subject = ANNS) -> object:
        return self.shelf.status(subject).get("summary")

    def names(self) -> set[str]:
        return {usage.kept(one).subject.name for one in self.shelf.accounts.values()}

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.queue.serve(self.controller.reconcile)) for _ in range(2)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def root(*limits: dict[str, Any]) -> Schemes:
    return schemes({ROOT: limits})


def reservation(name: str, cpu: int, owner: Owner = ANN) -> Reservation:
    claim = owned(owner, {"cpu": cpu, "pods": cpu})
    return Reservation(f"id-{name}", f"{waiters.NAMESPACE}/{name}-deployment", claim, uid=f"uid-{name}")


def reserve(stand: Stand, subject: Subject, reservations: Iterable[Reservation]) -> None:
    """As a webhook does."""
    account = stand.shelf.accounts[subject.account].with_reservations(reservations)
    stand.shelf.keep(subject, usage.status(account, Resources({})), account.uid)


@in_simulated_time
async def test_a_limit_that_comes_counts_what_runs_already() -> None:
    stand = Stand()
    stand.put("web", 3)
    stand.put("api", 2, BOB)
    async with stand.leading():
        await asyncio.sleep(1)
        assert stand.shelf.accounts == {}, "nobody is limited"
        stand.limit(root(limited("ann", applications=4, cpu=5), limited("*", cpu=9)))
        await asyncio.sleep(1)
        assert stand.summary() == "tree lab: applications 1/4, cpu 3/5"
        assert stand.summary(BOBS) == "tree lab: cpu 2/9"
        assert stand.shelf.status()["exceeded"] == ""
        stand.put("web", 4)
        await asyncio.sleep(2)
        assert stand.summary() == "tree lab: applications 1/4, cpu 4/5"


@in_simulated_time
async def test_a_limit_that_changes_applies_to_what_runs_and_one_that_goes_is_cleared() -> None:
    stand = Stand()
    stand.put("web", 3)
    async with stand.leading():
        stand.limit(root(limited("ann", cpu=5)))
        await asyncio.sleep(1)
        stand.limit(schemes({ROOT: [limited("ann", cpu=2)], LEAF: [limited("ann", cpu=1)]}))
        await asyncio.sleep(2)
        assert stand.summary() == "tree lab: cpu 3/2; team-a: cpu 3/1"
        assert stand.shelf.status()["exceeded"] == "cpu on tree lab, cpu on team-a"
        stand.limit(root(limited("bob", cpu=2)))
        await asyncio.sleep(UNLIMITED_SECONDS / 2)
        assert stand.summary() == ""
        assert stand.shelf.status()["nodes"] == []
        await asyncio.sleep(2 * UNLIMITED_SECONDS)
        assert stand.names() == {"bob"}, "who has no limit needs no account"
        stand.limit(NO_LIMITS)
        await asyncio.sleep(2 * UNLIMITED_SECONDS)
        assert stand.shelf.accounts == {}


@in_simulated_time
async def test_what_a_replica_holds_of_it_keeps_no_account_from_being_removed() -> None:
    stand = Stand()
    async with stand.leading():
        stand.limit(root(limited("ann", cpu=5)))
        await asyncio.sleep(1)
        account = stand.limits.accounts.accounts[ObjectKey(ANNS.domain, ANNS.account)]
        held = (Advance("a", "webhook", Resources.parse({"cpu@": 1})),)
        stand.shelf.keep(ANNS, usage.status(replace(account, advances=held), Resources({})), account.uid)
        await asyncio.sleep(1)
        assert stand.shelf.status()["advances"], "whose replica may be there"
        stand.limit(NO_LIMITS)
        await asyncio.sleep(UNLIMITED_SECONDS / 2)
        assert stand.shelf.status()["advances"][0]["amounts"] == {"cpu": "1"}, "the limit may come back"
        await asyncio.sleep(2 * UNLIMITED_SECONDS)
        assert stand.shelf.closed == ["ann"]


@in_simulated_time
async def test_whoever_is_named_has_an_account_and_others_as_long_as_they_have_anything() -> None:
    stand = Stand()
    async with stand.leading():
        stand.limit(root(limited("ann", cpu=5), {"groups": ["dev", "*"], "maxApplications": 7}, limited("*", cpu=1)))
        await asyncio.sleep(1)
        assert stand.names() == {"ann", "dev", "*"}
        stand.put("api", 1, BOB)
        await asyncio.sleep(1)
        assert stand.names() == {"ann", "bob", "dev", "*"}
        stand.delete("api")
        await asyncio.sleep(IDLE_SECONDS / 2)
        assert stand.names() == {"ann", "bob", "dev", "*"}, "who comes and goes finds it there"
        await asyncio.sleep(IDLE_SECONDS)
        assert stand.shelf.closed == ["bob"]


@in_simulated_time
async def test_who_comes_back_in_time_keeps_their_account() -> None:
    stand = Stand()
    stand.put("api", 1, BOB)
    async with stand.leading():
        stand.limit(root(limited("*", cpu=5)))
        for _ in range(3):
            await asyncio.sleep(2)
            stand.delete("api")
            await asyncio.sleep(IDLE_SECONDS * 0.7)
            stand.put("api", 1, BOB)
        assert stand.shelf.closed == []


@in_simulated_time
async def test_nothing_is_removed_while_something_is_reserved_in_it() -> None:
    stand = Stand()
    async with stand.leading():
        stand.limit(root(limited("ann", cpu=5)))
        await asyncio.sleep(1)
        reserve(stand, ANNS, [reservation("web", 2)])
        stand.limit(NO_LIMITS)
        await asyncio.sleep(EXPIRY_SECONDS / 2)
        assert stand.names() == {"ann"}
        await asyncio.sleep(EXPIRY_SECONDS)
        assert stand.shelf.closed == ["ann"], "its write never came"


@in_simulated_time
async def test_what_is_reserved_counts_until_it_is_stored() -> None:
    stand = Stand()
    async with stand.leading():
        stand.limit(root(limited("ann", cpu=5)))
        await asyncio.sleep(1)
        reserve(stand, ANNS, [reservation("web", 2)])
        await asyncio.sleep(2)
        assert stand.summary() == "tree lab: cpu 2/5"
        stand.put("web", 1)  # less than was reserved
        await asyncio.sleep(2)
        assert stand.summary() == "tree lab: cpu 1/5"
        assert stand.shelf.accounts[ANNS.account].reservations == ()
        assert stand.shelf.accounts[ANNS.account].observed == 1, "others have to see it first"


@in_simulated_time
async def test_who_waits_keeps_the_account_that_has_them_on_its_list() -> None:
    stand = Stand()
    async with stand.leading():
        stand.limit(root(limited("*", cpu=1)))
        account = stand.limits.accounts.accounts.get(ObjectKey(BOBS.domain, BOBS.account))
        assert account is None
        listed = waiting.write([waiters.waiter("api", 3)])
        stand.shelf.keep(BOBS, {"waiting": listed})
        await asyncio.sleep(3 * IDLE_SECONDS)
        assert stand.shelf.closed == []
        assert stand.shelf.status(BOBS)["waiting"] == listed
        stand.limit(NO_LIMITS)
        await asyncio.sleep(2 * UNLIMITED_SECONDS)
        assert stand.shelf.closed == ["bob"], "what is limited no more is waited for by nobody"


@in_simulated_time
async def test_one_that_somebody_deletes_is_made_anew() -> None:
    stand = Stand()
    stand.put("web", 3)
    async with stand.leading():
        stand.limit(root(limited("ann", cpu=5)))
        await asyncio.sleep(1)
        gone = stand.shelf.accounts.pop(ANNS.account)
        stand.limits.accounts.delete(gone)
        await asyncio.sleep(1)
        assert stand.shelf.opened == ["ann", "ann"]
        assert stand.summary() == "tree lab: cpu 3/5"
        stand.limits.accounts.replace([], 999)
        await asyncio.sleep(1)
        assert ObjectKey(ANNS.domain, ANNS.account) not in stand.limits.accounts.accounts


@in_simulated_time
async def test_nothing_is_written_that_stands_there_already_and_a_failed_write_is_tried_again() -> None:
    stand = Stand()
    stand.put("web", 3)
    async with stand.leading():
        stand.shelf.is_down = True
        stand.limit(root(limited("ann", cpu=5)))
        await asyncio.sleep(3)
        stand.shelf.is_down = False
        stand.shelf.conflicts = 1
        await asyncio.sleep(3)
        assert stand.summary() == "tree lab: cpu 3/5"
        writes = stand.shelf.writes
        for _ in range(5):
            stand.queue.add(ANNS)
            await asyncio.sleep(2)
        assert stand.shelf.writes == writes


@in_simulated_time
async def test_a_view_that_is_behind_writes_nothing() -> None:
    stand = Stand()
    async with stand.leading():
        stand.limit(root(limited("ann", cpu=5)))
        await asyncio.sleep(1)
        writes = stand.shelf.writes
        stand.shelf.keep(ANNS, {"observedBindingVersion": "500"})
        await asyncio.sleep(3)
        assert stand.shelf.writes == writes
        stand.observation.reach(500)
        await asyncio.sleep(3)
        assert stand.summary() == "tree lab: cpu 0/5"
        assert stand.controller.oldest_seconds() == 0.0


@in_simulated_time
async def test_how_old_a_reservation_is_can_be_told() -> None:
    stand = Stand()
    async with stand.leading():
        stand.limit(root(limited("ann", cpu=5)))
        await asyncio.sleep(1)
        reserve(stand, ANNS, [reservation("web", 2)])
        await asyncio.sleep(10)
        assert 8 < stand.controller.oldest_seconds() < 10
        age = stand.controller.age_seconds(stand.shelf.accounts[ANNS.account], "id-web")
        assert age is not None
        assert 8 < age < 10
