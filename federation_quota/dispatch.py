"""What goes to a member, against what was admitted, as the accounts see it.

Karmada makes a member's copy from the template as it is now, and applies overrides last: neither asks what the binding
was admitted with. Here is told what of a copy goes beyond that, and which of it an account minds. Pure: who asks, and
what is answered, is the webhook's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from federation_quota import charge, workload
from federation_quota.binding import Binding
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.lens import Lens
from federation_quota.ledger.level import is_applications
from federation_quota.resource_name import COUNT, PODS
from federation_quota.resources import Resources
from federation_quota.stamp import NO_STAMP
from federation_quota.workload import REPLICAS, Excess, Manifest


@dataclass(frozen=True, slots=True)
class Moved:
    """A priority class that brings a manifest under an account which its binding was not admitted to."""

    found: str
    admitted: str

    def __str__(self) -> str:
        return f"priorityClassName={self.found or 'none'}, admitted {self.admitted or 'none'}"


Overreach = Excess | Moved


def minds_pods(lens: Lens) -> bool:
    """Whether the account limits anything that a copy could have too much of: objects are counted once, elsewhere."""
    return any(not name.startswith(COUNT) for name in lens.names)


def overreach(manifest: Manifest, binding: Binding, cluster: str, lens: Lens) -> list[Overreach]:
    """Of what that account limits, what the manifest has more of than its binding was admitted with.

    More replicas count where the account limits pods, or anything that one of them asks for; a larger request where it
    limits that resource, or the GPU memory that comes with it. What is an application is none more for being larger.
    WorkloadError where a manifest cannot be read.
    """
    stamp = binding.stamp
    admitted = stamp.priority_class
    had = lens.cost(Claim(binding.charge, admitted, stamp.leaf, stamp.owner))
    found: list[Overreach] = []
    for excess in workload.exceeds(manifest, binding, cluster):
        cost = lens.cost(Claim(_weight(manifest, excess), admitted, stamp.leaf, stamp.owner))
        if any(not is_applications(name) or name not in had for name in cost):
            found.append(excess)
    moved = Moved(workload.priority_class(manifest), admitted)
    # A binding from before there were stamps does not say what it was admitted as.
    is_stamped = binding.stamp != NO_STAMP and not binding.stamp.fault
    if is_stamped and not lens.selector.matches(admitted) and lens.cost(Claim(binding.charge, moved.found)):
        found.append(moved)
    return found


def comes_closer(before: Iterable[Overreach], after: Iterable[Overreach]) -> bool:
    """Whether all that is beyond the admitted was further beyond it before."""
    amounts = {excess.resource: excess.found for excess in before if isinstance(excess, Excess)}
    return all(
        isinstance(excess, Excess) and excess.resource in amounts and excess.found < amounts[excess.resource]
        for excess in after
    )


def _weight(manifest: Manifest, excess: Excess) -> Resources:
    """What the excess is of, in the names that accounts limit."""
    if excess.resource == REPLICAS:
        return charge.replicas_cost(workload.request(manifest), 1)
    one = charge.replicas_cost(Resources({excess.resource: excess.found}), 1)
    return Resources((name, amount) for name, amount in one.items() if name != PODS)
