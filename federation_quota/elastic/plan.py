"""What is to be done in a tree next: one function from what is watched to what is to be written.

- **Publish**: lowerings alone as long as there are any, then raises (`publication`).
- **Release** what waits, as far as what is published reaches. What was released and has no clusters yet, and growth
  that was refused, come before it: they take what they can have, and are woken where the scheduler has given up.
- **Displace** the least important of a leaf that has used more than its runtime for longer than the delay, or some that
  matter less than one that waits.
- **Label** what runs within its min, and what beyond.

Whatever does not fit is passed over and keeps nobody waiting. Decided on what is stored alone, so that whoever carries
it out may stop anywhere, and whoever comes next goes on. The webhook judges every write again.

Pure: the time comes from the caller, and since when a leaf has been over, which is in no object, goes back to it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federation_quota.binding import Binding
from federation_quota.elastic import ask, labelling, occupant, preemption, publication, reclaim, release, unit
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.fairshare import Workload
from federation_quota.elastic.forest import FAIR_SHARE, Root
from federation_quota.elastic.grant import Grants, base, grant
from federation_quota.elastic.occupant import Occupant
from federation_quota.elastic.publication import Stored
from federation_quota.elastic.release import Obstacle, Room
from federation_quota.elastic.runtime import Runtimes, Standing
from federation_quota.elastic.tree import Tree
from federation_quota.elastic.unit import Steps
from federation_quota.resources import NOTHING, Resources

# Why Karmada's scheduler says that it could not write what it had decided: refused, or told to come again.
REFUSED: Final = frozenset({"QuotaExceeded", "SchedulerError"})
# How late it may be noticed that an ask has ended: runtimes fall that much later.
ASK_LOOK_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf as it is watched."""

    published: Steps = field(default_factory=dict)
    used: Resources = NOTHING
    """What is stored and reserved."""
    advanced: Resources = NOTHING
    """What replicas of the webhook may give out without asking anybody."""
    in_doubt: Steps = field(default_factory=dict)
    """What a write of which nothing was heard may have published, or may yet."""
    asks: tuple[Ask, ...] = ()
    bindings: tuple[Binding, ...] = ()
    """Every binding that is charged to it, or waits."""

    @property
    def stored(self) -> Stored:
        """What it may come to use, whoever writes what meanwhile."""
        taken = unit.asked(self.used + self.advanced)
        names = taken.keys() | self.in_doubt.keys()
        return Stored(self.published, {name: max(taken.get(name, 0), self.in_doubt.get(name, 0)) for name in names})


@dataclass(frozen=True, slots=True)
class Situation:
    """A tree as it is watched."""

    tree: Tree
    """With what there is to share."""
    leaves: Mapping[str, Leaf]
    """Every leaf of the tree."""
    root: Root = field(default_factory=Root)
    now: str = ""
    """The time, as asks have it."""
    clock: float = 0.0
    """The same in seconds, from wherever."""
    over_since: Mapping[str, float] = field(default_factory=dict)
    """Since when each leaf has been using more than its runtime, as the last plan found it."""
    resting: frozenset[str] = frozenset()
    """Bindings that were released or woken a moment ago, and to no avail: not again yet."""


@dataclass(frozen=True, slots=True)
class Displacement:
    """A binding that gives way, and why."""

    binding: Binding
    leaf: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What to write."""

    runtimes: dict[str, dict[str, int]]
    """What each quota should be able to use, parents too."""
    lowerings: dict[str, dict[str, int]]
    raises: dict[str, dict[str, int]]
    """Planned only where there is nothing to lower."""
    standings: dict[str, Standing]
    asks: dict[str, tuple[Ask, ...]]
    """The asks of each leaf that still count."""
    releases: list[Binding]
    """In order."""
    wakes: list[Binding]
    """Released or running, refused, and with room now."""
    displacements: list[Displacement]
    labels: list[tuple[Binding, str]]
    """Who is to be labelled otherwise, and how."""
    hindered: dict[str, Obstacle]
    """Who waits, and what stands in the way."""
    over_since: dict[str, float]
    next_look: float | None
    """When something is to be done by time alone, on the clock that was given."""

    @property
    def published(self) -> dict[str, dict[str, int]]:
        """What to publish now."""
        return self.lowerings or self.raises


def plan(seen: Situation) -> Plan:
    """What to do next."""
    open_asks = {name: _open_asks(leaf, seen.now) for name, leaf in seen.leaves.items()}
    seen = replace(seen, leaves={name: replace(leaf, asks=open_asks[name]) for name, leaf in seen.leaves.items()})
    known = {name: leaf for name, leaf in seen.leaves.items() if name in seen.tree.nodes}
    requests = {name: unit.asked(demand(leaf.bindings, leaf.asks)) for name, leaf in known.items()}
    used = {name: unit.asked(leaf.used) for name, leaf in known.items()}
    runtimes = Runtimes(seen.tree, requests, used)
    wanted, tree = runtimes.runtimes(), seen.tree
    standings = {name: runtimes.standing(name) for name in wanted}
    grants = None
    if seen.root.mode == FAIR_SHARE:
        grants = _grants(seen, used)
        tree = replace(tree, total=base(tree))
        wanted |= grants.runtimes
        standings |= {name: _granted(standings[name], grants, name, tree) for name in grants.runtimes if name in wanted}
    leaves = {name: wanted[name] for name in tree.leaves() if name in seen.leaves}
    stored = {name: leaf.stored for name, leaf in seen.leaves.items()}
    lowerings = publication.lowerings(leaves, stored)
    raises = {} if lowerings else publication.raises(tree, wanted, stored)
    found = Plan(
        runtimes=wanted,
        lowerings=lowerings,
        raises={name: amounts for name, amounts in raises.items() if name in seen.leaves},
        standings=standings,
        asks=open_asks,
        releases=[],
        wakes=[],
        displacements=[] if grants is None else list(_displacements(seen, grants)),
        labels=[],
        hindered={},
        over_since={},
        next_look=None,
    )
    looks = [seen.clock + ASK_LOOK_SECONDS] if any(open_asks.values()) else []
    for name in leaves:
        leaf = seen.leaves[name]
        # What it is about to lose is not given away any more.
        looks += _fill(seen, name, replace(leaf, published=lowerings.get(name, leaf.published)), found)
        _label(seen, name, leaf, found)
    return replace(found, next_look=min(looks, default=None))


def demand(bindings: Iterable[Binding], asks: Iterable[Ask]) -> Resources:
    """What a leaf is asked for: by what runs and waits, and by what was refused."""
    return ask.request({str(one.key): _wish(one) for one in bindings}, asks)


def _wish(binding: Binding) -> Resources:
    # What goes, or is kept back by somebody else, gets no more than it has.
    if binding.is_deleting or (binding.is_suspended and not binding.is_held):
        return binding.assigned
    return binding.demand.maximum(binding.assigned)


def _open_asks(leaf: Leaf, now: str) -> tuple[Ask, ...]:
    there = {str(one.key): one.assigned for one in leaf.bindings if not one.is_deleting}
    # New bindings are held, not refused: an ask without its binding is of one that is gone, and wants nothing more.
    return tuple(one for one in ask.open_asks(leaf.asks, there, now) if one.binding in there)


def _fill(seen: Situation, name: str, leaf: Leaf, found: Plan) -> Iterator[float]:
    """Releases, wakes and displacements of one leaf; when to look again."""
    node, is_runtime = seen.tree.nodes[name], seen.root.mode != FAIR_SHARE
    inside = [occupant.occupying(one) for one in leaf.bindings if one.assigned and not one.is_deleting]
    room = Room(
        unit.quantities(leaf.published),
        unit.quantities(node.min),
        leaf.used,
        occupant.sum_of(one for one in inside if not one.is_preemptible),
    )
    if is_runtime:
        yield from _reclaim(seen, name, leaf, inside, found)
    if any(one.leaf == name for one in found.displacements):
        return  # what is freed is seen when it is free
    asked = {one.binding: one.charge for one in leaf.asks}
    by_name = {str(one.key): one for one in leaf.bindings if not one.is_deleting}
    for one in _in_order(_unfinished(by_name.values(), asked)):
        if room.obstacle(one) is None:
            room = room.take(one)
            binding = by_name[one.name]
            if binding.scheduled_reason in REFUSED and one.name not in seen.resting:
                found.wakes.append(binding)
    waiting = list(_waiting(by_name.values(), asked))
    released, hindered = release.choose((one for one in waiting if one.name not in seen.resting), room)
    found.releases.extend(by_name[one.name] for one in released)
    found.hindered.update(hindered)
    if is_runtime and not released and name not in found.published:  # what is about to be raised may be enough
        _preempt(name, [one for one in waiting if one.name in hindered], inside, room, by_name, found)


def _waiting(bindings: Iterable[Binding], asked: Mapping[str, Resources]) -> Iterator[Occupant]:
    """What is held, with all that it is known to cost: of one that was displaced, every copy that it was refused."""
    for one in bindings:
        if one.is_held:
            found = occupant.waiting(one)
            yield replace(found, charge=found.charge.maximum(asked.get(found.name, NOTHING)))


def _unfinished(bindings: Iterable[Binding], asked: Mapping[str, Resources]) -> Iterator[Occupant]:
    """What each that is not held has yet to get: all of it where it has no clusters, else what it was refused."""
    for one in bindings:
        if one.is_suspended:
            continue
        name, is_refused = str(one.key), one.scheduled_reason in REFUSED
        if not one.clusters and one.scheduled_reason and not is_refused:
            continue  # no cluster can take it: nothing is kept for it
        if one.clusters and not is_refused and name not in asked:
            continue
        wish = _wish(one).maximum(asked.get(name, NOTHING))
        yield replace(occupant.occupying(one), charge=wish - one.assigned)


def _grants(seen: Situation, used: Mapping[str, Steps]) -> Grants:
    waiting: list[Workload] = []
    running: list[Workload] = []
    for name, leaf in seen.leaves.items():
        if name not in seen.tree.nodes:
            continue
        asked = {one.binding: one.charge for one in leaf.asks}
        there = [one for one in leaf.bindings if not one.is_deleting]
        held = (one for one in _waiting(there, asked) if one.name not in seen.resting)
        waiting += (_workload(one, name) for one in (*_unfinished(there, asked), *held))
        labels = labelling.label(
            (occupant.occupying(one) for one in there if one.assigned), unit.quantities(seen.tree.nodes[name].min)
        )
        running += (
            _workload(occupant.occupying(one), name, labels[str(one.key)]) for one in there if str(one.key) in labels
        )
    return grant(seen.tree, used, waiting, running)


def _workload(one: Occupant, leaf: str, label: str = "") -> Workload:
    return Workload(
        one.name,
        leaf,
        unit.asked(one.charge),
        one.priority,
        is_over_quota=label == labelling.OVER_QUOTA,
        created=one.created,
        may_be_displaced=one.may_be_displaced,
    )


def _granted(standing: Standing, grants: Grants, name: str, tree: Tree) -> Standing:
    runtime, least = grants.runtimes[name], tree.nodes[name].min
    return replace(
        standing,
        runtime=runtime,
        guaranteed=grants.guaranteed[name],
        borrowed={resource: max(amount - least.get(resource, 0), 0) for resource, amount in runtime.items()},
        lent={resource: max(least.get(resource, 0) - amount, 0) for resource, amount in runtime.items()},
    )


def _displacements(seen: Situation, grants: Grants) -> Iterator[Displacement]:
    if grants.asking is None:
        return
    by_name = {str(one.key): one for leaf in seen.leaves.values() for one in leaf.bindings}
    reason = f"makes room for {grants.asking.name} of quota {grants.asking.quota}, which has a right to it"
    for one in grants.displaced:
        yield Displacement(by_name[one.name], str(one.quota), reason)


def _in_order(occupants: Iterable[Occupant]) -> list[Occupant]:
    return sorted(occupants, key=lambda one: one.rank)


def _reclaim(seen: Situation, name: str, leaf: Leaf, inside: list[Occupant], found: Plan) -> Iterator[float]:
    limit = unit.quantities(leaf.published)
    charged = occupant.sum_of(inside)
    over = occupant.exceeded(charged, limit)
    if not over or not seen.root.reclaims:
        return
    since = found.over_since[name] = seen.over_since.get(name, seen.clock)
    due = since + seen.root.reclaim_delay_seconds
    if due > seen.clock:
        yield due
        return
    by_name = {str(one.key): one for one in leaf.bindings}
    reason = (
        f"quota {name} uses more {', '.join(over)} than it may: others want back what it borrowed, or there is less"
    )
    found.displacements.extend(
        Displacement(by_name[one.name], name, reason) for one in reclaim.choose(inside, charged, limit)
    )


def _preempt(
    name: str,
    waiting: Iterable[Occupant],
    inside: list[Occupant],
    room: Room,
    by_name: Mapping[str, Binding],
    found: Plan,
) -> None:
    """Make room for the first that can have it this way; the others wait until that is seen."""
    for one in _in_order(waiting):
        displaced = preemption.choose(one, inside, room)
        if displaced:
            reason = f"makes room in quota {name} for {one.name}, which has a higher priority"
            found.displacements.extend(Displacement(by_name[each.name], name, reason) for each in displaced)
            return


def _label(seen: Situation, name: str, leaf: Leaf, found: Plan) -> None:
    running = {str(one.key): one for one in leaf.bindings if one.assigned and not one.is_deleting}
    minimum = unit.quantities(seen.tree.nodes[name].min)
    wanted = labelling.label((occupant.occupying(one) for one in running.values()), minimum)
    for key, label in wanted.items():
        if running[key].capacity != label:
            found.labels.append((running[key], label))
