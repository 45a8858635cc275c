"""How reservations end: proved by a view, or by a live look once they are older than any write can be.

Whoever ends a reservation raises the account's observed version to that of the binding event which proved it: a view
that has not seen that event would otherwise miss both the reservation and the binding. Versions of lists and bookmarks
prove nothing here, because other watches may not reach them for minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import View

# The API server ends every write at 34 seconds, whatever it was told. A reservation older than this, by the clock of
# whoever watches it, belongs to a write that has been stored or never will be.
EXPIRY_SECONDS = 60.0
# How often to look whether the replica of an old advance is still there.
LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LiveLook:
    """What a read past all caches showed of a binding, after its reservation's expiry; no version: it is not there."""

    version: int | None


def settle(account: Account, view: View, looks: Mapping[str, LiveLook]) -> Account:
    """The account without the reservations that have ended; `looks` are by reservation id."""
    remaining = []
    observed = account.observed
    for reservation in account.reservations:
        proof = proved(account.namespace, reservation, view)
        look = looks.get(reservation.id)
        if proof is not None:
            observed = max(observed, proof)
        elif look is not None:
            observed = max(observed, look.version or 0)
        else:
            remaining.append(reservation)
    if len(remaining) == len(account.reservations):
        return account
    return account.with_reservations(remaining, observed)


def proved(namespace: str, reservation: Reservation, view: View) -> int | None:
    """The version of the binding event that shows the reservation's end, if the view has seen one."""
    entry = view.get(namespace, reservation.binding)
    tombstone = view.tombstone(namespace, reservation.binding)
    if reservation.base is not None:
        # Any newer version: this write, or another that makes it impossible.
        versions = [known.version for known in (entry, tombstone) if known and known.version > reservation.base]
        return max(versions, default=None)
    for known in (entry, tombstone):
        if known and known.uid == reservation.uid:
            return known.version
    return None


class Expiry:
    """Since when each reservation has been seen, by the observer's own monotonic clock.

    Nobody's wall clock is trusted, and none needs to be right: an observer that starts anew only waits longer.
    """

    def __init__(self, expiry_seconds: float = EXPIRY_SECONDS) -> None:
        self.seconds = expiry_seconds
        self._first_seen: dict[tuple[str, str], dict[str, float]] = {}
        self._advances: dict[tuple[str, str], dict[str, float]] = {}  # and when to look for its replica

    def expired(self, account: Account, now: float) -> list[Reservation]:
        """Those that a live look may end now; seeing the account is what starts their time."""
        key = (account.namespace, account.name)
        before = self._first_seen.get(key, {})
        current = {reservation.id: before.get(reservation.id, now) for reservation in account.reservations}
        if current:
            self._first_seen[key] = current
        else:
            self._first_seen.pop(key, None)
        return [one for one in account.reservations if now - current[one.id] > self.seconds]

    def doubtful(self, account: Account, now: float) -> list[Advance]:
        """Advances that their replicas have not touched for so long that those may be gone; each now and then."""
        key = (account.namespace, account.name)
        before = self._advances.get(key, {})
        current = {one.id: before.get(one.id, now + self.seconds) for one in account.advances}
        due = [one for one in account.advances if current[one.id] <= now]
        current.update((one.id, now + LOOK_SECONDS) for one in due)
        if current:
            self._advances[key] = current
        else:
            self._advances.pop(key, None)
        return due

    def age_seconds(self, account: Account, identifier: str, now: float) -> float | None:
        """How long that reservation has been seen; None where it has not."""
        since = self._first_seen.get((account.namespace, account.name), {}).get(identifier)
        return None if since is None else now - since

    def oldest_seconds(self, now: float) -> float:
        """How long the oldest has been seen; 0 where there are none."""
        first = [min(one.values()) for one in list(self._first_seen.values())]
        return now - min(first) if first else 0.0

    def forget(self, namespace: str, name: str) -> None:
        """The account is gone."""
        self._advances.pop((namespace, name), None)
        self._first_seen.pop((namespace, name), None)
