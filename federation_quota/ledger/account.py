"""Anything with a limit that bindings are charged to, as it stands in the store.

An `Account` is a value: one version of one object. Changing it gives another value, which the caller writes under the
old one's version, or not at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from federation_quota.ledger.lens import Lens
from federation_quota.ledger.reservation import Reservation
from federation_quota.quantity import Quantity
from federation_quota.resource_name import canonical
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import Selector

# Beyond this the object grows too large to write often; an account that is full answers «later», never «no».
MOST_RESERVATIONS = 1024


@dataclass(frozen=True, slots=True)
class Advance:
    """Headroom that one replica may spend without a write (`ledger.advance`); taken, for everybody else."""

    id: str  # another one at each write of its replica's
    replica: str
    amounts: Resources
    is_recalled: bool = False  # somebody needs the room
    is_granted: bool = False  # another replica has taken it for that one, which may not know yet


@dataclass(frozen=True)
class Account:
    """One account, at one version."""

    namespace: str  # or whichever domain it is in (`ledger.domain`)
    name: str
    limits: Mapping[str, Quantity]  # by the names the user wrote
    selector: Selector
    uid: str = ""
    version: str = ""  # the object's resourceVersion: every change is written under it
    reservations: tuple[Reservation, ...] = ()
    advances: tuple[Advance, ...] = ()
    unbound: Resources = NOTHING  # used by nobody's binding, and to be paid for all the same
    observed: int = 0  # a view that has not reached this binding version knows too little to judge here
    active_shape: str = ""  # the lens that every live replica has joined
    joined: frozenset[tuple[str, str]] = field(default_factory=frozenset)  # (replica, shape)
    fault: str = ""  # why nothing more can be admitted for now
    beside: object = field(default=None, compare=False, repr=False)  # what its store keeps in the same object

    @cached_property
    def lens(self) -> Lens:
        """What it sees of a claim."""
        return Lens(self.selector, frozenset(canonical(name) for name in self.limits))

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """By canonical name, the names that the user wrote for it."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self.limits:
            found[canonical(name)] = (*found.get(canonical(name), ()), name)
        return found

    @property
    def title(self) -> str:
        """What it is called to people."""
        return f"quota {self.name}"

    @cached_property
    def shape(self) -> str:
        """A short text for the lens: what replicas join for."""
        return self.lens.shape

    @property
    def is_active(self) -> bool:
        """Whether its books are complete for what it limits now."""
        return self.active_shape == self.shape

    @property
    def is_full(self) -> bool:
        """Whether it can take no more reservations for now."""
        return len(self.reservations) >= MOST_RESERVATIONS

    def storable(self, amounts: Resources) -> Resources:
        """At least these amounts, as its store can keep them of an advance."""
        return amounts

    def with_reservations(self, reservations: Iterable[Reservation], observed: int = 0) -> "Account":
        """The account with these reservations; the observed version only ever rises."""
        return replace(self, reservations=tuple(reservations), observed=max(self.observed, observed))
