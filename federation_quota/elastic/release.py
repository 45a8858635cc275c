"""Which of the waiting bindings of a leaf may go now: by priority, then by age, as far as the runtime reaches.

What is not preemptible could never be taken back, so it may only use what is the leaf's own: together no more than its
min, as it was set. One that does not fit is passed over; what comes after it and fits is not kept waiting.

Pure. The webhook judges again when the release is written: room that was there a moment ago is no promise.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from federation_quota.elastic.occupant import Limit, Occupant, grows_into, sum_of
from federation_quota.resources import NOTHING, Resources

RUNTIME = "runtime"
MIN = "min"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why one does not fit: which limit, and what of it."""

    limit: str
    """`runtime`, or `min` for what is not preemptible."""
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """A leaf as it stands."""

    runtime: Limit
    min: Limit = field(default_factory=dict)
    """As it was set, not as it is scaled."""
    used: Resources = NOTHING
    """All that is charged to it, reservations included."""
    used_for_good: Resources = NOTHING
    """What of it is not preemptible."""

    def obstacle(self, one: Occupant) -> Obstacle | None:
        """What stands in the way of one more; None if it fits."""
        over = grows_into(self.used, self.used + one.charge, self.runtime)
        if over:
            return Obstacle(RUNTIME, tuple(over))
        if not one.is_preemptible:
            over = grows_into(self.used_for_good, self.used_for_good + one.charge, self.min)
            if over:
                return Obstacle(MIN, tuple(over))
        return None

    def take(self, one: Occupant) -> "Room":
        """The same with one more in it."""
        for_good = self.used_for_good if one.is_preemptible else self.used_for_good + one.charge
        return Room(self.runtime, self.min, self.used + one.charge, for_good)


def room(runtime: Limit, minimum: Limit, inside: Iterable[Occupant]) -> Room:
    """A leaf with these in it."""
    present = list(inside)
    return Room(runtime, minimum, sum_of(present), sum_of(one for one in present if not one.is_preemptible))


def choose(waiting: Iterable[Occupant], leaf: Room) -> tuple[list[Occupant], dict[str, Obstacle]]:
    """Who may go, in order; and of everybody else, by name, what stands in the way."""
    released: list[Occupant] = []
    hindered: dict[str, Obstacle] = {}
    for one in sorted(waiting, key=lambda one: one.rank):
        obstacle = leaf.obstacle(one)
        if obstacle is None:
            released.append(one)
            leaf = leaf.take(one)
        else:
            hindered[one.name] = obstacle
    return released, hindered
