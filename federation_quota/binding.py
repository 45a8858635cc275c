"""A ResourceBinding, reduced to what quota needs of it: the row of every view.

A view keeps a hundred thousand of these, so there is no spec and no status in them, only what was worked out of both
when the object was decoded, and equal vectors, stamps and shares are one object.

Never here: how the amounts come about (`charge`), bytes (`kube.codec`), accounts and reservations (the ledger).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from federation_quota.pending import Pending
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import NO_STAMP, Stamp


class ObjectKey(NamedTuple):
    """The name of a namespaced object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClusterShare(NamedTuple):
    """The replicas that a member cluster has, or had before it was evicted; 0 for what has no replicas."""

    name: str
    replicas: int
    components: tuple[tuple[str, int], ...] | None = None
    """How many of each component, where the binding says so for this cluster."""


class Component(NamedTuple):
    """One pod template of a workload that has several, and what one of its replicas asks for."""

    name: str
    replicas: int
    request: Resources


@dataclass(frozen=True, slots=True)
class TemplateRef:
    """The object that a binding propagates."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    version: int = 0

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a component knows of one ResourceBinding at one version."""

    key: ObjectKey
    uid: str
    version: int
    """The resourceVersion; 0 in a review of a creation, which has none yet."""
    template: TemplateRef
    demand: Resources = NOTHING
    assigned: Resources = NOTHING
    request: Resources = NOTHING
    """What one replica asks for; empty where there are components."""
    replicas: int = 0
    components: tuple[Component, ...] = ()
    clusters: tuple[ClusterShare, ...] = ()
    evicted: tuple[ClusterShare, ...] = ()
    """Where it is being evicted from: no longer in `clusters`, but perhaps still running there."""
    is_held: bool = False
    """Its scheduling is suspended, and by us."""
    is_suspended: bool = False
    """Its scheduling is suspended, by whomever."""
    is_deleting: bool = False
    is_preserved: bool = False
    """What it propagated stays in the members when it goes (`preserveResourcesOnDeletion`)."""
    is_preemptible: bool = True
    capacity: str = ""
    """Its label in an elastic tree: `in-quota` or `over-quota`."""
    stamp: Stamp = NO_STAMP
    scheduled_reason: str = ""
    """Why it is not scheduled, where Karmada's scheduler said so: `QuotaExceeded`, `NoClusterFit`."""
    pending: Pending | None = None
    """What a validator refused of it, and is to be asked about again."""
    said_pending: str = ""
    """What its condition says of that."""
    created: str = ""
    """The creationTimestamp as it is written: these sort by age."""
    fault: str = ""
    """Why the amounts are not known in full. They are then no more than a lower bound: an account that has such a
    binding does not know what it has used, and says so instead of admitting more."""

    @property
    def charge(self) -> Resources:
        """What it costs a KarmadaQuota, a user and a group.

        What is asked is reserved when it is asked, and what is assigned is paid for until it is gone. While a binding
        is held only the latter counts, which without clusters is nothing. Elastic leaves charge `assigned`.
        """
        return self.assigned if self.is_held else self.demand.maximum(self.assigned)

    def at_least(self, previous: "Binding") -> "Binding":
        """This binding, and where its amounts are not known in full, no cheaper than the same object was before.

        One of which nothing but its name could be read is taken for what it was, except that it counts as not held.
        """
        if previous.uid != self.uid or not (self.fault or self.stamp.fault):
            return self
        known = self
        if self.stamp.fault:
            # Nobody knows any more where it is charged: it stays where it was, and nothing is judged beside it.
            known = replace(self, stamp=replace(previous.stamp, fault=self.stamp.fault))
        if not self.fault:
            return known
        if not self.template.kind:
            known = replace(previous, version=self.version, fault=self.fault, is_held=False)
        return replace(
            known,
            demand=known.demand.maximum(previous.demand),
            assigned=known.assigned.maximum(previous.assigned),
        )
