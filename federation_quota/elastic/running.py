"""What runs of each leaf in the member clusters, beside what was admitted.

A pod counts for the leaf of the binding that it was made for; one that no binding accounts for, for the leaf that its
namespace falls under by itself. Only pods that run count: what was admitted and has yet to start, or cannot, is seen in
the difference. What was seen in a member that is out of reach stands; what was never seen is not said to be nothing.

Nothing is decided by these figures. Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from federation_quota.bounds import MOST_CLUSTERS
from federation_quota.elastic import unit
from federation_quota.pod import Footprint, Workload
from federation_quota.quantity import QuantityError
from federation_quota.resources import NOTHING, Resources

Sorts = Mapping[str, Mapping[Footprint, int]]
"""By cluster the sorts of pods that a namespace has there, and how many of each."""


@dataclass(frozen=True, slots=True)
class Sight:
    """How one member cluster is seen."""

    name: str
    is_seen: bool = True
    """Whether its pods were ever listed by whoever looks."""
    problem: str = ""
    """Why it is out of reach; empty where it is not, or where the first look has yet to end."""
    last_seen: str = ""


@dataclass(frozen=True, slots=True)
class InCluster:
    """What runs of a leaf in one member cluster."""

    name: str
    amounts: Resources
    is_stale: bool = False
    last_seen: str = ""
    """Said of what is stale."""


class Running:
    """What runs, by leaf and cluster: counted a namespace at a time."""

    def __init__(self) -> None:
        self._counted: dict[str, dict[str, dict[str, Resources]]] = {}  # by namespace, leaf and cluster
        self._namespaces: dict[str, set[str]] = {}  # by leaf, where it has any

    def count(self, namespace: str, sorts: Sorts, leaf_of: Callable[[Workload | None], str]) -> set[str]:
        """Count a namespace anew, told which leaf a workload of it is under; the leaves for which that is another."""
        found: dict[str, dict[str, Resources]] = {}
        for cluster, pods in sorts.items():
            for sort, count in pods.items():
                if sort.is_running and (leaf := leaf_of(sort.workload)):
                    here = found.setdefault(leaf, {})
                    here[cluster] = here.get(cluster, NOTHING) + sort.usage * count
        before = self._counted.pop(namespace, {})
        if found:
            self._counted[namespace] = found
        for leaf in before.keys() - found.keys():
            self._namespaces[leaf].discard(namespace)
            if not self._namespaces[leaf]:
                del self._namespaces[leaf]
        for leaf in found.keys() - before.keys():
            self._namespaces.setdefault(leaf, set()).add(namespace)
        return {leaf for leaf in before.keys() | found.keys() if before.get(leaf) != found.get(leaf)}

    def of(self, leaf: str) -> dict[str, Resources]:
        """What runs of a leaf in each cluster."""
        found: dict[str, Resources] = {}
        for namespace in self._namespaces.get(leaf, ()):
            for cluster, amounts in self._counted[namespace][leaf].items():
                found[cluster] = found.get(cluster, NOTHING) + amounts
        return found


def compile_figures(
    sights: Iterable[Sight], running: Mapping[str, Resources], before: Mapping[str, InCluster]
) -> tuple[InCluster, ...]:
    """What is known of a leaf in every member, by name. `before` is what was said of it: of a member that was not seen
    since this process began, all that is known."""
    found = []
    for sight in sights:
        if sight.is_seen:
            stale_since = sight.last_seen if sight.problem else ""
            one = InCluster(sight.name, running.get(sight.name, NOTHING), bool(sight.problem), stale_since)
        elif sight.name in before:
            known = before[sight.name]
            one = replace(known, is_stale=known.is_stale or bool(sight.problem))
        else:
            continue
        if one.amounts:
            found.append(one)
    return tuple(sorted(found, key=lambda one: one.name)[:MOST_CLUSTERS])


def total(figures: Iterable[InCluster]) -> Resources:
    """What runs in all of them together."""
    return Resources.sum(one.amounts for one in figures)


def read(status: Mapping[str, Any]) -> dict[str, InCluster]:
    """What a status says of each member; what cannot be read is left out."""
    found = {}
    for one in status.get("clusters") or ():
        try:
            amounts = Resources.parse(one["running"])
            found[one["name"]] = InCluster(one["name"], amounts, bool(one.get("stale")), one.get("lastSeen") or "")
        except (KeyError, TypeError, AttributeError, QuantityError):
            continue
    return found


def write(figures: Sequence[InCluster], names: Iterable[str]) -> list[dict[str, Any]]:
    """The same as a status has it: of these resources."""
    limited = list(names)
    written = []
    for one in figures:
        amounts = unit.asked({name: one.amounts[name] for name in limited})
        if not any(amounts.values()):
            continue
        entry: dict[str, Any] = {"name": one.name, "running": unit.to_json(amounts)}
        if one.is_stale:
            entry |= {"stale": True, "lastSeen": one.last_seen} if one.last_seen else {"stale": True}
        written.append(entry)
    return written
