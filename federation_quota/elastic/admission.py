"""How much may be asked for at all: a limit on demand, beside the one on use.

Under a tree what does not fit waits, and whatever waits counts as demand. A quota can bound that: what it may be asked
for at most, waiting workloads included, so that a queue does not grow without end; 0 pauses submissions. Where the tree
says so, every quota is bounded by its max. Only what grows is judged, so that a smaller ask passes even while over.
"""

from federation_quota.elastic.forest import Root
from federation_quota.elastic.quota import Quota
from federation_quota.elastic.unit import Steps


def limit(quota: Quota, root: Root) -> Steps:
    """What may be asked for at most; what it does not name is not limited."""
    if quota.admission:
        return quota.admission
    return quota.node.max if root.limits_requests else {}


def exceeded(most: Steps, request: Steps, new: Steps, old: Steps | None = None) -> list[str]:
    """The resources of which too much would be asked, beside what is asked already: `request` with `old` in it."""
    before = old or {}
    return sorted(
        resource
        for resource, bound in most.items()
        if new.get(resource, 0) > before.get(resource, 0)
        and request.get(resource, 0) - before.get(resource, 0) + new.get(resource, 0) > bound
    )
