"""The controller of elastic trees, in simulated time: what it writes, in which order, and what if that fails."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.elastic import watching
from controllers.elastic.counting import Counting
from controllers.elastic.trees import YOUNG_SECONDS, TreeController
from controllers.elastic.watching import Watching
from controllers.limits import Limits
from controllers.reporting import Reporting
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import ConflictError, UnreachableError
from federation_quota.binding import Binding, ClusterShare
from federation_quota.elastic import leaf as leaves
from federation_quota.elastic.association import Reach
from federation_quota.elastic.capacity import Cluster
from federation_quota.elastic.forest import Forest, Root
from federation_quota.elastic.running import Sight, Sorts
from federation_quota.kube import error
from federation_quota.kube.client import Client
from federation_quota.kube.forest import Table
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.account import Account
from federation_quota.ledger.audit import Audit
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Books
from federation_quota.ledger.reservation import Reservation
from federation_quota.limits import limit, usage
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.scheme import Schemes
from federation_quota.limits.subject import USER, Subject
from federation_quota.pod import Footprint, Workload
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import CAPACITY_LABEL, HELD_LABEL, Owner, Stamp
from tests.conformance.bookstore import in_simulated_time
from tests.unit import waiters
from tests.unit.test_waking import DISCOVERY, Journal
from tests.unit.waiters import QuotaShelf


def quota(name: str, cpu: int) -> Account:
    """A leaf of that name, as it is made."""
    namespace, _, own = name.rpartition("/")
    metadata = {"namespace": namespace, "name": own, "uid": f"uid-{own}", "resourceVersion": "1", "generation": 1}
    return leaves.read({"kind": "ElasticQuota", "metadata": metadata, "spec": {"min": {"cpu": cpu}}})


class Shelf(QuotaShelf):
    """Leaves under versions; their answers can be lost."""

    def __init__(self, observation: Observation, *accounts: Account) -> None:
        super().__init__(*accounts)
        self._observation = observation
        self.log: list[tuple[str, str]] = []  # what was published, in order
        self.late: list[str] = []  # whose next write is given up, and comes all the same a little later

    async def write(self, account: Account) -> Account:
        if account.name in self.late:
            self.late.remove(account.name)
            self._coming = asyncio.create_task(self._write_late(account))
            raise UnreachableError("no answer")
        before = leaves.kept(self.accounts[account.name]).status.get("runtime")
        await asyncio.sleep(0.005)
        used = Books(account, self._observation.view).used
        stored = await super().write(leaves.stored_as(account, leaves.status(account, used)))
        after = leaves.kept(stored).status["runtime"]
        if after != before:
            self.log.append((account.name, after["cpu"]))
        return stored

    async def _write_late(self, account: Account) -> None:
        await asyncio.sleep(2)
        with contextlib.suppress(ConflictError):
            await self.write(account)


class Server(Client):
    """An API server that takes patches of bindings, and a scheduler that acts on them at once."""

    def __init__(self, mirror: BindingMirror) -> None:
        self.mirror = mirror
        self.refused: set[str] = set()
        self.patches: list[tuple[str, dict[str, Any]]] = []

    async def request(self, method: str, path: str, **_: Any) -> bytes:  # noqa: ANN401
        return json.dumps(DISCOVERY if path == "/apis" else {"kind": "APIVersions"}).encode()

    async def get(self, resource: Any, name: str, namespace: Any = None, **_: Any) -> bytes:  # noqa: ANN401
        raise error.NotFoundError(404)

    async def patch(self, resource: Any, name: str, body: Any, namespace: Any = None, **_: Any) -> bytes:  # noqa: ANN401
        self.patches.append((name.removesuffix("-deployment"), body))
        await asyncio.sleep(0.005)
        found = next(one for one in self.mirror.bindings.values() if one.key.name == name)
        if name in self.refused:
            raise error.ForbiddenError(403)
        if str(found.version) != body["metadata"]["resourceVersion"]:
            raise error.ConflictError(409)
        labels, spec = body["metadata"].get("labels", {}), body.get("spec", {})
        capacity = labels.get(CAPACITY_LABEL, found.capacity) or ""
        found = replace(found, version=self._next(), capacity=capacity)
        stored = found.version
        if labels.get(HELD_LABEL) == "true":
            found = replace(found, is_held=True, is_suspended=True, clusters=(), assigned=NOTHING)
        elif HELD_LABEL in labels or "rescheduleTriggeredAt" in spec:
            found = replace(found, is_held=False, is_suspended=False)
            self.mirror.upsert(found)
            given = (ClusterShare("m1", found.replicas),)
            found = replace(found, version=self._next(), clusters=given, assigned=found.demand, scheduled_reason="")
        self.mirror.upsert(found)
        return json.dumps({"metadata": {"resourceVersion": str(stored)}}).encode()

    def _next(self) -> int:
        return max(one.version for one in self.mirror.bindings.values()) + 1


class Members:
    """What runs in the members: pods of one cpu."""

    def __init__(self) -> None:
        self.running = 0

    def pods(self, namespace: str) -> Sorts:
        sort = Footprint(Resources.parse({"cpu": 1}), "", Workload("Deployment", "web"), is_running=True)
        return {"m1": {sort: self.running} if namespace == waiters.NAMESPACE and self.running else {}}

    def sights(self) -> list[Sight]:
        return [Sight("m1")]


class Stand:
    """A tree of 100 cpu for two teams, and the controller at work on it."""

    def __init__(self, *mins: int, total: int = 100, delay: int = 10) -> None:
        self.observation = Observation()
        self.trees: Table[Root] = Table(lambda: None)
        self.mirror = BindingMirror(self.observation, self._binding_changed)
        accounts = [quota(f"{'ab'[place]}/q", cpu) for place, cpu in enumerate(mins)]
        self.shelf = Shelf(self.observation, *accounts)
        self.server = Server(self.mirror)
        self.said = Journal()
        self.members = Members()
        known = {one.name: one for one in accounts}
        self.watching = Watching(self.observation, self.mirror, known, Counting(self.members))
        self._root = Root(reclaim_delay_seconds=delay, system=Reach(frozenset({"system"})))
        self.has(total)
        self.controller = TreeController(self.watching, self, self.shelf, Reporting(self.said))  # type: ignore[arg-type]
        self.shelf.on_stored.append(self._stored)

    def _binding_changed(self, old: Binding | None, new: Binding | None) -> None:
        self.controller.binding_changed(old, new)

    def has(self, total: int) -> None:
        """There is so much."""
        found = [leaves.kept(one).quota for one in self.shelf.accounts.values()]
        cluster = Cluster("m1", {}, Resources.parse({"cpu": total}))
        self.forest = Forest.of(found, [self._root], {"system": {}}, [cluster])

    def _stored(self, account: Account) -> None:
        def heard() -> None:
            known = self.watching.accounts[account.name]
            if int(known.version) < int(account.version):
                self.watching.accounts[account.name] = account
            self.controller.account_changed(account.name)

        asyncio.get_running_loop().call_later(0.01, heard)

    def put(self, name: str, cpu: int, team: str = "a", *, priority: int = 0, owner: Owner | None = None) -> Binding:
        """A new binding, held as the webhook would."""
        stamp = Stamp(priority=priority, leaf=f"{team}/q", owner=owner)
        made = waiters.binding(name, cpu, version=self.version(), is_held=True, is_suspended=True, stamp=stamp)
        self.mirror.upsert(made)
        return made

    def version(self) -> int:
        return max((one.version for one in self.mirror.bindings.values()), default=10) + 1

    def used(self, team: str = "a") -> str:
        status = leaves.kept(self.shelf.accounts[f"{team}/q"]).status
        return str((status.get("used") or {}).get("cpu", ""))

    def held(self) -> list[str]:
        return sorted(one.template.name for one in self.mirror.bindings.values() if one.is_held)

    @asynccontextmanager
    async def leading(self, *, is_young: bool = False) -> AsyncIterator[None]:
        task = asyncio.create_task(self.controller.run(self.server))
        try:
            await asyncio.sleep(0 if is_young else YOUNG_SECONDS + 1)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds:g} s"
        await asyncio.sleep(0.01)


@in_simulated_time
async def test_what_waits_gets_its_runtime_and_goes() -> None:
    stand = Stand(40, 60)
    async with stand.leading():
        stand.put("web", 80)
        await until(lambda: stand.used() == "80")
        assert stand.held() == []
        assert stand.shelf.log[-1] == ("a/q", "80")
        await until(lambda: any(reason == "Released" for _, reason, _ in stand.said.said))


@in_simulated_time
async def test_a_young_leader_lowers_and_does_not_raise() -> None:
    stand = Stand(40, 60)
    stand.put("web", 80)
    async with stand.leading(is_young=True):
        await asyncio.sleep(YOUNG_SECONDS - 0.5)
        assert stand.held() == ["web"], "a write of the leader before may still be on its way"
        await until(lambda: stand.held() == [])


@in_simulated_time
async def test_who_comes_for_its_own_gets_it_when_the_other_has_given_back() -> None:
    stand = Stand(40, 60)
    async with stand.leading():
        stand.put("web", 40, priority=5)
        stand.put("crawl", 40)
        await until(lambda: stand.used() == "80")
        stand.put("api", 60, "b")
        await asyncio.sleep(5)
        assert stand.held() == ["api"], "not before the delay"
        await until(lambda: stand.used("b") == "60")
        assert stand.held() == ["crawl"]
        order = [one for one in stand.shelf.log if one in (("a/q", "40"), ("b/q", "60"))]
        assert order == [("a/q", "40"), ("b/q", "60")]


@in_simulated_time
async def test_what_may_yet_be_published_is_not_given_to_others() -> None:
    stand = Stand(40, 60)
    async with stand.leading():
        stand.shelf.late = ["a/q"]
        gone = stand.put("web", 80)
        await until(lambda: not stand.shelf.late)
        stand.mirror.delete(replace(gone, version=gone.version + 1))
        stand.put("api", 100, "b")
        await until(lambda: stand.used("b") == "100")
    runtimes = dict.fromkeys(("a/q", "b/q"), 0)
    for name, amount in stand.shelf.log:
        runtimes[name] = int(amount)
        assert sum(runtimes.values()) <= 100
    assert ("a/q", "80") in stand.shelf.log, "it came"


@in_simulated_time
async def test_a_release_that_is_refused_is_tried_again_later_and_others_go_meanwhile() -> None:
    stand = Stand(40, total=40)
    async with stand.leading():
        stand.server.refused = {"web-deployment"}
        stand.put("web", 40, priority=5)
        await until(lambda: [name for name, _ in stand.server.patches] == ["web"])
        reports = stand.put("reports", 40)
        await until(lambda: stand.used() == "40")
        assert stand.held() == ["web"]
        stand.server.refused = set()
        stand.mirror.delete(replace(stand.mirror.bindings[reports.key], version=stand.version()))
        await until(lambda: stand.held() == [], 60)


@in_simulated_time
async def test_who_was_refused_by_the_scheduler_is_woken_when_there_is_room() -> None:
    stand = Stand(40, 60)
    async with stand.leading():
        stuck = stand.put("web", 20)
        stand.mirror.upsert(
            replace(
                stuck, version=stuck.version + 50, is_held=False, is_suspended=False, scheduled_reason="QuotaExceeded"
            )
        )
        await until(lambda: stand.used() == "20")
        assert any("rescheduleTriggeredAt" in body.get("spec", {}) for _, body in stand.server.patches)


@in_simulated_time
async def test_less_for_all_displaces_in_order_and_labels_say_who_is_within_its_min() -> None:
    stand = Stand(40, 60)
    async with stand.leading():
        stand.put("web", 40, priority=5)
        stand.put("crawl", 20)
        await until(lambda: stand.used() == "60")
        await until(lambda: {one.capacity for one in stand.mirror.bindings.values()} == {"in-quota", "over-quota"})
        stand.has(50)
        stand.controller.forest_changed()
        await until(lambda: stand.used() == "40")
        assert stand.held() == ["crawl"]
        await asyncio.sleep(20)
        writes, patches = stand.shelf.writes, len(stand.server.patches)
        await asyncio.sleep(60)
        assert (stand.shelf.writes, len(stand.server.patches)) == (writes, patches), "nothing is left to be written"


@in_simulated_time
async def test_what_the_system_comes_to_use_is_taken_off_what_there_is_by_that_event_alone() -> None:
    stand = Stand(40, 60)
    async with stand.leading():
        stand.put("web", 80)
        stand.put("crawl", 20)
        await until(lambda: stand.used() == "100")
        dns = waiters.binding("dns", 30, version=stand.version(), clusters={"m1": 30})
        dns = replace(dns, key=dns.key._replace(namespace="system"))
        stand.mirror.upsert(dns)
        await until(lambda: stand.used() == "20" or stand.used() == "80")
        assert len(stand.held()) == 1
        stand.mirror.delete(replace(dns, version=stand.version()))
        await until(lambda: stand.used() == "100")


@in_simulated_time
async def test_what_runs_is_said_beside_what_was_admitted() -> None:
    stand = Stand(40, 60)
    async with stand.leading():
        stand.put("web", 80)
        await until(lambda: stand.used() == "80")

        def says(field: str) -> object:
            return leaves.kept(stand.shelf.accounts["a/q"]).status.get(field)

        await until(lambda: says("running") == {"cpu": "0"})
        stand.members.running = 50
        stand.controller.pods_changed([waiters.NAMESPACE])
        await until(lambda: says("running") == {"cpu": "50"})
        assert (says("runningSummary"), says("clusters")) == ("cpu: 50", [{"name": "m1", "running": {"cpu": "50"}}])
        assert stand.used() == "80", "nothing is decided by it"


def with_limits(stand: Stand, cpu: int) -> Limits:
    """The same stand, where ann may have so much of it."""
    limits = Limits(stand.observation, stand.mirror, Audit())
    levels = [Level(ROOT, limits=limit.read({"limits": [{"users": ["ann"], "maxResources": {"cpu": cpu}}]}))]
    levels += [Level(name) for name in stand.shelf.accounts]
    limits.limit(Schemes.of({"default": levels}))
    stand.watching._hindered = limits.hindered
    stand.controller._fitting = limits.fitting
    return limits


@in_simulated_time
async def test_what_a_users_limit_would_refuse_is_not_released_before_her_use_falls_and_keeps_nobody_waiting() -> None:
    stand = Stand(40, 60)
    with_limits(stand, 50)
    async with stand.leading():
        first = stand.put("first", 30, owner=Owner("ann"))
        await until(lambda: stand.used() == "30")
        stand.put("second", 30, "b", priority=9, owner=Owner("ann"))
        stand.put("third", 40, "b")
        await until(lambda: stand.used("b") == "40")
        await asyncio.sleep(60)
        assert stand.held() == ["second"]
        assert [name for name, body in stand.server.patches if "spec" in body] == ["first", "third"], "never tried"
        said = [text for _, reason, text in stand.said.said if reason == "Held" and "limit of user ann" in text]
        assert said, "she is told why"
        stand.mirror.delete(replace(stand.mirror.bindings[first.key], version=stand.version()))
        await until(lambda: stand.held() == [], 3)


@in_simulated_time
async def test_of_several_that_fit_one_by_one_no_more_are_released_than_together() -> None:
    stand = Stand(40, 60)
    with_limits(stand, 50)
    async with stand.leading():
        for number in range(4):
            stand.put(f"w{number}", 20, "ab"[number % 2], owner=Owner("ann"))
        await asyncio.sleep(60)
        assert len(stand.held()) == 2
        assert len([name for name, body in stand.server.patches if "spec" in body]) == 2, "none was tried in vain"


@in_simulated_time
async def test_an_account_of_which_something_is_new_wakes_who_waits_for_it() -> None:
    stand = Stand(40, 60)
    limits = with_limits(stand, 50)
    subject = Subject("default", USER, "ann")
    elsewhere = Claim(Resources.parse({"cpu": 30, "pods": 1}), leaf="a/q", owner=Owner("ann"))
    empty = replace(usage.unopened(subject), uid="u", version="1")
    taken = empty.with_reservations([Reservation("id", "x/y", elsewhere, uid="uid-y")])
    limits.accounts.upsert(taken)
    async with stand.leading():
        stand.put("web", 30, owner=Owner("ann"))
        await asyncio.sleep(10)
        assert stand.held() == ["web"]
        limits.accounts.upsert(replace(empty, version="2"))
        stand.controller.owner_changed("default")
        await until(lambda: stand.held() == [], 2)
        stand.controller.owner_changed("default")  # nobody waits: nothing is to be done


@in_simulated_time
async def test_who_was_tried_in_vain_before_does_not_rest_once_there_is_room() -> None:
    stand = Stand(40, 60)
    with_limits(stand, 50)
    async with stand.leading():
        stand.server.refused = {"web-deployment"}
        stand.put("web", 30, owner=Owner("ann"))
        await asyncio.sleep(40)  # by now it rests for long
        other = stand.put("other", 40, "b", owner=Owner("ann"))
        await until(lambda: stand.used("b") == "40")
        stand.server.refused = set()
        await asyncio.sleep(1)
        assert stand.held() == ["web"]
        stand.mirror.delete(replace(stand.mirror.bindings[other.key], version=stand.version()))
        await until(lambda: stand.held() == [], 1)


@in_simulated_time
async def test_where_it_takes_long_to_see_whom_limits_keep_back_that_is_not_done_again_at_every_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = Stand(40, 60)
    limits = with_limits(stand, 50)
    looks: list[float] = []
    # As if there were thousands: 30 ms for each look, whatever this machine does beside.
    monkeypatch.setattr(watching, "time", SimpleNamespace(perf_counter=lambda: 0.03 * len(looks)))

    def slow(tree: str, held: Iterable[Binding]) -> Mapping[str, str]:
        looks.append(asyncio.get_running_loop().time())
        return limits.hindered(tree, held)

    async with stand.leading():
        first = stand.put("first", 30, owner=Owner("ann"))
        stand.put("second", 30, owner=Owner("ann"))
        await until(lambda: stand.used() == "30")
        stand.watching._hindered = slow
        for _ in range(50):
            stand.controller.account_changed("a/q")
            await asyncio.sleep(0.02)
        assert 1 < len(looks) < 8
        stand.mirror.delete(replace(stand.mirror.bindings[first.key], version=stand.version()))
        await until(lambda: stand.held() == [], 2)
