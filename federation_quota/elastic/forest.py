"""All quotas and all trees at one moment: what one more, one less, or a change of one is judged beside.

Translation and look-up only; the rules are `topology`'s.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from federation_quota.elastic import quota as quotas
from federation_quota.elastic import unit
from federation_quota.elastic.association import NOWHERE, Directory, Reach
from federation_quota.elastic.capacity import Claim, Cluster, Holding, share_out
from federation_quota.elastic.node import Node
from federation_quota.elastic.quota import Quota
from federation_quota.elastic.tree import DEFAULT, Tree
from federation_quota.elastic.unit import Steps
from federation_quota.label_selector import LabelSelector
from federation_quota.limits import hierarchy as limits
from federation_quota.limits import limit
from federation_quota.limits.hierarchy import Level
from federation_quota.limits.limit import Limit
from federation_quota.quantity import parse
from federation_quota.resource_name import canonical
from federation_quota.resources import Resources

RUNTIME: Final = "Runtime"
FAIR_SHARE: Final = "FairShare"
RECLAIM_DELAY_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Root:
    """A QuotaTree: which clusters it has, and how they are shared."""

    name: str = DEFAULT
    mode: str = RUNTIME
    clusters: LabelSelector | None = None
    fixed: Resources | None = None
    """What there is to share where that is set; otherwise what the clusters have."""
    scales_min: bool = True
    keeps_used: bool = False
    reclaims: bool = True
    reclaim_delay_seconds: int = RECLAIM_DELAY_SECONDS
    system: Reach = NOWHERE
    default_group: str | None = None
    limits: tuple[Limit, ...] = ()
    """What users and groups may have of the whole tree."""

    @property
    def claim(self) -> Claim:
        """The clusters that it wants."""
        return Claim(self.name, self.clusters)


def read_root(stored: Mapping[str, Any]) -> Root:
    """The root that a stored QuotaTree describes."""
    spec = stored.get("spec") or {}
    selector, total, reclaim = spec.get("clusterSelector"), spec.get("total"), spec.get("reclaim") or {}
    return Root(
        name=stored["metadata"]["name"],
        mode=spec.get("mode") or RUNTIME,
        clusters=None if selector is None else LabelSelector.read(selector),
        fixed=None if total is None else Resources({name: parse(amount) for name, amount in total.items()}),
        scales_min=spec.get("scaleMin", True) is not False,
        keeps_used=spec.get("keepUsed") is True,
        reclaims=reclaim.get("enabled", True) is not False,
        reclaim_delay_seconds=reclaim.get("delaySeconds", RECLAIM_DELAY_SECONDS),
        system=quotas.reach(spec.get("systemGroup") or {}),
        default_group=spec.get("defaultGroup") or None,
        limits=limit.read(spec),
    )


@dataclass(frozen=True)
class Forest:
    """Everything that is stored."""

    quotas: Mapping[str, Quota] = field(default_factory=dict)
    roots: Mapping[str, Root] = field(default_factory=dict)
    """The trees that were made; the default one exists without."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of every namespace."""
    clusters: tuple[Cluster, ...] = ()

    @classmethod
    def of(
        cls,
        found: Iterable[Quota] = (),
        roots: Iterable[Root] = (),
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        clusters: Iterable[Cluster] = (),
    ) -> "Forest":
        """A forest of these."""
        by_name = {one.name: one for one in found}
        return cls(by_name, {root.name: root for root in roots}, namespaces or {}, tuple(clusters))

    def root(self, name: str) -> Root | None:
        """A tree's root; None where there is no such tree."""
        return self.roots.get(name) or (Root() if name == DEFAULT else None)

    def with_quota(self, new: Quota) -> "Forest":
        """The same with one more quota, or another in its place."""
        return replace(self, quotas={**self.quotas, new.name: new})

    def children(self, name: str) -> list[Quota]:
        """The quotas below a parent, by name."""
        return self._children.get(name, [])

    def in_tree(self, name: str) -> list[Quota]:
        """The quotas of a tree, by name."""
        return [one for _, one in sorted(self.quotas.items()) if one.tree == name]

    def quotas_of(self, namespace: str, labels: Mapping[str, str]) -> list[Quota]:
        """The quotas that a namespace is of by itself, by name: one, if all is well."""
        selecting = (one for one in self._selecting if one.own.covers(namespace, labels))
        found = {one.name: one for one in (*self._listing.get(namespace, ()), *selecting)}
        return [found[name] for name in sorted(found)]

    @cached_property
    def _children(self) -> dict[str, list[Quota]]:
        found: dict[str, list[Quota]] = {}
        for name in sorted(self.quotas):
            found.setdefault(self.quotas[name].node.parent, []).append(self.quotas[name])
        return found

    @cached_property
    def _listing(self) -> dict[str, list[Quota]]:
        found: dict[str, list[Quota]] = {}
        for one in self.quotas.values():
            for namespace in one.own.namespaces:
                found.setdefault(namespace, []).append(one)
        return found

    @cached_property
    def _selecting(self) -> list[Quota]:
        return [one for one in self.quotas.values() if one.own.selector is not None]

    def ancestors(self, new: Quota) -> list[Quota]:
        """The parents above a quota, the nearest first; it ends where one is missing or comes again."""
        found: list[Quota] = []
        parent = new.node.parent
        while parent in self.quotas and parent != new.name and all(one.name != parent for one in found):
            found.append(self.quotas[parent])
            parent = self.quotas[parent].node.parent
        return found

    def tree(self, name: str, total: Steps) -> Tree:
        """One tree with what it has to share."""
        root = self.root(name) or Root(name)
        nodes: dict[str, Node] = {key: one.node for key, one in self.quotas.items() if one.tree == name}
        return Tree(nodes, total, name, scales_min=root.scales_min, keeps_used=root.keeps_used)

    def holding(self, name: str) -> Holding:
        """The clusters that a tree has."""
        roots = {DEFAULT: Root(), **self.roots}
        return share_out((one.claim for one in roots.values()), self.clusters).get(name, Holding())

    def levels(self, name: str) -> dict[str, Level]:
        """What the nodes of a tree say of limits, the root among them."""
        root = self.root(name) or Root(name)
        most = {canonical(one): amount for one, amount in (root.fixed or {}).items()}
        found = {limits.ROOT: Level(limits.ROOT, limits=root.limits, most=most)}
        for key, one in self.quotas.items():
            if one.tree == name:
                found[key] = Level(key, one.node.parent, one.limits, unit.quantities(one.node.max))
        return found

    def total(self, name: str, allocatable: Resources, system_use: Resources) -> dict[str, int]:
        """What a tree has to share, in steps: what was fixed for it, else what its clusters have, less the system's."""
        root = self.root(name) or Root(name)
        there = unit.available(allocatable if root.fixed is None else root.fixed)
        taken = unit.asked(system_use)
        return {resource: max(amount - taken.get(resource, 0), 0) for resource, amount in there.items()}

    @cached_property
    def directory(self) -> Directory:
        """Which leaf is for whom."""
        root = self.root(DEFAULT)
        leaves = (one.leaf for one in self.quotas.values() if not one.is_parent)
        return Directory.of(leaves, root.default_group if root else None, (one.system for one in self.roots.values()))
