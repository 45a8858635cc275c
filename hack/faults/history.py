"""Every version of every binding and quota, in the order in which they were stored: values only.

A history has epochs: within one, nothing is missing between two versions. A new one begins where the store itself was
put back to an earlier state, or, and then the history says that it is incomplete, where versions were lost.
"""

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from faults import charge
from faults.charge import Amounts

T = TypeVar("T")


class Key(NamedTuple):
    """Which object."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Binding:
    """A stored binding, as far as it costs something."""

    uid: str
    charge: Amounts
    replicas: int = 0
    assigned: int = 0


@dataclass(frozen=True, slots=True)
class Quota:
    """A stored quota: its limits, and what its status says."""

    uid: str
    hard: Amounts
    used: Amounts
    reservations: tuple[tuple[str, Amounts], ...] = ()
    is_active: bool = True
    advanced: Amounts = field(default_factory=dict)  # headroom in the hands of replicas


@dataclass(frozen=True, slots=True)
class Event:
    """One version: what an object became; None where it was deleted."""

    version: int
    at: float  # when it was heard of, by the recorder's clock
    key: Key
    binding: Binding | None = None
    quota: Quota | None = None
    is_quota: bool = False


@dataclass(slots=True)
class State:
    """What is stored at one version."""

    bindings: dict[Key, Binding] = field(default_factory=dict)
    quotas: dict[Key, Quota] = field(default_factory=dict)

    def copy(self) -> "State":
        """One that is not changed with it."""
        return State(dict(self.bindings), dict(self.quotas))

    def take(self, event: Event) -> None:
        """Become the state after that event."""
        if event.is_quota:
            _put(self.quotas, event.key, event.quota)
        else:
            _put(self.bindings, event.key, event.binding)

    def charged(self, namespace: str) -> Amounts:
        """What the bindings of a namespace cost together."""
        return charge.total([one.charge for key, one in self.bindings.items() if key.namespace == namespace])

    def accounted(self, key: Key) -> Amounts:
        """What a quota should call used: each binding at the larger of its charge and its reservations."""
        each = {one.name: stored.charge for one, stored in self.bindings.items() if one.namespace == key.namespace}
        for binding, amount in self.quotas[key].reservations:
            each[binding] = charge.larger(each.get(binding, charge.NOTHING), amount)
        return charge.total(list(each.values()))


@dataclass(slots=True)
class Epoch:
    """A time without gaps."""

    began: float
    version: int  # that the first state was read at
    first: State
    reason: str = ""
    is_complete: bool = True  # False: what was stored just before it is not known
    events: list[Event] = field(default_factory=list)

    def replay(self) -> Iterator[tuple[State, Event, State]]:
        """Each event with the state before and after it; the states are reused, and not to be kept."""
        before, after = self.first.copy(), self.first.copy()
        for event in self.events:
            after.take(event)
            yield before, event, after
            before.take(event)


class History:
    """All epochs, and the state as it is known now."""

    def __init__(self) -> None:
        self.epochs: list[Epoch] = []
        self.now = State()
        self.version = 0

    def begin(self, epoch: Epoch) -> None:
        """From here on nothing is missing."""
        self.epochs.append(epoch)
        self.now = epoch.first.copy()
        self.version = epoch.version

    def take(self, event: Event) -> None:
        """The next version."""
        if event.version < self.version:
            raise ValueError(f"version {event.version} after {self.version}")
        self.epochs[-1].events.append(event)
        self.now.take(event)
        self.version = event.version

    def epoch_at(self, at: float) -> Epoch | None:
        """The epoch of a moment."""
        index = bisect.bisect_right([epoch.began for epoch in self.epochs], at) - 1
        return self.epochs[index] if index >= 0 else None


def read_binding(stored: dict[str, Any]) -> Binding:
    """The binding in a stored object."""
    spec = stored["spec"]
    assigned = sum(cluster.get("replicas") or 0 for cluster in spec.get("clusters") or [])
    return Binding(stored["metadata"]["uid"], charge.charge(stored), spec.get("replicas") or 0, assigned)


def read_quota(stored: dict[str, Any]) -> Quota:
    """The quota in a stored object."""
    status = stored.get("status") or {}
    reservations = tuple(
        (one["binding"], charge.amounts(one.get("charge"))) for one in status.get("reservations") or []
    )
    return Quota(
        uid=stored["metadata"]["uid"],
        hard=charge.amounts((stored.get("spec") or {}).get("hard")),
        used=charge.amounts(status.get("used")),
        reservations=reservations,
        is_active=bool(status.get("shape")),
        advanced=charge.total([charge.amounts(one.get("amounts")) for one in status.get("advances") or []]),
    )


def limited(amounts: Amounts, limits: Amounts) -> Amounts:
    """Of the amounts, those that are limited; all of them, zero where there is nothing."""
    return {name: amounts.get(name, Fraction(0)) for name in limits}


def _put(into: dict[Key, T], key: Key, value: T | None) -> None:
    if value is None:
        into.pop(key, None)
    else:
        into[key] = value
