"""One quota as a node of its tree: what it is promised, what it may have at most, and how it shares.

Amounts are in steps (`unit`). Never here: objects of the API (`quota`), other nodes (`tree`).
"""

from dataclasses import dataclass, field

from federation_quota.elastic.unit import Steps

ROOT = ""
"""The parent of the nodes on the first level."""


@dataclass(frozen=True, slots=True)
class Node:
    """A quota. What it names in neither min nor max, a leaf does not limit, and a parent lets through."""

    name: str
    """`namespace/name` of an ElasticQuota, the bare name of a CompositeElasticQuota."""
    parent: str = ROOT
    min: Steps = field(default_factory=dict)
    """What it can always have."""
    max: Steps = field(default_factory=dict)
    """What it can have at most: without a limit where it says nothing."""
    weight: Steps = field(default_factory=dict)
    """How strongly it competes for what is left: as its max where it says nothing, or nothing but zeros."""
    lends: bool = True
    """Whether others may use what it leaves idle of its min."""
    scales_min: bool = True
    """Whether its min shrinks with the others' when there is less than all of them together."""
    is_parent: bool = False

    def names(self, resource: str) -> bool:
        """Whether it says anything about the resource."""
        return resource in self.min or resource in self.max

    @property
    def resources(self) -> frozenset[str]:
        """What it says anything about."""
        return frozenset(self.min) | frozenset(self.max)

    def weight_of(self, resource: str) -> int | None:
        """Its weight for a resource; None where it has no max to weigh by, and so weighs as much as there is."""
        given = self.weight.get(resource) if any(self.weight.values()) else None
        return self.max.get(resource) if given is None else given


def filled_weight(weight: Steps | None, maximum: Steps) -> dict[str, int]:
    """A weight as it is kept: for each resource of max what was given, else the max; and for no other."""
    given = weight or {}
    return {resource: given.get(resource, amount) for resource, amount in maximum.items()}
