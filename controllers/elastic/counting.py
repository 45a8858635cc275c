"""Which leaf the pods in the member clusters run for: counted a namespace at a time, whenever one has changed.

What runs is `federation_quota.elastic.running`'s; how members are seen is `controllers.members`'. Nothing is decided by
it, so that it may come a moment later than everything else.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic import running
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.running import InCluster, Running, Sight, Sorts
from federation_quota.forecast import binding_name
from federation_quota.pod import Workload


class Seen(Protocol):
    """What is seen in the member clusters."""

    def pods(self, namespace: str) -> Sorts:
        """By cluster the sorts of pods that a namespace has there."""

    def sights(self) -> list[Sight] | None:
        """How every member is seen; None as long as some are yet to be looked at for the first time."""


class Counting:
    """What runs of every leaf."""

    def __init__(self, members: Seen) -> None:
        self._members = members
        self._running = Running()
        self._uncounted: set[str] = set()  # namespaces in which other pods run than were counted, or for other leaves
        self._forest: Forest | None = None  # as it was counted for
        self._namespaces: set[str] = set()  # that have pods, whether or not these are under any leaf

    @property
    def is_done(self) -> bool:
        """Whether nothing has changed since."""
        return not self._uncounted

    def changed(self, namespaces: Iterable[str]) -> None:
        """The pods of these namespaces are others, or under another leaf."""
        self._uncounted.update(namespaces)

    def count(self, forest: Forest, bindings: Mapping[ObjectKey, Binding]) -> set[str]:
        """Count what has changed; the leaves of which other pods run."""
        if self._forest is None or _association(forest) != _association(self._forest):
            self._uncounted |= self._namespaces
        self._forest = forest
        namespaces, self._uncounted = self._uncounted, set()
        changed: set[str] = set()
        for namespace in namespaces:
            own = forest.directory.leaf_of(namespace, forest.namespaces.get(namespace, {})) or ""
            pods = self._members.pods(namespace)
            if any(pods.values()):
                self._namespaces.add(namespace)
            else:
                self._namespaces.discard(namespace)
            changed |= self._running.count(namespace, pods, partial(_leaf_of, bindings, namespace, own))
        return changed

    def of(self, leaf: str, status: Mapping[str, Any]) -> tuple[InCluster, ...] | None:
        """What runs of a leaf in each member, given what its status said; None where nobody has looked yet."""
        sights = self._members.sights()
        return None if sights is None else running.compile_figures(sights, self._running.of(leaf), running.read(status))


def _association(forest: Forest) -> object:
    """All that it depends on which leaf a namespace is under."""
    return forest.quotas, forest.roots, forest.namespaces


def _leaf_of(bindings: Mapping[ObjectKey, Binding], namespace: str, own: str, workload: Workload | None) -> str:
    """The leaf that pods of a workload are under: its binding's, or else the namespace's own."""
    binding = bindings.get(ObjectKey(namespace, binding_name(*workload))) if workload else None
    return own if binding is None or workload is None or binding.template.name != workload.name else binding.stamp.leaf
