"""What stands between a workload and its leaf, told before Karmada has bound it: the word before the deed, for trees.

A leaf's runtime follows what it is asked for, so that what is published now says little of what it could have. It is
worked out with this workload in it, by the very code that decides (`runtime`), and only where nothing simpler answers:
what fits now fits, and what is within its min is granted.

Pure: an estimate, which binds nobody. What waits beside it, and comes first or does not, is left out of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from federation_quota import resource_name
from federation_quota.elastic import unit
from federation_quota.elastic.forest import FAIR_SHARE, Forest
from federation_quota.elastic.grant import base
from federation_quota.elastic.quota import Quota
from federation_quota.elastic.runtime import Runtimes
from federation_quota.elastic.unit import Steps
from federation_quota.resources import NOTHING, Resources

MAX: Final = "max"
RUNTIME: Final = "runtime"
MIN: Final = "min"
ADMISSION: Final = "admission"


@dataclass(frozen=True, slots=True)
class Wish:
    """A workload, and what the leaf has for it already."""

    wanted: Resources
    own: Resources = NOTHING
    """What it was given."""
    asked: Resources = NOTHING
    """What it asks for already, as the leaf knows it."""
    is_preemptible: bool = True


@dataclass(frozen=True, slots=True)
class Room:
    """A leaf, and all that is in it."""

    quota: Quota
    published: Steps
    request: Steps
    """What it is asked for, waiting workloads included."""
    used: Resources
    used_for_good: Resources = NOTHING
    """What of it is not preemptible."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One thing that a leaf has too little of, in steps."""

    resource: str
    limit: str
    """Which of its limits it is."""
    asked: int
    """How much more than the workload has."""
    used: int
    most: int
    is_hopeless: bool = False
    """It would not fit even if nothing else were there."""


def shortages(room: Room, wish: Wish, expected: Callable[[Steps], Steps]) -> list[Shortage]:
    """What there is too little of. `expected` is what the leaf may use, once it is asked for so much."""
    node, used, own = room.quota.node, unit.asked(room.used), unit.asked(wish.own)
    wanted, asked = unit.asked(wish.wanted), unit.asked(wish.asked)
    request = {name: room.request.get(name, 0) - asked.get(name, 0) + wanted.get(name, 0) for name in node.resources}
    found: list[Shortage] = []
    for name in sorted(node.resources):
        amount, has = wanted.get(name, 0), own.get(name, 0)
        taken = used.get(name, 0)
        after = taken - has + amount
        if amount <= has:
            continue
        most, published = node.max.get(name), room.published.get(name, 0)
        if most is not None and after > most:
            found.append(Shortage(name, MAX, amount - has, taken, most, amount > most))
        elif after > published and request[name] > node.min.get(name, 0):
            runtime = expected(request).get(name, 0)
            if after > runtime:
                found.append(Shortage(name, RUNTIME, amount - has, taken, runtime))
    return found or _for_good(room, wish)


def refusals(quota: Quota, wish: Wish, used: Resources) -> list[Shortage]:
    """Of what more would be asked than the quota takes in: it is not made to wait. `used` is as its books have it."""
    found = []
    for name, most in sorted((quota.admission or {}).items()):
        wanted, asked, known = (
            unit.asked({name: amount})[name]
            for amount in (wish.wanted[name], wish.asked[name], used[f"{resource_name.ADMISSION}{name}"])
        )
        if wanted > asked and known - asked + wanted > most:
            found.append(Shortage(name, ADMISSION, wanted - asked, known, most, wanted > most))
    return found


def _for_good(room: Room, wish: Wish) -> list[Shortage]:
    """What is not preemptible has only the min, as it was set."""
    if wish.is_preemptible:
        return []
    wanted, own, used = unit.asked(wish.wanted), unit.asked(wish.own), unit.asked(room.used_for_good)
    found = []
    for name, most in sorted(room.quota.node.min.items()):
        amount, has, taken = wanted.get(name, 0), own.get(name, 0), used.get(name, 0)
        if amount > has and taken - has + amount > most:
            found.append(Shortage(name, MIN, amount - has, taken, most, amount > most))
    return found


def expected(forest: Forest, leaf: str, request: Steps, system_use: Resources = NOTHING) -> Mapping[str, int]:
    """What a leaf may use once it is asked for that much, and nothing else changes."""
    quota = forest.quotas[leaf]
    tree = forest.tree(quota.tree, forest.total(quota.tree, forest.holding(quota.tree).allocatable, system_use))
    quotas = {name: forest.quotas[name] for name in tree.leaves()}
    root = forest.root(quota.tree)
    if root is not None and root.mode == FAIR_SHARE:
        left = base(tree)
        for one in quotas.values():
            left = {name: amount - one.used.get(name, 0) for name, amount in left.items()}
        return {name: quota.used.get(name, 0) + max(left.get(name, 0), 0) for name in quota.node.resources}
    requests = {name: one.request for name, one in quotas.items()}
    used = {name: one.used for name, one in quotas.items()}
    return Runtimes(tree, {**requests, leaf: request}, used).runtime(leaf)
