"""An independent witness of elastic trees: every stored version of quotas, bindings, clusters and trees, and what must
hold at each of them.

Of every leaf: what is newly admitted is within the runtime that was published before; where more is used, because the
runtime has fallen, it only gets less. Of every tree on clusters of its own: what its leaves may use together is never
raised beyond what there is. Nothing of the product's own arithmetic is used.
"""

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from faults import charge
from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.clusters import CLUSTERS
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS, QUOTA_TREES, RESOURCE_BINDINGS
from federation_quota.kube.resource import Resource
from localfed.federation import Federation
from tests.federation.stage import eventually

NONE = Fraction(0)
STAMP = "quota.karmada.io/stamp"
WATCHED = (RESOURCE_BINDINGS, ELASTIC_QUOTAS, COMPOSITE_ELASTIC_QUOTAS, QUOTA_TREES, CLUSTERS)
Object = dict[str, Any]


def cpu(amounts: Object | None) -> Fraction:
    return charge.quantity((amounts or {}).get("cpu", "0"))


def given(binding: Object) -> Fraction:
    """The cpu that a binding was given."""
    spec = binding["spec"]
    replicas: int = sum(one.get("replicas", 0) for one in spec.get("clusters") or [])
    return cpu((spec.get("replicaRequirements") or {}).get("resourceRequest")) * replicas


def leaf_of(binding: Object) -> str:
    """The leaf that a binding's stamp names."""
    text = (binding["metadata"].get("annotations") or {}).get(STAMP, "{}")
    return str(json.loads(text).get("leaf", ""))


def name_of(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


@dataclass
class Ledger:
    """One leaf, version by version: what is stored, what is reserved, and what it may use."""

    runtime: Fraction = NONE
    reserved: dict[str, Fraction] = field(default_factory=dict)
    stored: dict[str, Fraction] = field(default_factory=dict)
    highest: Fraction = NONE
    versions: int = 0

    @property
    def use(self) -> Fraction:
        return sum(self.stored.values(), NONE)

    @property
    def taken(self) -> Fraction:
        names = self.stored.keys() | self.reserved.keys()
        return sum((max(self.stored.get(name, NONE), self.reserved.get(name, NONE)) for name in names), NONE)

    @property
    def ceiling(self) -> Fraction:
        """What it may come to use, or uses already."""
        return max(self.runtime, self.taken)

    def quota_stored(self, status: Object) -> None:
        """What is newly admitted is within what the very same version publishes."""
        before = self.taken
        self.runtime = cpu(status.get("runtime"))
        self.reserved = defaultdict(Fraction)
        for one in status.get("reservations") or []:
            self.reserved[one["binding"]] = max(self.reserved[one["binding"]], cpu(one["charge"]))
        assert not status.get("advances"), "of a leaf nothing is advanced"
        self.versions += 1
        assert self.taken <= max(before, self.runtime), f"{self.taken} admitted, {self.runtime} published"

    def binding_stored(self, name: str, amount: Fraction) -> None:
        """What is stored was admitted before."""
        before = max(self.taken, self.use)
        self.stored[name] = amount
        self.highest = max(self.highest, self.use)
        self.versions += 1
        assert self.use <= before, f"{name}: {self.use} used, {before} admitted, {self.runtime} published"


@dataclass
class Capacity:
    """What a tree has on clusters of its own, and what the system is known to know of it."""

    clusters: dict[str, Fraction] = field(default_factory=dict)
    since: list[Fraction] = field(default_factory=lambda: [NONE])
    """What there was, from the last that the system said it knows of."""

    def cluster_stored(self, item: Object, *, is_gone: bool) -> None:
        status = item.get("status") or {}
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or [])
        has = cpu((status.get("resourceSummary") or {}).get("allocatable"))
        self.clusters[item["metadata"]["name"]] = has if is_ready and not is_gone else NONE
        self.since.append(sum(self.clusters.values(), NONE))

    def tree_stored(self, total: Fraction) -> None:
        """The system says what it shares: whatever it raises from now on, it raises within that, or what came later."""
        known = [place for place, amount in enumerate(self.since) if amount == total]
        if known:
            del self.since[: known[-1]]

    @property
    def most(self) -> Fraction:
        return max(self.since)


class Ledgers:
    """All leaves of one tree."""

    def __init__(self, tree: str, *, has_clusters: bool = True) -> None:
        self._tree = tree
        self._has_clusters = has_clusters
        self._places: dict[str, str] = {}  # of each binding, its leaf
        self.leaves: dict[str, Ledger] = {}
        self.capacity = Capacity()

    def take(self, kind: str, item: Object) -> None:
        """One stored version, in order."""
        is_gone, name = kind == "DELETED", name_of(item)
        if item["kind"] == "ResourceBinding":
            self._binding(name, item, is_gone=is_gone)
        elif item["kind"] == "Cluster" and (item["metadata"].get("labels") or {}).get("tree") == self._tree:
            self.capacity.cluster_stored(item, is_gone=is_gone)
        elif item["kind"] == "QuotaTree" and name == self._tree:
            self.capacity.tree_stored(cpu((item.get("status") or {}).get("total")))
        elif item["kind"].endswith("ElasticQuota") and item["spec"].get("tree") == self._tree and not is_gone:
            self._quota(name, item)

    def _quota(self, name: str, item: Object) -> None:
        spec, status = item["spec"], item.get("status") or {}
        if item["kind"] == "CompositeElasticQuota" and not (spec.get("namespaces") or spec.get("namespaceSelector")):
            return  # a parent
        before = sum((one.ceiling for one in self.leaves.values()), NONE)
        known = self.leaves.setdefault(name, Ledger())
        was = known.runtime
        known.quota_stored(status)
        together = sum((one.ceiling for one in self.leaves.values()), NONE)
        if self._has_clusters and known.runtime > was:
            most = max(before, self.capacity.most)
            assert together <= most, f"{name} raised to {known.runtime}: {together} in all, and there is {most}"

    def _binding(self, name: str, item: Object, *, is_gone: bool) -> None:
        leaf, before = "" if is_gone else leaf_of(item), self._places.pop(name, "")
        if before and before != leaf:
            self.leaves[before].binding_stored(name, NONE)
        if leaf in self.leaves:
            self._places[name] = leaf
            self.leaves[leaf].binding_stored(name, given(item))


def check(history: Iterable[tuple[int, str, Object]], tree: str, *, has_clusters: bool = True) -> dict[str, Ledger]:
    """What must hold of a tree at every version; its leaves, as they were in the end."""
    ledgers = Ledgers(tree, has_clusters=has_clusters)
    for _, kind, item in history:
        ledgers.take(kind, item)
    return ledgers.leaves


class Recorder:
    """Every version of what is stored from now on, by a thread with watches of its own."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._events: list[tuple[int, str, Object]] = []
        self._latest: dict[tuple[str, str], int] = {}
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def recording(self) -> Iterator["Recorder"]:
        """While the block lasts."""
        self._thread.start()
        assert self._ready.wait(30), self._problem
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(self._loop)])
            self._thread.join(10)

    def history(self) -> list[tuple[int, str, Object]]:
        """All that was stored so far, in order."""
        stored = {
            (resource.kind, name_of(item)): int(item["metadata"]["resourceVersion"])
            for resource in WATCHED
            for item in self._federation.api.raw(resource.collection(None))["items"]
        }
        eventually(
            lambda: self._problem or all(self._latest.get(key, 0) >= version for key, version in stored.items()),
            what="everything that is stored has been seen",
        )
        assert self._problem is None, self._problem
        return sorted(self._events, key=lambda one: one[0])

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._follow_all())
        except asyncio.CancelledError:
            pass
        except BaseException as problem:
            self._problem = problem

    async def _follow_all(self) -> None:
        connection = await config.load(kubeconfig=str(self._federation.directory.kubeconfig))
        async with Client(connection) as client, asyncio.TaskGroup() as tasks:
            for resource in WATCHED:
                version = 0
                async for page in client.list(resource):
                    version = page.version
                    for raw in page.items:
                        item = {"kind": resource.kind, **json.loads(bytes(raw))}
                        self._take("ADDED", item)
                tasks.create_task(self._follow(client, resource, version))
            self._ready.set()

    async def _follow(self, client: Client, resource: Resource, version: int) -> None:
        while True:
            async with client.watch(resource, version=version, timeout_seconds=600) as lines:
                async for line in lines:
                    event = json.loads(line)
                    assert event["type"] != "ERROR", event
                    version = int(event["object"]["metadata"]["resourceVersion"])
                    if event["type"] != "BOOKMARK":
                        self._take(event["type"], event["object"])

    def _take(self, kind: str, item: Object) -> None:
        version = int(item["metadata"]["resourceVersion"])
        self._latest[item["kind"], name_of(item)] = version
        self._events.append((version, kind, item))
