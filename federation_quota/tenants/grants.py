"""What was allowed to one tenant and has not been seen in the store: kept by the holder of its title.

A grant ends as a reservation does: when a view has seen the binding past it, or, once it is older than any write can
be, when a look past all caches has shown how it went. `observed` rises to the version that proved it. Whoever comes
after, with a view that is further behind, would else miss both the grant and the binding.

How old a grant is goes along with the title, as far as its holders have seen it themselves: time on the way does not
count, and no clock is compared with another.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from federation_quota.bookkeeping import read_reservation, write_reservation
from federation_quota.ledger import settling
from federation_quota.ledger.lens import EVERYTHING
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import View
from federation_quota.resources import NOTHING, Resources

# All annotations of an object together may have 256 KiB.
LONGEST: Final = 200_000


@dataclass(frozen=True, slots=True)
class Grant:
    """One admission that may still be on its way."""

    namespace: str
    reservation: Reservation
    since: float
    """On the clock of who keeps it; in what is left to others, how long it has been."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a holder leaves to the next."""

    observed: int
    grants: tuple[Grant, ...] = ()

    def encode(self) -> str:
        """As text; empty where that would be too long."""
        grants = [
            {"namespace": one.namespace, "seconds": round(one.since, 3), **write_reservation(one.reservation)}
            for one in self.grants
        ]
        text = json.dumps({"observed": str(self.observed), "grants": grants}, separators=(",", ":"))
        return text if len(text) <= LONGEST else ""


def decode(text: str) -> Left:
    """What was left; ValueError where that cannot be read."""
    try:
        read = json.loads(text)
        grants = [
            Grant(str(one["namespace"]), read_reservation(one), max(0.0, float(one["seconds"])))
            for one in read["grants"]
        ]
        return Left(int(read["observed"]), tuple(grants))
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise ValueError(f"what a holder left cannot be read: {problem!r}") from problem


class Grants:
    """All of one tenant."""

    def __init__(self, expiry_seconds: float = settling.EXPIRY_SECONDS) -> None:
        self._expiry_seconds = expiry_seconds
        self._under_way: dict[str, Grant] = {}
        self.observed = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def add(self, namespace: str, reservation: Reservation, now: float) -> None:
        """An allow is about to be sent."""
        self._under_way[reservation.id] = Grant(namespace, reservation, now)

    def inherit(self, left: Left, now: float) -> None:
        """What an earlier holder had let through."""
        self.observed = max(self.observed, left.observed)
        for one in left.grants:
            self._under_way.setdefault(one.reservation.id, Grant(one.namespace, one.reservation, now - one.since))

    def settle(self, view: View) -> None:
        """Forget what the view has seen stored, or seen to be impossible."""
        for identifier, grant in list(self._under_way.items()):
            proof = settling.proved(grant.namespace, grant.reservation, view)
            if proof is not None:
                self.end(identifier, proof)

    def expired(self, now: float) -> list[Grant]:
        """Those that a live look may end now."""
        return [one for one in self._under_way.values() if now - one.since > self._expiry_seconds]

    def end(self, identifier: str, version: int | None) -> None:
        """It is over: a binding event of that version shows it, or there is no such binding."""
        self._under_way.pop(identifier, None)
        self.observed = max(self.observed, version or 0)

    def used(self, namespaces: Iterable[str], view: View) -> Resources:
        """What the bindings of those namespaces cost, with what was granted."""
        total = Resources.sum(view.spent(one, EVERYTHING) for one in namespaces)
        for place in {(one.namespace, one.reservation.binding) for one in self._under_way.values()}:
            total = total + self.accounted(*place, view) - _stored(*place, view)
        return total

    def accounted(self, namespace: str, binding: str, view: View) -> Resources:
        """What one binding is counted with: what is stored, or what was granted where that is more."""
        amount = _stored(namespace, binding, view)
        for one in self._under_way.values():
            if (one.namespace, one.reservation.binding) == (namespace, binding):
                amount = amount.maximum(one.reservation.claim.charge)
        return amount

    def left(self, now: float) -> Left:
        """What the next holder has to know."""
        ages = (Grant(one.namespace, one.reservation, now - one.since) for one in self._under_way.values())
        return Left(self.observed, tuple(ages))


def _stored(namespace: str, binding: str, view: View) -> Resources:
    entry = view.get(namespace, binding)
    return entry.claim.charge if entry else NOTHING
