"""What is gathered of trees: however things come, it is what somebody who starts now would gather."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from controllers.elastic.counting import Counting
from controllers.elastic.watching import LeafMirror, Watching
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding
from federation_quota.elastic import leaf as leaves
from federation_quota.elastic.association import Reach
from federation_quota.elastic.capacity import Cluster
from federation_quota.elastic.forest import Forest, Root
from federation_quota.elastic.plan import Planner, plan
from federation_quota.elastic.running import Sight, Sorts
from federation_quota.elastic.situation import Leaf
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.pod import Footprint, Workload
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp
from tests.budget import scaled
from tests.unit import waiters
from tests.unit.test_elastic_planner import told

TREES = ["default", "other"]
SEEDS = scaled(60)
NAMES = ["a/q", "b/q", "c/q", "team"]
PARENT = "dept"
ONE = Resources.parse({"cpu": 1})
SORTS = [
    Footprint(ONE, is_running=True),
    Footprint(ONE * 2, "", Workload("Deployment", "web"), is_running=True),
    Footprint(ONE * 4, "", Workload("Deployment", "api"), is_running=False),
]


class Members:
    """What is seen in member clusters."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, dict[Footprint, int]]] = {}
        self.known: list[Sight] | None = None

    def pods(self, namespace: str) -> Sorts:
        return self.there.get(namespace, {})

    def sights(self) -> list[Sight] | None:
        return self.known


@dataclass
class World:
    """Bindings, quotas and a forest, each seen through its own watch, and a controller's gathering of them."""

    chance: random.Random
    version: int = 10
    clock: float = 0.0
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    known: dict[str, dict[str, Any]] = field(default_factory=dict)  # of them, what the forest's watch has seen
    cpu: int = 100
    has_system: bool = False

    def __post_init__(self) -> None:
        self.observation = Observation()
        self.mirror = BindingMirror(self.observation, self._binding_changed)
        self.members = Members()
        self.watching = Watching(self.observation, self.mirror, counting=Counting(self.members))
        self.mirrors = {kind: LeafMirror(self.watching.accounts, self._account_changed) for kind in (True, False)}
        self.forest = Forest()

    def _binding_changed(self, before: Binding | None, after: Binding | None) -> None:
        self.watching.binding_changed(before, after)

    def _account_changed(self, name: str) -> None:
        self.watching.touch(name)

    def cores(self) -> int:
        return self.chance.randrange(40)

    def perhaps(self, chance: float = 0.5) -> bool:
        return self.chance.random() < chance

    def next(self) -> int:
        self.version += 1
        return self.version

    def happen(self) -> None:
        happening = self.chance.choice(
            ["bind", "bind", "bind", "bind", "unbind", "spec", "spec", "status", "forest", "gone", "pods"]
        )
        getattr(self, {"forest": "forest_changed"}.get(happening, happening))()
        if self.perhaps(0.15):
            self.rare()

    def bind(self) -> None:
        name, namespace = self.chance.choice(["web", "api", "db"]), self.chance.choice(["a", "system"])
        has, is_held = self.chance.randrange(6), self.perhaps()
        made = waiters.binding(
            name,
            self.chance.randrange(1, 9),
            version=self.next(),
            is_held=is_held,
            is_suspended=is_held,
            stamp=Stamp(leaf=self.chance.choice([*NAMES, ""])),
        )
        key = made.key._replace(namespace=namespace)
        self.mirror.upsert(replace(made, key=key, assigned=Resources.parse({"cpu": has})))

    def pods(self) -> None:
        namespace, cluster = self.chance.choice(["a", "team"]), self.chance.choice(["m1", "m2"])
        found = {sort: self.chance.randrange(1, 4) for sort in SORTS if self.perhaps()}
        self.members.there.setdefault(namespace, {})[cluster] = found
        self.watching.pods_changed([namespace])

    def unbind(self) -> None:
        if self.mirror.bindings:
            key = self.chance.choice(sorted(self.mirror.bindings))
            self.mirror.delete(replace(self.mirror.bindings[key], version=self.next()))

    def spec(self) -> None:
        """A quota is made, changed or moved; the forest's watch may hear of it later."""
        name = self.chance.choice([*NAMES, "team", PARENT])
        tree = self.chance.choice(TREES)
        if name in self.specs and self.perhaps(0.7):
            tree = self.specs[name]["tree"]
        spec: dict[str, Any] = {"tree": tree, "min": {"cpu": self.cores()}}
        if name == "team" and self.perhaps():
            spec["namespaces"] = ["team"]  # otherwise it is a parent
        if name != PARENT and self.perhaps(0.3):
            spec["parent"] = PARENT
        self.specs[name] = spec
        self._store(name, {})
        if self.perhaps():
            self.forest_changed()

    def status(self) -> None:
        known = sorted(self.watching.accounts)
        if known:
            name = self.chance.choice(known)
            asks = [{"binding": "a/web-deployment", "charge": {"cpu": self.cores()}, "until": "2999-01-01T00:00:00Z"}]
            runtime = {"cpu": str(self.cores())}
            self._store(name, {"runtime": runtime, "asks": asks if self.perhaps() else []})

    def gone(self) -> None:
        if self.specs:
            name = self.chance.choice(sorted(self.specs))
            del self.specs[name]
            account = self.watching.accounts.get(name)
            if account is not None:
                self.mirrors["/" in name].delete(account)
            if self.perhaps():
                self.forest_changed()

    def rare(self) -> None:
        """Everything is listed anew, a write is doubtful, or one's own write is known before the watch brings it."""
        what = self.chance.choice(["bindings", "accounts", "doubt", "written", "time", "net", "member"])
        accounts = sorted(self.watching.accounts)
        if what == "bindings":
            kept = [one for one in self.mirror.bindings.values() if self.perhaps()]
            self.mirror.replace(kept, self.next())
        elif what == "accounts":
            for is_elastic, mirror in self.mirrors.items():
                mirror.replace([self.watching.accounts[one] for one in accounts if ("/" in one) == is_elastic], 0)
        elif what == "time":
            self.clock += self.chance.choice([1.0, 100.0])
        elif what == "net":
            self.watching.touch_all()
        elif what == "member":
            problem = self.chance.choice(["", "no route"])
            self.members.known = [Sight("m1"), Sight("m2", problem=problem, last_seen=problem)]
            self.watching.touch_all()
        elif accounts:
            account = self.watching.accounts[self.chance.choice(accounts)]
            if what == "doubt":
                self.watching.doubt(account, {"cpu": 1000 * self.cores()}, self.clock)
            else:
                self.watching.written(self._account(account.name, {"runtime": {"cpu": str(self.cores())}}))

    def forest_changed(self) -> None:
        """The forest's watch has caught up; or clusters and namespaces are others."""
        self.known = dict(self.specs)
        quotas = [leaves.kept(self._account(name, {})).quota for name in self.known]
        self.cpu, self.has_system = self.chance.choice([50, 100]), self.perhaps()
        system = Reach(frozenset({"system"} if self.has_system else ()))
        clusters = [Cluster("m1", {}, Resources.parse({"cpu": self.cpu})), Cluster("m2", {}, is_ready=False)]
        roots = [Root("default", system=system), Root("other", fixed=Resources.parse({"cpu": 60}))]
        self.forest = Forest.of(quotas, roots, {"a": {}, "system": {}}, clusters)

    def _store(self, name: str, status: dict[str, Any]) -> None:
        self.mirrors["/" in name].upsert(self._account(name, status))

    def _account(self, name: str, status: dict[str, Any]) -> Account:
        namespace, _, own = name.rpartition("/")
        spec = self.specs.get(name) or self.known[name]
        metadata = {"name": own, "uid": f"uid-{name}", "resourceVersion": str(self.next()), "generation": 1}
        kind = "ElasticQuota" if namespace else "CompositeElasticQuota"
        place = {"namespace": namespace} if namespace else {}
        return leaves.read({"kind": kind, "metadata": {**metadata, **place}, "spec": spec, "status": status})

    def begun_now(self) -> Watching:
        """What somebody knows who starts now, and has heard of the same doubts."""
        fresh = Watching(self.observation, self.mirror, dict(self.watching.accounts), Counting(self.members))
        fresh.pods_changed(self.members.there)
        for one in self.mirror.bindings.values():
            fresh.binding_changed(None, one)
        fresh._doubts = dict(self.watching._doubts)
        return fresh


def in_order(found: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """In which order bindings came is nobody's business."""
    return {
        name: replace(leaf, bindings=tuple(sorted(leaf.bindings, key=lambda one: one.key)))
        for name, leaf in found.items()
    }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_gathered_an_event_at_a_time_is_what_is_there(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance)
    planners = {tree: Planner() for tree in TREES}
    for _ in range(20):
        for _ in range(chance.randrange(1, 5)):
            world.happen()
        for tree in chance.sample(TREES, chance.randint(0, 2)):
            names = ["a/web-deployment", "system/api-deployment"]
            resting = frozenset(chance.sample(names, chance.randint(0, 2)))
            for one in (begun_now := world.begun_now(), world.watching):
                one.count(world.forest)
            looked = world.watching.look(tree, world.forest, clock=world.clock, resting=resting)
            anew = begun_now.look(tree, world.forest, clock=world.clock, resting=resting)
            assert looked is not None
            assert anew is not None
            (estate, seen), (estate_now, seen_now) = looked, anew
            assert estate == estate_now
            assert seen.tree == seen_now.tree
            assert in_order(seen.leaves) == in_order(seen_now.leaves)
            seen = replace(seen, now=seen_now.now)
            found = planners[tree].plan(seen)
            assert told(found, seen.tree) == told(plan(replace(seen_now, over_since=seen.over_since)), seen.tree)
            world.watching.over_since[tree] = found.over_since
        if world.perhaps():
            quotas = {one.tree for one in world.forest.quotas.values()}
            world.watching.keep(quotas | world.forest.roots.keys())


def a_quota(world: World, tree: str) -> None:
    world.specs["a/q"] = {"tree": tree, "min": {"cpu": 1}}
    world._store("a/q", {})


def test_one_that_was_elsewhere_for_a_moment_is_looked_at_where_it_is_back() -> None:
    world = World(random.Random(0))

    def look(tree: str) -> Mapping[str, Leaf]:
        looked = world.watching.look(tree, world.forest, clock=0.0, resting=())
        assert looked is not None
        return looked[1].leaves

    a_quota(world, "default")
    world.forest_changed()
    look("default")
    a_quota(world, "other")
    look("default")  # its account is seen before the forest is
    world.forest_changed()
    look("other")
    world.mirror.upsert(waiters.binding("web", 1, version=world.next(), stamp=Stamp(leaf="a/q")))
    a_quota(world, "default")
    world.forest_changed()
    assert [one.key.name for one in look("default")["a/q"].bindings] == ["web-deployment"]


def test_a_reservation_whose_end_was_seen_is_no_use() -> None:
    """It stands in the account until somebody writes that; whoever was displaced meanwhile has nothing."""
    world = World(random.Random(0))
    a_quota(world, "default")
    world.forest_changed()
    had = waiters.binding("web", 2, version=world.next(), stamp=Stamp(leaf="a/q"))
    reserved = Reservation("1", str(had.key), Claim(ONE * 2, leaf="a/q"), base=had.version)
    account = world.watching.accounts["a/q"]
    world.watching.written(replace(account, version=str(world.next()), reservations=(reserved,)))

    def used() -> Resources:
        looked = world.watching.look("default", world.forest, clock=0.0, resting=())
        assert looked is not None
        return looked[1].leaves["a/q"].used

    world.mirror.upsert(had)
    assert used()["cpu"] == ONE["cpu"] * 2, "the write that it is for may still come"
    world.mirror.upsert(replace(had, version=world.next(), is_held=True, is_suspended=True))
    assert used()["cpu"] == ONE["cpu"] * 0


def test_a_binding_of_a_quota_that_is_gone_concerns_whoever_looks_after_strays() -> None:
    world = World(random.Random(0))
    a_quota(world, "default")
    world.forest_changed()
    world.watching.look("default", world.forest, clock=0.0, resting=())
    stray = waiters.binding("web", 1, version=world.next(), is_held=True, stamp=Stamp(leaf="a/q"))
    assert world.watching.binding_changed(None, stray) == {"default"}
    world.mirrors[True].delete(world.watching.accounts["a/q"])
    del world.specs["a/q"]
    world.forest_changed()
    world.watching.look("default", world.forest, clock=0.0, resting=())
    assert world.watching.binding_changed(stray, stray) == {""}


def test_what_others_write_in_namespaces_of_no_system_group_concerns_no_tree() -> None:
    world = World(random.Random(0))
    other: Binding = waiters.binding("web", 1, version=11)
    assert world.watching.binding_changed(None, other) == set()
