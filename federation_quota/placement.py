"""What bindings give to each member cluster: running sums, for comparing with what runs there.

Fed with every change of a binding. Objects are not counted here: they are the federation's, however many clusters hold
a copy.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from federation_quota.binding import Binding, ClusterShare, Component
from federation_quota.charge import STANDARD, Tariff, replicas_cost
from federation_quota.ledger.lens import Lens
from federation_quota.resource_name import PODS
from federation_quota.resources import NOTHING, Resources
from federation_quota.tally import Tally

# How many sorts of placements are remembered to be shared, and the largest of them.
_MOST_SHARED: Final = 8192
_LARGEST_SHARED: Final = 16


def shares(binding: Binding, tariff: Tariff = STANDARD) -> Mapping[str, Resources]:
    """What the binding accounts for in each cluster.

    Where it is being evicted from, that is what it had there: its pods run on until others have taken their place. A
    Job that has finished has nothing anywhere.
    """
    if PODS not in binding.assigned:
        return {}
    is_small = len(binding.components) + len(binding.clusters) + len(binding.evicted) <= _LARGEST_SHARED
    work_out = _shared_shares if is_small else _shares
    return work_out(binding.request, binding.components, (*binding.clusters, *binding.evicted), tariff)


def _shares(
    request: Resources, components: tuple[Component, ...], given: tuple[ClusterShare, ...], tariff: Tariff
) -> Mapping[str, Resources]:
    found: dict[str, Resources] = {}
    for share in given:
        amounts = _share(request, components, share, tariff)
        if amounts:
            found[share.name] = found.get(share.name, NOTHING).maximum(amounts)
    return found


# Most bindings look like others, and a component that starts is told of all of them at once.
_shared_shares: Final = lru_cache(maxsize=_MOST_SHARED)(_shares)


def _share(request: Resources, components: tuple[Component, ...], share: ClusterShare, tariff: Tariff) -> Resources:
    if not components:
        return replicas_cost(request, share.replicas, tariff)
    given = dict(share.components or ())
    total = NOTHING
    for component in components:
        count = given.get(component.name, 0) if share.components is not None else component.replicas
        total += replicas_cost(component.request, count, tariff)
    return total


class Placements:
    """Every cluster's part of every binding."""

    def __init__(self, tariff: Tariff = STANDARD) -> None:
        self._tariff = tariff
        self._clusters: dict[str, Tally] = {}

    def change(self, before: Binding | None, after: Binding | None) -> None:
        """A binding is other than it was; None: it was not there, or is gone."""
        if after is not None:
            for cluster, amounts in shares(after, self._tariff).items():
                tally = self._clusters.setdefault(cluster, Tally())
                tally.add(after.key.namespace, after.stamp.priority_class, amounts)
        if before is not None:
            for cluster, amounts in shares(before, self._tariff).items():
                self._clusters[cluster].subtract(before.key.namespace, before.stamp.priority_class, amounts)

    def bound(self, cluster: str, namespace: str, lens: Lens) -> Resources:
        """What bindings of that namespace account for in that cluster, as a quota with that lens sees it."""
        tally = self._clusters.get(cluster)
        return tally.through(namespace, lens) if tally else NOTHING
