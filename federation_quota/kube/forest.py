"""All elastic quotas and trees of the federation, with its namespaces and clusters, mirrored into one `Forest`.

Reading and keeping only: what may be stored is `elastic.topology`'s, which leaf a binding falls under is the forest's
directory's. A stored quota that cannot be read is reported by its reflector and left out. Each kind is watched once:
whoever keeps the books of quotas has their accounts from the same watch.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from federation_quota.charge import with_gpu_memory
from federation_quota.elastic import leaf
from federation_quota.elastic import quota as quotas
from federation_quota.elastic.capacity import Cluster
from federation_quota.elastic.forest import Forest, Root, read_root
from federation_quota.elastic.quota import Quota
from federation_quota.elastic.underway import Change, Identity, Stored, carry_out
from federation_quota.kube import codec
from federation_quota.kube.client import Client
from federation_quota.kube.clusters import CLUSTERS
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS, QUOTA_TREES, identity
from federation_quota.kube.reflector import Reflector, Sink
from federation_quota.kube.resource import Resource
from federation_quota.ledger.account import Account
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.registry import Registry
from federation_quota.limits.scheme import Schemes
from federation_quota.resources import Resources

NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)

NEWS_SECONDS: Final = 0.5
"""How long something that was stored a moment ago may take to be seen."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace: its labels, and whether it goes with all that is in it."""

    labels: Mapping[str, str]
    is_going: bool = False


class Table(Generic[T]):
    """The stored objects of one kind, by name: the sink of a reflector."""

    def __init__(
        self,
        on_change: Callable[[], None],
        on_stored: Callable[[], None] = lambda: None,
        facet: Callable[[T], object] = lambda _value: None,
    ) -> None:
        self.items: dict[str, Stored[T]] = {}
        self.facets = 0  # how often something has changed that the facet shows
        self._on_change = on_change  # told when something is other than it was
        self._on_stored = on_stored  # told each time, and before that
        self._facet = facet

    def replace(self, items: Sequence[Stored[T]], version: int) -> None:
        """Everything was listed anew."""
        self.items = {item.name: item for item in items}
        self.facets += 1
        self._on_stored()
        self._on_change()

    def upsert(self, item: Stored[T]) -> None:
        """An object was stored."""
        before = self.items.get(item.name)
        self.items[item.name] = item
        self.facets += before is None or self._facet(before.value) != self._facet(item.value)
        self._on_stored()
        if before != item:  # every admission writes a status, and every heartbeat of a cluster
            self._on_change()

    def delete(self, item: Stored[T]) -> None:
        """An object was deleted."""
        self.items.pop(item.name, None)
        self.facets += 1
        self._on_stored()
        self._on_change()

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""

    @property
    def values(self) -> dict[str, T]:
        """What they say, by name."""
        return {name: item.value for name, item in self.items.items()}


@dataclass(frozen=True, slots=True)
class Ledgers:
    """Where the accounts of elastic quotas go."""

    sink: Callable[[Resource], Sink[Account]]
    """For those of one kind."""
    on_rewind: Callable[[Resource], None]
    """The store has gone back behind what was seen of a kind."""


class ForestMirror:
    """The forest as it is stored, a moment ago."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None] = lambda: None,
        on_limits: Callable[[Schemes], None] = lambda _schemes: None,
        ledgers: Ledgers | None = None,
    ) -> None:
        self._news = asyncio.Event()
        self._forest: Forest | None = None
        self.limits = Registry(on_limits)
        self._limits_seen: tuple[int, ...] = (0, 0, 0)
        self.elastic: Table[Quota] = Table(on_change, self._stored, _standing)
        self.composites: Table[Quota] = Table(on_change, self._stored, _standing)
        self.trees: Table[Root] = Table(on_change, self._stored, lambda root: root.limits)
        self.namespaces: Table[Namespace] = Table(on_change, self._stored)
        self.clusters: Table[Cluster] = Table(on_change, self._stored)
        self.quotas: list[Reflector[Any]] = [
            _watch(client, ELASTIC_QUOTAS, self.elastic, ledgers),
            _watch(client, COMPOSITE_ELASTIC_QUOTAS, self.composites, ledgers),
        ]
        self.roots: Reflector[Any] = Reflector(client, QUOTA_TREES, decode=_tree, sink=self.trees)
        self.reflectors: list[Reflector[Any]] = [
            *self.quotas,
            self.roots,
            Reflector(client, NAMESPACES, decode=_namespace, sink=self.namespaces),
            Reflector(client, CLUSTERS, decode=_cluster, sink=self.clusters),
        ]

    @property
    def is_synced(self) -> bool:
        """Whether everything has been read once."""
        return all(one.synced.is_set() for one in self.reflectors)

    async def refresh(self, timeout_seconds: float) -> bool:
        """Read everything anew, from now: whether that was done within the time."""
        return all(await asyncio.gather(*(one.refresh(timeout_seconds) for one in self.reflectors)))

    @property
    def forest(self) -> Forest:
        """What is stored."""
        if self._forest is None:
            self._forest = self.forest_of({**self.elastic.values, **self.composites.values}, self.trees.values)
        return self._forest

    def forest_with(self, changes: Collection[Change]) -> Forest:
        """What there is once these changes have come."""
        if not changes:
            return self.forest
        stored = {**self.elastic.values, **self.composites.values}
        return self.forest_of(*carry_out(changes, stored, self.trees.values))

    def forest_of(self, found: Mapping[str, Quota], roots: Mapping[str, Root]) -> Forest:
        """A forest of these, on the namespaces and clusters that there are.

        What a tree made its default group is for workloads, although it is for no namespace.
        """
        groups = [root.default_group for root in roots.values() if root.default_group in found]
        leaves = {
            name: replace(found[name], node=replace(found[name].node, is_parent=False)) for name in groups if name
        }
        labels = {name: one.labels for name, one in self.namespaces.values.items()}
        return Forest({**found, **leaves}, roots, labels, tuple(self.clusters.values.values()))

    def identity(self, tree: str, node: str) -> Identity | None:
        """Which object a node of a tree is, as it is known; the root is the tree itself. None: there is none."""
        if not node:
            root = self.trees.items.get(tree)
            return root.identity if root else None
        found = self.elastic.items.get(node) or self.composites.items.get(node)
        return found.identity if found else None

    def is_going(self, namespace: str) -> bool:
        """Whether a namespace is being deleted."""
        found = self.namespaces.items.get(namespace)
        return found is not None and found.value.is_going

    async def news(self, timeout_seconds: float) -> bool:
        """Wait for something to be other than it was: whether it came within the time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                return await self._news.wait()
        return False

    async def catch_up(self, versions: Mapping[str, int], timeout_seconds: float) -> bool:
        """Come to know every kind up to that version of it: whether that was done within the time.

        A version that comes by itself soon is waited for; otherwise the kind is read anew, from now.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_seconds
        behind = [one for one in self.reflectors if one.version < versions.get(one.resource.kind, 0)]
        for one in behind:
            wanted, soon = versions[one.resource.kind], min(NEWS_SECONDS, until - clock())
            if not await one.wait_for_version(wanted, soon) and not await one.refresh(until - clock()):
                return False
        return True

    @property
    def versions(self) -> dict[str, int]:
        """How far each kind is known."""
        return {one.resource.kind: one.version for one in self.reflectors}

    def identity_of(self, kind: str, name: str) -> Identity | None:
        """The quota or tree of that kind and name that is stored, if any."""
        tables: dict[str, Mapping[str, Stored[Any]]] = {
            ELASTIC_QUOTAS.kind: self.elastic.items,
            COMPOSITE_ELASTIC_QUOTAS.kind: self.composites.items,
            QUOTA_TREES.kind: self.trees.items,
        }
        found = tables[kind].get(name)
        return found.identity if found else None

    def _stored(self) -> None:
        self._forest = None
        self._news.set()
        self._news = asyncio.Event()
        facets = tuple(one.facets for one in (self.elastic, self.composites, self.trees))
        if facets != self._limits_seen:
            self._limits_seen = facets
            self.limits.refresh(self._levels())

    def _levels(self) -> dict[str, list[Level]]:
        """The nodes of all trees, where there is a limit in any."""
        quotas = [one.value for table in (self.elastic, self.composites) for one in table.items.values()]
        roots = [one.value for one in self.trees.items.values()]
        if not any(one.limits for one in quotas) and not any(one.limits for one in roots):
            return {}
        found: dict[str, list[Level]] = {root.name: [Level(ROOT, limits=root.limits)] for root in roots}
        for one in quotas:
            found.setdefault(one.tree, []).append(Level(one.name, one.node.parent, one.limits))
        return found


def _standing(quota: Quota) -> object:
    """All of a quota that limits depend on."""
    return quota.tree, quota.node.parent, quota.limits


class _Both:
    """The sink of a watch that feeds a table of quotas and somebody's books."""

    def __init__(self, table: Table[Quota], accounts: Sink[Account]) -> None:
        self._table = table
        self._accounts = accounts

    def replace(self, items: Sequence[Account], version: int) -> None:
        """Everything was listed anew."""
        self._table.replace([_stored(item) for item in items], version)
        self._accounts.replace(items, version)

    def upsert(self, item: Account) -> None:
        """A quota was stored."""
        self._table.upsert(_stored(item))
        self._accounts.upsert(item)

    def delete(self, item: Account) -> None:
        """A quota was deleted."""
        self._table.delete(_stored(item))
        self._accounts.delete(item)

    def bookmark(self, version: int) -> None:
        """Everything up to there has been seen."""
        self._accounts.bookmark(version)


def _watch(client: Client, resource: Resource, table: Table[Quota], ledgers: Ledgers | None) -> Reflector[Any]:
    kind = resource.kind
    if ledgers is None:
        return Reflector(client, resource, decode=lambda body: _quota(body, kind), sink=table)
    return Reflector(
        client,
        resource,
        decode=lambda body: leaf.read({**codec.decode_object(body), "kind": kind}),
        sink=_Both(table, ledgers.sink(resource)),
        on_rewind=lambda _seen, _now: ledgers.on_rewind(resource),
    )


def _stored(account: Account) -> Stored[Quota]:
    kept = leaf.kept(account)
    return Stored(account.name, Identity(account.uid, kept.generation), kept.quota)


def _quota(body: bytes, kind: str) -> Stored[Quota]:
    document = codec.decode_object(body)
    found = quotas.read({**document, "kind": kind})
    return Stored(found.name, identity(document), found)


def _tree(body: bytes) -> Stored[Root]:
    document = codec.decode_object(body)
    found = read_root(document)
    return Stored(found.name, identity(document), found)


def _namespace(body: bytes) -> Stored[Namespace]:
    document = codec.decode_object(body)
    metadata = document["metadata"]
    found = Namespace(metadata.get("labels") or {}, bool(metadata.get("deletionTimestamp")))
    return Stored(metadata["name"], identity(document), found)


def _cluster(body: bytes) -> Stored[Cluster]:
    document = codec.decode_object(body)
    metadata, status = document["metadata"], document.get("status") or {}
    amounts = (status.get("resourceSummary") or {}).get("allocatable") or {}
    conditions = {one.get("type"): one.get("status") for one in status.get("conditions") or ()}
    found = Cluster(
        metadata["name"],
        metadata.get("labels") or {},
        with_gpu_memory(Resources.parse(amounts)),
        is_ready=conditions.get("Ready") == "True",
    )
    return Stored(found.name, identity(document), found)
