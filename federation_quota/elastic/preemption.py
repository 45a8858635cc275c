"""Room for the important within one leaf: a waiting binding may displace those of its own leaf that matter less.

Priorities of different leaves come from different businesses and are never compared. Whoever is displaced has a
strictly lower priority, and what is used, less the displaced, plus what is asked, is within the runtime.

Pure. Across leaves, in trees that share fairly by giving way, see `fairshare`.
"""

from collections.abc import Iterable

from federation_quota.elastic.occupant import Occupant
from federation_quota.elastic.release import Room
from federation_quota.resources import Resources


def choose(asking: Occupant, inside: Iterable[Occupant], leaf: Room) -> list[Occupant] | None:
    """Who would give way, the most important last; None where that would not help. Empty where nobody has to.

    What the leaf has beyond its runtime stays to be reclaimed: where that is so of a resource that is asked for,
    it counts here too.
    """
    if leaf.obstacle(asking) is None:
        return []
    lesser = [one for one in inside if one.may_be_displaced and one.priority < asking.priority and one.charge]
    used = leaf.used
    for one in lesser:
        used = used - one.charge
    if _with_used(leaf, used).obstacle(asking) is not None:
        return None
    displaced: list[Occupant] = []
    for one in sorted(lesser, key=lambda one: one.rank):
        back = _with_used(leaf, used + one.charge)
        if back.obstacle(asking) is None:
            used = back.used
        else:
            displaced.append(one)
    return displaced[::-1]


def _with_used(leaf: Room, used: Resources) -> Room:
    return Room(leaf.runtime, leaf.min, used, leaf.used_for_good)
