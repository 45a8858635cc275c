"""Which leaf a binding falls under: the one that its template names, else its namespace's, else the default group.

A template may name a quota that is for its namespace, or that is offered to it. A name that does not exist, or that is
of somebody else, is refused: to fall back silently would charge the wrong team.

Where stored quotas contradict each other, which validation does not let happen, the closest one has the namespace: its
own ElasticQuota, then one that lists it, then one that selects it; of several the first by name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from federation_quota.label_selector import LabelSelector

Labels = Mapping[str, str]


class AssociationError(ValueError):
    """A quota was named that cannot be had."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Namespaces: those listed, and those that a selector takes."""

    namespaces: frozenset[str] = frozenset()
    selector: LabelSelector | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is for no namespace, whatever comes."""
        return not self.namespaces and self.selector is None

    def covers(self, namespace: str, labels: Labels) -> bool:
        """Whether a namespace with these labels is among them."""
        return namespace in self.namespaces or (self.selector is not None and self.selector.matches(labels))


NOWHERE = Reach()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf, and for whom it is."""

    name: str
    """`namespace/name` of an ElasticQuota, the bare name of a CompositeElasticQuota."""
    own: Reach = NOWHERE
    """The namespaces whose workloads fall under it by themselves."""
    offered: Reach = NOWHERE
    """The namespaces whose workloads may choose it by name."""

    @property
    def namespace(self) -> str:
        """The namespace that it is in; empty for one over several."""
        return self.name.rpartition("/")[0]

    @property
    def is_for_nobody(self) -> bool:
        """Whether no namespace could have it or choose it; only a tree's default group is a leaf all the same."""
        return not self.namespace and self.own.is_empty and self.offered.is_empty

    def closeness(self, namespace: str, labels: Labels) -> int | None:
        """How directly a namespace is its own: the smallest is the closest. None where it is not."""
        if self.namespace:
            return 0 if self.namespace == namespace else None
        if namespace in self.own.namespaces:
            return 1
        return 2 if self.own.covers(namespace, labels) else None

    def admits(self, namespace: str, labels: Labels) -> bool:
        """Whether workloads of a namespace may be charged to it."""
        return self.closeness(namespace, labels) is not None or self.offered.covers(namespace, labels)


@dataclass(frozen=True)
class Directory:
    """All leaves, found by namespace and by name."""

    leaves: Mapping[str, Leaf] = field(default_factory=dict)
    default_group: str | None = None
    """The leaf of what falls under no other; None where that is charged to none."""
    system: tuple[Reach, ...] = ()
    """The namespaces that no quota binds, whatever they say."""

    @classmethod
    def of(cls, leaves: Iterable[Leaf], default_group: str | None = None, system: Iterable[Reach] = ()) -> "Directory":
        """A directory of these."""
        return cls({leaf.name: leaf for leaf in leaves}, default_group, tuple(system))

    def leaf_of(self, namespace: str, labels: Labels, quota_name: str | None = None) -> str | None:
        """The leaf that a workload is charged to; None for none. AssociationError where it names one it cannot have."""
        if any(reach.covers(namespace, labels) for reach in self.system):
            return None
        if quota_name:
            return self._named(quota_name, namespace, labels)
        # Every new binding asks: of ten thousand leaves only those are looked at that could be meant.
        closest = [
            (closeness, leaf.name)
            for leaf in (*self._listing.get(namespace, ()), *self._selecting)
            if (closeness := leaf.closeness(namespace, labels)) is not None
        ]
        return min(closest)[1] if closest else self.default_group

    def is_astray(self, namespace: str, labels: Labels, name: str) -> bool:
        """Whether what is under that leaf, empty for none, may fall under another: by now that one is gone, or no
        longer for the namespace, or the namespace has come under one of its own."""
        leaf = self.leaves.get(name)
        if leaf is not None and leaf.admits(namespace, labels):
            return any(reach.covers(namespace, labels) for reach in self.system)
        return self.leaf_of(namespace, labels) != (name or None)

    @cached_property
    def _listing(self) -> dict[str, list[Leaf]]:
        found: dict[str, list[Leaf]] = {}
        for leaf in self.leaves.values():
            for namespace in {leaf.namespace} if leaf.namespace else leaf.own.namespaces:
                found.setdefault(namespace, []).append(leaf)
        return found

    @cached_property
    def _selecting(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves.values() if leaf.own.selector is not None]

    def _named(self, quota_name: str, namespace: str, labels: Labels) -> str:
        candidates = [
            leaf
            for leaf in (self.leaves.get(f"{namespace}/{quota_name}"), self.leaves.get(quota_name))
            if leaf is not None
        ]
        for leaf in candidates:
            if leaf.admits(namespace, labels) or leaf.name == self.default_group:
                return leaf.name
        if candidates:
            raise AssociationError(
                f"the quota {quota_name} is not for namespace {namespace}: name one that is, or have its owner offer it"
            )
        raise AssociationError(
            f"there is no quota {quota_name} that workloads of namespace {namespace} could be charged to: "
            "take the label off to be charged to the namespace's own"
        )
