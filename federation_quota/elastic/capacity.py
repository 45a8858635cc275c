"""What each tree has: the allocatable of the member clusters that are its own.

Each cluster belongs to one tree: to the first, by name, whose selector takes it, and to the default tree where none
does. So no cluster is promised twice. A member that is not Ready adds nothing: its mins shrink with everybody's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from federation_quota.elastic.tree import DEFAULT
from federation_quota.label_selector import LabelSelector
from federation_quota.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Cluster:
    """A member cluster, as far as it has anything to share."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Resources = NOTHING
    is_ready: bool = True


@dataclass(frozen=True, slots=True)
class Claim:
    """Which clusters a tree wants."""

    tree: str
    selector: LabelSelector | None = None
    """None for whatever nobody else has, which the default tree alone may want."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a tree has."""

    clusters: tuple[str, ...] = ()
    """Its clusters, by name; those that are not ready among them."""
    absent: tuple[str, ...] = ()
    """Those of them that are not ready."""
    contested: Mapping[str, str] = field(default_factory=dict)
    """Clusters that its selector takes too, and the tree that has each."""
    allocatable: Resources = NOTHING
    """What those that are ready have together."""


def share_out(claims: Iterable[Claim], clusters: Iterable[Cluster]) -> dict[str, Holding]:
    """What each tree has, by name."""
    wanted = sorted(claims, key=lambda claim: claim.tree)
    # The default tree without a selector comes last: it has what nobody else wants.
    choosy = [claim for claim in wanted if claim.selector is not None]
    rest = next((claim.tree for claim in wanted if claim.selector is None and claim.tree == DEFAULT), None)
    own: dict[str, list[Cluster]] = {claim.tree: [] for claim in wanted}
    contested: dict[str, dict[str, str]] = {claim.tree: {} for claim in wanted}
    for cluster in sorted(clusters, key=lambda cluster: cluster.name):
        takers = [claim.tree for claim in choosy if claim.selector and claim.selector.matches(cluster.labels)]
        owner = takers[0] if takers else rest
        if owner is None:
            continue
        own[owner].append(cluster)
        for other in takers[1:]:
            contested[other][cluster.name] = owner
    return {tree: _holding(found, contested[tree]) for tree, found in own.items()}


def _holding(clusters: list[Cluster], contested: Mapping[str, str]) -> Holding:
    allocatable = NOTHING
    for cluster in clusters:
        if cluster.is_ready:
            allocatable = allocatable + cluster.allocatable
    names = tuple(cluster.name for cluster in clusters)
    absent = tuple(cluster.name for cluster in clusters if not cluster.is_ready)
    return Holding(names, absent, contested, allocatable)
