"""A binding under a leaf, reduced to what decides who comes first and who gives way.

Amounts are exact (`Resources`), not in steps: what is compared with a published runtime is what is really charged. A
limit is a plain mapping by canonical name: what it does not name is not limited.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from federation_quota.binding import Binding
from federation_quota.quantity import Quantity
from federation_quota.resources import NOTHING, Resources

Limit = Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class Occupant:
    """Somebody who has room in a leaf, or waits for it."""

    name: str
    """`namespace/name` of the binding."""
    charge: Resources = NOTHING
    """What it costs the leaf: what it was given, or what it would be given."""
    priority: int = 0
    created: str = ""
    """The creationTimestamp as it is written: these sort by age."""
    is_preemptible: bool = True
    is_preserved: bool = False
    """What it propagated would stay in the members: displacing it would free nothing."""

    @property
    def may_be_displaced(self) -> bool:
        """Whether anything can make it give way at all."""
        return self.is_preemptible and not self.is_preserved

    @property
    def rank(self) -> tuple[int, str, str]:
        """Its place by importance: the smallest is the most important, and comes first."""
        # Whole seconds have no fraction: without the Z, «05» stands before «05.5», as it should.
        return -self.priority, self.created.rstrip("Z"), self.name


def occupying(binding: Binding) -> Occupant:
    """A binding with what it has been given."""
    return _occupant(binding, binding.assigned)


def waiting(binding: Binding) -> Occupant:
    """A held binding with what it would be given."""
    return _occupant(binding, binding.demand.maximum(binding.assigned))


def sum_of(occupants: Iterable[Occupant]) -> Resources:
    """What they cost together."""
    total = NOTHING
    for one in occupants:
        total = total + one.charge
    return total


def exceeded(use: Resources, limit: Limit) -> list[str]:
    """The resources of which more is used than the limit allows, by name."""
    return sorted(name for name, most in limit.items() if use[name] > most)


def fits(use: Resources, limit: Limit) -> bool:
    """Whether nothing is exceeded."""
    return all(use[name] <= most for name, most in limit.items())


def grows_into(before: Resources, after: Resources, limit: Limit) -> list[str]:
    """What is exceeded of that which grows: what was over before stands in nobody's way who does not ask for it."""
    return [name for name in exceeded(after, limit) if after[name] > before[name]]


def _occupant(binding: Binding, charge: Resources) -> Occupant:
    return Occupant(
        name=str(binding.key),
        charge=charge,
        priority=binding.stamp.priority,
        created=binding.created,
        is_preemptible=binding.is_preemptible,
        is_preserved=binding.is_preserved,
    )
