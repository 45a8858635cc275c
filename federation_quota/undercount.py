"""Workloads whose pods ask for more than their binding says.

Karmada counts neither sidecars nor what is set for a pod as a whole, and webhooks in a member may add containers. The
quota sees what the binding says, the member runs what the pod says. Pods name the workload that they were made by, so
that the two figures can be told side by side.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from federation_quota.binding import Binding, ObjectKey
from federation_quota.forecast import binding_name
from federation_quota.pod import Footprint
from federation_quota.resource_name import PODS
from federation_quota.resources import Resources


@dataclass(frozen=True, slots=True)
class Undercount:
    """One workload's two figures, for one replica; only what differs."""

    binding: Binding
    cluster: str
    asks: Resources
    uses: Resources

    def __str__(self) -> str:
        template = self.binding.template
        uses = ", ".join(f"{name}={amount}" for name, amount in sorted(self.uses.items()))
        asks = ", ".join(f"{name}={self.asks[name]}" for name in sorted(self.uses))
        return (
            f"a replica of {template.kind} {template.name} uses {uses} in {self.cluster}, "
            f"its binding says {asks} (Karmada counts neither sidecars nor what is set for whole pods)"
        )


def find(
    cluster: str,
    namespace: str,
    sorts: Iterable[Footprint],
    bindings: Mapping[ObjectKey, Binding],
    resources: Iterable[str],
) -> list[Undercount]:
    """The workloads in a cluster whose pods use more of these resources than their binding says, by name."""
    names = [name for name in resources if name != PODS]
    found: dict[ObjectKey, Undercount] = {}
    for sort in sorts:
        if sort.workload is None:
            continue
        key = ObjectKey(namespace, binding_name(*sort.workload))
        binding = bindings.get(key)
        # Workloads of several pod templates do not say which of them a pod belongs to.
        if binding is None or binding.components or binding.template.name != sort.workload.name:
            continue
        more = Resources((name, sort.usage[name]) for name in names if sort.usage[name] > binding.request[name])
        known = found.get(key)
        if more and any(share.name == cluster for share in binding.clusters):
            uses = more.maximum(known.uses) if known else more
            found[key] = Undercount(binding, cluster, binding.request, uses)
    return [found[key] for key in sorted(found)]
