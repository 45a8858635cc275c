"""Who must give way when a leaf uses more than its runtime: the least important first, and nobody without need.

From the lowest priority up, of equals the youngest first, they are taken out until all that is limited fits. Then, from
the top, whoever still fits beside the rest is left where it is: a large one may have made room for several that were
taken before it. What is not preemptible, and what would not free anything, is never taken; where that is not enough,
everything goes that has any of what is over.

Pure. How long a leaf may be over is the caller's business.
"""

from collections.abc import Iterable

from federation_quota.elastic.occupant import Limit, Occupant, fits, grows_into
from federation_quota.resources import Resources


def choose(inside: Iterable[Occupant], used: Resources, runtime: Limit) -> list[Occupant]:
    """Who is to be displaced so that `used` fits into the runtime, the most important first; nobody if it does."""
    taken: list[Occupant] = []
    for one in sorted(inside, key=lambda one: one.rank, reverse=True):
        if fits(used, runtime):
            break
        if one.may_be_displaced and one.charge:
            used = used - one.charge
            taken.append(one)
    displaced: list[Occupant] = []
    for one in reversed(taken):
        if grows_into(used, used + one.charge, runtime):
            displaced.append(one)
        else:
            used = used + one.charge
    return displaced
