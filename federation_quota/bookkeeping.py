"""The ledger's part of a status: reservations, advances, and who has joined; the same in every kind of account.

Translation only, between the fields of a stored status and the ledger's values; pure. What is not well-formed raises
whatever Python raises: whoever reads a whole quota says which one it was.
"""

from collections.abc import Mapping
from typing import Any, Final

from federation_quota.bounds import LONGEST_NAME, LONGEST_UID, MOST_RESOURCES
from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.resources import Resources

_LONGEST_VERSION: Final = 20
# Of one reservation. A status has to fit into what etcd stores, with a thousand of them; a few hundred is usual.
_LONGEST_CHARGE: Final = 4096
_SHORT: Final = 10**30  # nano units: no amount below has a longer text than this
_SHORT_LENGTH: Final = 40


def reservations(status: Mapping[str, Any]) -> tuple[Reservation, ...]:
    """The reservations in a status."""
    return tuple(read_reservation(one) for one in status.get("reservations") or ())


def advances(status: Mapping[str, Any]) -> tuple[Advance, ...]:
    """The advances in a status."""
    return tuple(_read_advance(one) for one in status.get("advances") or ())


def observed(status: Mapping[str, Any]) -> int:
    """The version of bindings that a view must have reached."""
    return version(status.get("observedBindingVersion") or "0")


def joined(status: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Who has joined, and for which shape."""
    return frozenset((text(one, "replica"), text(one, "shape")) for one in status.get("joined") or ())


def written(account: Account, beside: Mapping[str, Any]) -> dict[str, Any]:
    """A whole status: the account's books, and everything else as it is given."""
    whole = {
        **beside,
        "reservations": [write_reservation(one) for one in account.reservations],
        "advances": [_write_advance(one) for one in account.advances],
        "observedBindingVersion": str(account.observed),
        "shape": account.active_shape,
        "joined": [{"replica": replica, "shape": shape} for replica, shape in sorted(account.joined)],
    }
    if not whole["advances"]:  # mostly: it is for busy times only
        del whole["advances"]
    return whole


def read_reservation(stored: Mapping[str, Any]) -> Reservation:
    """A reservation as the status has it."""
    base, uid = stored.get("base"), stored.get("uid")
    return Reservation(
        id=text(stored, "id"),
        binding=text(stored, "binding"),
        claim=Claim(Resources.parse(stored.get("charge") or {}), text(stored, "class", "")),
        uid=None if uid is None else text(stored, "uid"),
        base=version(base) if base else None,
        time=text(stored, "time", ""),
    )


def write_reservation(reservation: Reservation) -> dict[str, Any]:
    """A reservation for the status."""
    found: dict[str, Any] = {
        "id": reservation.id,
        "binding": reservation.binding,
        "charge": reservation.claim.charge.to_json(),
        "class": reservation.claim.priority_class,
        "time": reservation.time,
    }
    if reservation.uid is not None:
        found["uid"] = reservation.uid
    if reservation.base is not None:
        found["base"] = str(reservation.base)
    return found


def unwritable(reservation: Reservation, longest_name: int = LONGEST_NAME) -> str:
    """Why no status could hold this reservation; empty where it can.

    An account is written as a whole: one reservation that the API server does not take would hold up all others.
    """
    claim = reservation.claim
    if len(claim.charge) > MOST_RESOURCES:
        return f"it asks for {len(claim.charge)} resources, and a quota accounts for {MOST_RESOURCES} at most"
    if _is_too_long(claim.charge):
        return f"the names and amounts of what it asks for have more than {_LONGEST_CHARGE} characters"
    for what, said, longest in (
        ("name", reservation.binding, longest_name),
        ("uid", reservation.uid or "", LONGEST_UID),
        ("priority class", claim.priority_class, LONGEST_NAME),
    ):
        if len(said) > longest:
            return f"its {what} has more than {longest} characters"
    return ""


def text(parent: Mapping[str, Any], field: str, otherwise: str | None = None) -> str:
    """A field that is text, and nothing else."""
    value = parent[field] if otherwise is None else parent.get(field) or otherwise
    if not isinstance(value, str):
        raise TypeError(f"{field} is not text")
    return value


def version(value: object) -> int:
    """A resourceVersion; never a sign, a space or an underscore, which Python would read as well."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > _LONGEST_VERSION:
        raise ValueError("a resourceVersion is not a number")
    return int(value)


def _is_too_long(charge: Resources) -> bool:
    # Asked at every admission: amounts that are known to be short are not written out for it.
    is_short = all(abs(amount.nano) < _SHORT for _, amount in charge.items())
    if is_short and sum(len(name) + _SHORT_LENGTH for name in charge) <= _LONGEST_CHARGE:
        return False
    return sum(len(name) + len(amount) for name, amount in charge.to_json().items()) > _LONGEST_CHARGE


def _read_advance(stored: Mapping[str, Any]) -> Advance:
    amounts = Resources.parse(stored.get("amounts") or {})
    is_recalled, is_granted = bool(stored.get("recalled")), bool(stored.get("granted"))
    return Advance(text(stored, "id"), text(stored, "replica"), amounts, is_recalled, is_granted)


def _write_advance(advance: Advance) -> dict[str, Any]:
    found: dict[str, Any] = {"id": advance.id, "replica": advance.replica, "amounts": advance.amounts.to_json()}
    if advance.is_granted:
        found["granted"] = True
    return {**found, "recalled": True} if advance.is_recalled else found
