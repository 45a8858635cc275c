"""What is to be done in one leaf next, as far as what is published for it reaches.

- **Release** what waits. What was released and has no clusters yet, and growth that was refused, come before it: they
  take what they can have, and are woken where the scheduler has given up.
- **Displace** the least important of a leaf that has used more than its runtime for longer than the delay, or some that
  matter less than one that waits.
- **Label** what runs within its min, and what beyond.

Whatever does not fit is passed over and keeps nobody waiting, and so is what has to wait for a limit of its user or
group. Pure: the time comes from the caller.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from federation_quota.binding import Binding
from federation_quota.elastic import labelling, occupant, preemption, reclaim, release, unit
from federation_quota.elastic.forest import FAIR_SHARE
from federation_quota.elastic.occupant import Occupant
from federation_quota.elastic.release import Obstacle, Room
from federation_quota.elastic.situation import Leaf, Situation, wish
from federation_quota.resources import NOTHING, Resources

# Why Karmada's scheduler says that it could not write what it had decided: refused, or told to come again.
REFUSED: Final = frozenset({"QuotaExceeded", "SchedulerError"})
# How late it may be noticed that an ask has ended: runtimes fall that much later.
ASK_LOOK_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Displacement:
    """A binding that gives way, and why."""

    binding: Binding
    leaf: str
    reason: str


@dataclass(slots=True)
class Outlook:
    """What to do in one leaf."""

    releases: list[Binding] = field(default_factory=list)
    """In order."""
    wakes: list[Binding] = field(default_factory=list)
    """Released or running, refused, and with room now."""
    displacements: list[Displacement] = field(default_factory=list)
    labels: list[tuple[Binding, str]] = field(default_factory=list)
    """Who is to be labelled otherwise, and how."""
    hindered: dict[str, Obstacle] = field(default_factory=dict)
    """Who waits, and what stands in the way."""
    over_since: float | None = None
    """Since when it has been using more than its runtime."""
    next_look: float | None = None
    """When something is to be done by time alone."""
    has_resting: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether it stays as it is for as long as the leaf does, whatever the time."""
        is_done = not (self.releases or self.wakes or self.displacements or self.labels)
        return is_done and self.over_since is None and self.next_look is None and not self.has_resting


def look(
    seen: Situation, name: str, leaf: Leaf, *, is_rising: bool = False, displaced: Sequence[Displacement] = ()
) -> Outlook:
    """The outlook of one leaf, whose asks are those that count. `is_rising`: what is published for it is about to
    change. `displaced` are those of it that give way to somebody elsewhere."""
    found = Outlook(
        displacements=list(displaced),
        labels=list(_labels(seen, name, leaf)),
        has_resting=bool(seen.resting) and any(str(one.key) in seen.resting for one in leaf.bindings),
        next_look=seen.clock + ASK_LOOK_SECONDS if leaf.asks else None,
    )
    node, is_runtime = seen.tree.nodes[name], seen.root.mode != FAIR_SHARE
    inside = [occupant.occupying(one) for one in leaf.bindings if one.assigned and not one.is_deleting]
    room = Room(
        unit.quantities(leaf.published),
        unit.quantities(node.min),
        leaf.used,
        occupant.sum_of(one for one in inside if not one.is_preemptible),
    )
    # Nobody gives way to a reservation: it may end by itself, or show that somebody else is to give way.
    stored = replace(room, used=Resources.sum(one.assigned for one in leaf.bindings))
    if is_runtime:
        _reclaim(seen, name, leaf, inside, found)
    if found.displacements:
        return found  # what is freed is seen when it is free
    asked = {one.binding: one.charge for one in leaf.asks}
    by_name = {str(one.key): one for one in leaf.bindings if not one.is_deleting and str(one.key) not in seen.limited}
    for one in _in_order(unfinished(by_name.values(), asked)):
        if stored.obstacle(one) is None:
            stored = stored.take(one)
        if room.obstacle(one) is None:
            room = room.take(one)
            binding = by_name[one.name]
            if binding.scheduled_reason in REFUSED and one.name not in seen.resting:
                found.wakes.append(binding)
    held = list(waiting(by_name.values(), asked))
    released, found.hindered = release.choose((one for one in held if one.name not in seen.resting), room)
    found.releases = [by_name[one.name] for one in released]
    if is_runtime and not released and not is_rising:  # what is about to be raised may be enough
        _preempt(name, [one for one in held if one.name in found.hindered], inside, stored, by_name, found)
    return found


def waiting(bindings: Iterable[Binding], asked: Mapping[str, Resources]) -> Iterator[Occupant]:
    """What is held, with all that it is known to cost: of one that was displaced, every copy that it was refused."""
    for one in bindings:
        if one.is_held:
            found = occupant.waiting(one)
            yield replace(found, charge=found.charge.maximum(asked.get(found.name, NOTHING)))


def unfinished(bindings: Iterable[Binding], asked: Mapping[str, Resources]) -> Iterator[Occupant]:
    """What each that is not held has yet to get: all of it where it has no clusters, else what it was refused."""
    for one in bindings:
        if one.is_suspended:
            continue
        name, is_refused = str(one.key), one.scheduled_reason in REFUSED
        if not one.clusters and one.scheduled_reason and not is_refused:
            continue  # no cluster can take it: nothing is kept for it
        if one.clusters and not is_refused and name not in asked:
            continue
        wanted = wish(one).maximum(asked.get(name, NOTHING))
        yield replace(occupant.occupying(one), charge=wanted - one.assigned)


def _in_order(occupants: Iterable[Occupant]) -> list[Occupant]:
    return sorted(occupants, key=lambda one: one.rank)


def _reclaim(seen: Situation, name: str, leaf: Leaf, inside: list[Occupant], found: Outlook) -> None:
    limit = unit.quantities(leaf.published)
    charged = occupant.sum_of(inside)
    over = occupant.exceeded(charged, limit)
    if not over or not seen.root.reclaims:
        return
    found.over_since = seen.over_since.get(name, seen.clock)
    due = found.over_since + seen.root.reclaim_delay_seconds
    if due > seen.clock:
        found.next_look = due if found.next_look is None else min(found.next_look, due)
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
    held: Iterable[Occupant],
    inside: list[Occupant],
    room: Room,
    by_name: Mapping[str, Binding],
    found: Outlook,
) -> None:
    """Make room for the first that can have it this way; the others wait until that is seen."""
    for one in _in_order(held):
        displaced = preemption.choose(one, inside, room)
        if displaced:
            reason = f"makes room in quota {name} for {one.name}, which has a higher priority"
            found.displacements.extend(Displacement(by_name[each.name], name, reason) for each in displaced)
            return


def _labels(seen: Situation, name: str, leaf: Leaf) -> Iterator[tuple[Binding, str]]:
    running = {str(one.key): one for one in leaf.bindings if one.assigned and not one.is_deleting}
    minimum = unit.quantities(seen.tree.nodes[name].min)
    wanted = labelling.label((occupant.occupying(one) for one in running.values()), minimum)
    for key, label in wanted.items():
        if running[key].capacity != label:
            yield running[key], label
