"""What the leaves of a tree that shares by giving way may use now, and who gives way for it (`fairshare`).

Nothing is worked out there ahead of need: whoever has something keeps it, and whoever waits is granted what it asks
for, if its quota's max and the sum of all mins allow it. So what is published for a leaf is what it has and what it was
granted. For the first that finds no room, others give way where it has a right to that.

Whoever asks within its min comes first, then whoever asks within its part of what all leave idle, and then the others;
among these the most important, and within one quota always. So what is given up for somebody who has a right to it is
not taken by whoever gave it up, and while others give way, nobody gets anything who has no right to it.

Pure. Amounts are in steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from federation_quota.elastic import fairshare
from federation_quota.elastic.fairshare import Quota, Rights, Workload
from federation_quota.elastic.tree import Tree
from federation_quota.elastic.unit import Steps

_WITHIN_MIN: Final = 0
_WITHIN_PART: Final = 1
_BEYOND: Final = 2


@dataclass(frozen=True, slots=True)
class Grants:
    """What follows for everybody."""

    runtimes: dict[str, dict[str, int]]
    """What each leaf may use, of what it limits."""
    guaranteed: dict[str, dict[str, int]]
    """Its min, and its part of what all leave idle."""
    displaced: list[Workload]
    asking: Workload | None = None
    """For whom they are displaced."""


def grant(tree: Tree, used: Mapping[str, Steps], waiting: Iterable[Workload], running: Iterable[Workload]) -> Grants:
    """What each leaf may use, and who is displaced. `waiting` is who has yet to get something: its request is that."""
    quotas = {
        name: Quota(node.min, node.max or None, dict(used.get(name, {})))
        for name, node in tree.nodes.items()
        if not node.is_parent
    }
    there = list(running)
    rights = {name: _add(quota.min, fairshare.guaranteed(quotas, name)) for name, quota in quotas.items()}
    displaced: list[Workload] = []
    asking = None
    founded = Rights(quotas)
    left = sorted(waiting, key=lambda one: one.rank)
    for level in (_WITHIN_MIN, _WITHIN_PART, _BEYOND):
        later: list[Workload] = []
        behind: set[str] = set()  # quotas in which a more important one could go, and has yet to have its turn
        for one in left:
            if one.quota is None or one.quota not in quotas:
                continue
            has_room = fairshare.obstacle(quotas, one) is None and _fits(tree.total, quotas, one)
            if one.quota in behind or founded.claim(one, quotas[one.quota].used) > level:
                later.append(one)
                behind |= {one.quota} if has_room else set()
            elif has_room:
                quotas[one.quota] = replace(quotas[one.quota], used=_add(quotas[one.quota].used, one.request))
            elif asking is None:
                found = fairshare.choose(quotas, one, there, _free(tree.total, quotas))
                if found:
                    displaced, asking = found, one
        left = [] if asking is not None and level == _WITHIN_PART else later
    runtimes = {
        name: {resource: quotas[name].used.get(resource, 0) for resource in tree.nodes[name].resources}
        for name in quotas
    }
    return Grants(runtimes, rights, displaced, asking)


def base(tree: Tree) -> dict[str, int]:
    """What the leaves may use together: what they were promised, as far as it is there."""
    promised: dict[str, int] = {}
    for node in tree.nodes.values():
        if not node.is_parent:
            promised = _add(promised, node.min)
    return {resource: min(amount, tree.total.get(resource, 0)) for resource, amount in promised.items()}


def _fits(total: Steps, quotas: Mapping[str, Quota], one: Workload) -> bool:
    free = _free(total, quotas)
    return all(amount <= free[resource] for resource, amount in one.request.items() if resource in free and amount)


def _free(total: Steps, quotas: Mapping[str, Quota]) -> dict[str, int]:
    """What the members have left of what they are known to have."""
    left = dict(total)
    for quota in quotas.values():
        for resource, amount in quota.used.items():
            if resource in left:
                left[resource] -= amount
    return left


def _add(one: Steps, other: Steps) -> dict[str, int]:
    return {resource: one.get(resource, 0) + other.get(resource, 0) for resource in one.keys() | other.keys()}
