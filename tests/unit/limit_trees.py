"""Trees with limits, and workloads in them, for properties."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.limit import WILDCARD, Limit
from federation_quota.quantity import Quantity, parse
from federation_quota.stamp import Owner

USERS = ("ann", "bob", "cid")
GROUPS = ("dev", "ops", "test")
RESOURCES = ("cpu", "memory")
PARENTS = {"research": ROOT, "vision": "research", "speech": "research", "shop": ROOT}
LEAVES = ("vision", "speech", "shop")
PATHS = {"vision": "root.research.vision", "speech": "root.research.speech", "shop": "root.shop"}

OWNERS = st.builds(Owner, st.sampled_from(USERS), st.lists(st.sampled_from(GROUPS), unique=True, max_size=2).map(tuple))
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9).map(parse))


@st.composite
def node_limits(draw: st.DrawFn, kinds: tuple[str, ...] = ("users", "groups")) -> tuple[Limit, ...]:
    """The limits of one node as validation would let them be: everybody once, a wildcard last, and never alone."""
    found: list[Limit] = []
    for kind, names in (("users", USERS), ("groups", GROUPS)):
        if kind not in kinds:
            continue
        listed = draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
        if draw(st.booleans()) and (listed or kind == "users"):
            listed.append(WILDCARD)
        for name in listed:
            count = draw(st.integers(1, 4) | st.none())
            resources = draw(AMOUNTS)
            if count or any(not one.is_zero for one in resources.values()):
                users, groups = ((name,), ()) if kind == "users" else ((), (name,))
                found.append(Limit(users, groups, resources, count))
    wild = [one for one in found if one.groups == (WILDCARD,)]
    is_alone = bool(wild) and not any(one.groups for one in found if one not in wild)
    return tuple(one for one in found if not (is_alone and one in wild))


@st.composite
def levels(draw: st.DrawFn, kinds: tuple[str, ...] = ("users", "groups")) -> dict[str, Level]:
    """A tree of three levels; what stands on one may be more than what stands above it."""
    found = {ROOT: Level(ROOT, limits=draw(node_limits(kinds)))}
    for name, parent in PARENTS.items():
        found[name] = Level(name, parent, draw(node_limits(kinds)))
    return found


@dataclass(frozen=True)
class Workload:
    """Something that runs, or wants to."""

    name: str
    leaf: str
    owner: Owner


@st.composite
def workloads(draw: st.DrawFn) -> list[Workload]:
    """A few of them."""
    count = draw(st.integers(1, 5))
    return [Workload(f"app-{number}", draw(st.sampled_from(LEAVES)), draw(OWNERS)) for number in range(count)]


STEPS = st.lists(st.tuples(st.integers(0, 4), AMOUNTS | st.none()), max_size=12)
"""Which workload, and what it wants to have from now on; None: it goes."""


def config(found: dict[str, Level]) -> dict[str, Any]:
    """The same tree as the conformance tests have it, in YuniKorn's vocabulary."""

    def queue(name: str, shown: str) -> dict[str, Any]:
        below = [queue(one, one) for one in PARENTS if PARENTS[one] == name and one in found]
        return {"name": shown, "limits": [_entry(one) for one in found[name].limits], "queues": below}

    return queue(ROOT, "root")


def _entry(limit: Limit) -> dict[str, Any]:
    resources: dict[str, Quantity] = dict(limit.resources)
    return {
        "users": list(limit.users),
        "groups": list(limit.groups),
        "maxresources": {name: str(amount) for name, amount in resources.items()},
        "maxapplications": limit.applications,
    }
