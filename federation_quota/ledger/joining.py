"""New accounts: complete before they are used.

An account that was just created, recreated, or that now selects or limits something else, knows nothing of what was
admitted while it did not look and has not reached the views. Each replica therefore brings what it admitted lately when
it joins, and the account becomes active only when every live replica has joined.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from federation_quota.ledger import domain
from federation_quota.ledger.account import MOST_RESERVATIONS, Account
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import EXPIRY_SECONDS, proved
from federation_quota.ledger.view import View


@dataclass(frozen=True, slots=True)
class _Admission:
    at: float
    namespace: str
    reservation: Reservation


class Journal:
    """What one replica has admitted lately, whether or not any account took note of it."""

    def __init__(self, expiry_seconds: float = EXPIRY_SECONDS) -> None:
        self._expiry_seconds = expiry_seconds
        self._admissions: deque[_Admission] = deque()

    def note(self, namespace: str, reservation: Reservation, now: float) -> None:
        """An allow is about to be sent."""
        self._admissions.append(_Admission(now, namespace, reservation))
        self._drop(now)

    def recent(self, namespace: str, view: View, now: float) -> list[Reservation]:
        """The admissions in a namespace, or any other domain, whose writes may still come."""
        self._drop(now)
        return [
            found
            for one in self._admissions
            if (found := charged(namespace, one.namespace, one.reservation, view))
            and proved(one.namespace, one.reservation, view) is None
        ]

    def all_recent(self, view: View, now: float) -> dict[str, tuple[Reservation, ...]]:
        """The same for every namespace that has any."""
        self._drop(now)
        found: dict[str, list[Reservation]] = {}
        for one in self._admissions:
            if proved(one.namespace, one.reservation, view) is None:
                found.setdefault(one.namespace, []).append(one.reservation)
        return {place: tuple(found[place]) for place in sorted(found)}

    def _drop(self, now: float) -> None:
        while self._admissions and now - self._admissions[0].at > self._expiry_seconds:
            self._admissions.popleft()


def charged(place: str, namespace: str, reservation: Reservation, view: View) -> Reservation | None:
    """What was admitted in a namespace, as it is charged in a domain; None where it is not.

    What users and groups are charged with is not noted apart: limits that come later say whom it is charged to.
    """
    if place == namespace:
        return reservation
    if domain.is_usage(place) and domain.is_namespace(namespace) and place in view.domains_of(reservation.claim):
        return replace(reservation, binding=f"{namespace}/{reservation.binding}")
    return None


def has_joined(account: Account, replica: str) -> bool:
    """Whether the replica has brought what it knows to the account as it is now."""
    return (replica, account.shape) in account.joined


def join(account: Account, replica: str, recent: Iterable[Reservation], observed: int = 0) -> Account:
    """The account with the replica in it and what it admitted lately; to be written under the account's version.

    `observed` is the latest binding event that the replica has seen there: another one whose view is further behind
    would miss what this one saw stored, and so no longer brings. Where not everything that is brought can be noted, the
    account stays as it is: what it holds ends in time.
    """
    known = {reservation.id for reservation in account.reservations}
    brought = [one for one in recent if one.id not in known and account.lens.cost(one.claim)]
    if brought and len(known) + len(brought) > MOST_RESERVATIONS:
        return account
    shape = account.shape
    # Those who joined an earlier shape have yet to join this one.
    joined = frozenset({*(pair for pair in account.joined if pair[1] == shape), (replica, shape)})
    # What the replica was advanced is what it brings, or was never used.
    advances = tuple(one for one in account.advances if one.replica != replica)
    return replace(
        account.with_reservations((*account.reservations, *brought), observed), advances=advances, joined=joined
    )


def activate(account: Account, live: Iterable[str]) -> Account:
    """The account, active if all live replicas have joined it; `live` includes those gone too lately to be sure of."""
    if all(has_joined(account, replica) for replica in live):
        return replace(account, active_shape=account.shape)
    return account


def initialise(account: Account) -> Account:
    """The account of a store that went back in time: nothing that it remembers of versions and reservations is true."""
    return replace(account, reservations=(), advances=(), observed=0, active_shape="", joined=frozenset())
