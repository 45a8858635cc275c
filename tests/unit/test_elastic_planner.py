"""A planner that remembers: whatever happens between two plans, the next is the one that is made from scratch."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.binding import Binding, ClusterShare, ObjectKey, TemplateRef
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.forest import FAIR_SHARE, RUNTIME, Root
from federation_quota.elastic.plan import Plan, Planner, plan
from federation_quota.elastic.situation import Leaf, Situation
from federation_quota.elastic.tree import Tree
from federation_quota.quantity import Quantity
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import Stamp
from tests.unit.elastic_trees import Requests, trees

MILLI, WHOLE = 10**6, 10**9


def amounts(cpu: int, memory: int) -> Resources:
    return Resources({"cpu": Quantity(cpu * MILLI), "memory": Quantity(memory * WHOLE)})


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


@dataclass
class World:
    """A tree as a controller watches it, and what may happen to it, by chance."""

    chance: random.Random
    tree: Tree
    root: Root
    leaves: dict[str, Leaf] = field(default_factory=dict)
    resting: frozenset[str] = frozenset()
    over_since: dict[str, float] = field(default_factory=dict)
    second: int = 0
    touched: set[str] = field(default_factory=set)
    made: int = 0

    def __post_init__(self) -> None:
        for name in self.tree.leaves():
            self.put(name, Leaf(bindings=tuple(self.binding(name) for _ in range(self.chance.randrange(3)))))

    def seen(self) -> Situation:
        found = Situation(
            self.tree,
            self.leaves,
            self.root,
            at(self.second),
            float(self.second),
            self.over_since,
            self.resting,
            frozenset(self.touched),
        )
        self.touched = set()
        return found

    def put(self, name: str, leaf: Leaf) -> None:
        used = NOTHING
        for one in leaf.bindings:
            used = used + one.assigned
        self.leaves[name] = replace(leaf, used=used)
        self.touched.add(name)

    def happen(self) -> None:
        """One thing, of all that can."""
        name = self.chance.choice(self.tree.leaves())
        leaf = self.leaves.get(name, Leaf())
        what = self.chance.choice(["come", "come", "change", "go", "publish", "ask", "total", "time", "quota"])
        if what == "come":
            self.put(name, replace(leaf, bindings=(*leaf.bindings, self.binding(name))))
        elif what in ("change", "go") and leaf.bindings:
            one = self.chance.choice(leaf.bindings)
            others = tuple(other for other in leaf.bindings if other is not one)
            new = () if what == "go" else (self.binding(name, one.key),)
            self.put(name, replace(leaf, bindings=(*others, *new)))
        elif what == "publish":
            resources = self.chance.sample(self.tree.resources, self.chance.randint(1, len(self.tree.resources)))
            published = {resource: self.chance.randrange(60) for resource in resources}
            self.put(name, replace(leaf, published=published))
        elif what == "ask" and leaf.bindings:
            of = self.chance.choice(leaf.bindings)
            ask = Ask(str(of.key), amounts(self.chance.randrange(90), 0), at(self.second + self.chance.randrange(9)))
            self.put(name, replace(leaf, asks=(ask,)))
        elif what == "total":
            self.tree = replace(self.tree, total={key: self.chance.randrange(300) for key in self.tree.total})
        elif what == "time":
            self.second += self.chance.randrange(1, 9)
        elif what == "quota" and self.chance.random() < 0.3:
            self.leaves.pop(name, None)
            self.touched.add(name)

    def binding(self, leaf: str, key: ObjectKey | None = None) -> Binding:
        self.made += 1
        wants, memory, has = self.chance.randrange(60), self.chance.randrange(2), self.chance.choice([0, 0, 1, 2])
        key = key or ObjectKey("team", f"{leaf}-{self.made}")
        is_held = not has and self.chance.random() < 0.6
        return Binding(
            key,
            f"uid-{key.name}",
            self.made,
            TemplateRef("apps/v1", "Deployment", *key),
            demand=amounts(wants, memory),
            assigned=amounts(wants * has // 2, memory) if has else NOTHING,
            clusters=(ClusterShare("m1", has),) if has else (),
            is_held=is_held,
            is_suspended=is_held or self.chance.random() < 0.1,
            is_deleting=self.chance.random() < 0.1,
            is_preemptible=self.chance.random() < 0.8,
            scheduled_reason=self.chance.choice(["", "", "QuotaExceeded", "NoClusterFit"]),
            capacity=self.chance.choice(["", "in-quota", "over-quota"]),
            stamp=Stamp(priority=self.chance.randrange(3), leaf=leaf),
            created=at(self.chance.randrange(4)),
        )

    def carry_out(self, found: Plan) -> None:
        """Some of what was planned."""
        self.over_since = found.over_since
        for name, runtime in found.published.items():
            if self.chance.random() < 0.7:
                self.put(name, replace(self.leaves[name], published=runtime))
        for one, label in found.labels:
            if self.chance.random() < 0.7:
                self.replace(replace(one, capacity=label))
        moved = [*found.releases, *found.wakes, *(one.binding for one in found.displacements)]
        failed = [one for one in moved if self.chance.random() < 0.3]
        self.resting = frozenset(str(one.key) for one in failed)
        for one in moved:
            if one in failed:
                continue
            if one.is_held or one in found.wakes:
                given_all = replace(one, assigned=one.demand, clusters=(ClusterShare("m1", 1),), scheduled_reason="")
                self.replace(replace(given_all, is_held=False, is_suspended=False))
            else:
                self.replace(replace(one, is_held=True, is_suspended=True, assigned=NOTHING, clusters=()))

    def replace(self, new: Binding) -> None:
        leaf = self.leaves[new.stamp.leaf]
        others = tuple(other for other in leaf.bindings if other.key != new.key)
        self.put(new.stamp.leaf, replace(leaf, bindings=(*others, new)))


def told(found: Plan, tree: Tree) -> dict[str, object]:
    """All that a plan says, but for what is new since the last."""
    sums = {}
    for name in ("", *(name for name, node in tree.nodes.items() if node.is_parent)):
        below = found.sums.below(name)
        present = {resource: amount for resource, amount in below.ceilings.items() if amount}
        sums[name] = (present, below.used, below.held, below.running, below.unseen)
    fields = {name: value for name, value in vars(found).items() if name not in ("sums", "news")}
    return {**fields, "sums": sums, "next_look": found.next_look}


@given(trees(), st.sampled_from([RUNTIME, RUNTIME, RUNTIME, FAIR_SHARE]), st.booleans(), st.integers(0, 2**32))
def test_one_event_at_a_time_comes_to_the_same_plan_as_from_scratch(
    given_tree: tuple[Tree, Requests], mode: str, keeps_used: bool, seed: int
) -> None:
    tree, chance = replace(given_tree[0], keeps_used=keeps_used), random.Random(seed)
    world = World(chance, tree, Root(mode=mode, reclaim_delay_seconds=5))
    planner = Planner()
    known: Mapping[str, object] = {}
    for _ in range(20):
        for _ in range(chance.randrange(3)):
            world.happen()
        seen = world.seen()
        found, scratch = planner.plan(seen), plan(seen)
        assert told(found, world.tree) == told(scratch, world.tree)
        standings = dict(found.standings)
        others = {name for name in standings if known.get(name) != standings[name]}
        assert others <= found.news, "whoever stands otherwise is told of"
        known = standings
        if chance.random() < 0.6:
            world.carry_out(found)
