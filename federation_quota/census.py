"""The pods of one member cluster: who is there, and running sums of what they use.

Fed by a watch, event by event; nothing is ever added up anew but at a list. Told the time, it lets go of pods that
should be gone. A reflector's sink, and pure: what follows from a change is the listener's business.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from federation_quota.binding import ObjectKey
from federation_quota.ledger.lens import Lens
from federation_quota.pod import Footprint, Pod
from federation_quota.resources import Resources
from federation_quota.tally import Tally


class Census:
    """Every pod of one member that uses anything."""

    def __init__(self, on_change: Callable[[Iterable[str]], None] = lambda _namespaces: None) -> None:
        self._on_change = on_change  # told the namespaces whose figures are other than before
        self._pods: dict[str, dict[str, Footprint]] = {}
        self._sorts: dict[str, Counter[Footprint]] = {}
        self._tally = Tally()
        self._now = 0.0
        self._ends: dict[ObjectKey, float] = {}  # of pods that are being deleted
        self._going: list[tuple[float, ObjectKey]] = []  # the same in order; may hold what is no longer so

    def replace(self, items: Sequence[Pod], version: int) -> None:
        """These and no others exist."""
        before = self._tally.namespaces()
        self._pods, self._sorts, self._tally = {}, {}, Tally()
        self._ends, self._going = {}, []
        for pod in items:
            footprint = self._await_end(pod)
            if footprint is not None:
                self._pods.setdefault(pod.key.namespace, {})[pod.key.name] = footprint
        for namespace, pods in self._pods.items():
            sorts = self._sorts[namespace] = Counter(pods.values())
            for footprint, count in sorts.items():
                self._tally.add(namespace, footprint.priority_class, footprint.usage * count)
        self._on_change(before | self._tally.namespaces())

    def upsert(self, item: Pod) -> None:
        """A pod was stored."""
        if self._put(item.key, self._await_end(item)):
            self._on_change((item.key.namespace,))

    def delete(self, item: Pod) -> None:
        """A pod is gone."""
        self._ends.pop(item.key, None)
        if self._put(item.key, None):
            self._on_change((item.key.namespace,))

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""

    def expire(self, now: float) -> None:
        """It is that time by now: pods that were to be gone before use nothing any more."""
        self._now = now
        changed = set()
        while self._going and self._going[0][0] < now:
            end, key = heapq.heappop(self._going)
            # Another pod may have come to that name meanwhile.
            if self._ends.get(key) == end and self._put(key, None):
                changed.add(key.namespace)
        if changed:
            self._on_change(changed)

    def observed(self, namespace: str, lens: Lens) -> Resources:
        """What the pods of a namespace use, as a quota with that lens sees it."""
        return self._tally.through(namespace, lens)

    def sorts(self, namespace: str) -> Mapping[Footprint, int]:
        """The sorts of pods in a namespace, and how many there are of each."""
        return self._sorts.get(namespace, {})

    def __len__(self) -> int:
        return sum(len(pods) for pods in self._pods.values())

    def _await_end(self, pod: Pod) -> Footprint | None:
        """What it counts for now, and a note of when that ends."""
        if pod.footprint is None or pod.gone_at is None:
            self._ends.pop(pod.key, None)
            return pod.footprint
        if self._ends.get(pod.key) != pod.gone_at:
            self._ends[pod.key] = pod.gone_at
            heapq.heappush(self._going, (pod.gone_at, pod.key))
        return None if pod.gone_at < self._now else pod.footprint

    def _put(self, key: ObjectKey, footprint: Footprint | None) -> bool:
        """Whether the figures change by it."""
        namespace, name = key
        pods = self._pods.setdefault(namespace, {})
        before = pods.pop(name, None)
        if footprint is not None:
            pods[name] = footprint
        if not pods:
            del self._pods[namespace]
        if before is footprint:
            return False
        sorts = self._sorts.setdefault(namespace, Counter())
        if footprint is not None:
            sorts[footprint] += 1
            self._tally.add(namespace, footprint.priority_class, footprint.usage)
        if before is not None:
            sorts[before] -= 1
            if not sorts[before]:
                del sorts[before]
            self._tally.subtract(namespace, before.priority_class, before.usage)
        if not sorts:
            del self._sorts[namespace]
        return True
