"""KarmadaQuotas as accounts, and accounts as a KarmadaQuota's status.

Translation only, between the object that the API server stores and the values that the ledger judges with; pure. What
may stand in a quota is `validation`'s business: here, a limit that cannot be read makes the quota one that cannot be
used, and says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from federation_quota import condition, member_usage
from federation_quota.api.karmadaquota import LONGEST_SUMMARY
from federation_quota.condition import Finding
from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.quantity import ZERO, Quantity, QuantityError, parse
from federation_quota.resource_name import canonical
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import ScopeError, Selector

DENY: Final = "Deny"
HOLD: Final = "Hold"
WARN: Final = "Warn"

REPORT: Final = "Report"
CHARGE: Final = "Charge"
GRACE_SECONDS: Final = 300


class QuotaError(ValueError):
    """A stored quota that cannot be used; validation would have refused it."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What an account keeps of its KarmadaQuota beside the ledger's part."""

    on_exceeded: str
    generation: int
    status: Mapping[str, Any]  # as it was stored, with the ledger's fields in it
    charges_unbound: bool = False  # whether what members use beyond what is bound counts as used
    grace_seconds: int = GRACE_SECONDS


def read(stored: Mapping[str, Any]) -> Account:
    """The account of a stored KarmadaQuota; its `beside` is a `Quota`."""
    metadata, spec = stored["metadata"], stored.get("spec") or {}
    status = stored.get("status") or {}
    about_members = spec.get("memberUsage") or {}
    unbound_texts = status.get("unbound") or {}
    try:
        limits = {name: parse(amount) for name, amount in (spec.get("hard") or {}).items()}
        selector = Selector.from_spec(spec)
        reservations = tuple(read_reservation(one) for one in status.get("reservations") or ())
        advances = tuple(_read_advance(one) for one in status.get("advances") or ())
        observed = int(status.get("observedBindingVersion") or 0)
        charges_unbound = about_members.get("policy") == CHARGE
        # Only of what is limited now: the status may be older than the limits.
        unbound = {canonical(name): parse(text) for name, text in unbound_texts.items() if name in limits}
    except (QuantityError, ScopeError, KeyError, ValueError) as error:
        raise QuotaError(f"quota {metadata['namespace']}/{metadata['name']} cannot be used: {error}") from error
    return Account(
        namespace=metadata["namespace"],
        name=metadata["name"],
        limits=limits,
        selector=selector,
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        reservations=reservations,
        advances=advances,
        unbound=Resources(unbound) if charges_unbound else NOTHING,
        observed=observed,
        active_shape=status.get("shape") or "",
        joined=frozenset((one["replica"], one["shape"]) for one in status.get("joined") or ()),
        beside=Quota(
            on_exceeded=spec.get("onExceeded") or DENY,
            generation=metadata.get("generation", 0),
            status=status,
            charges_unbound=charges_unbound,
            grace_seconds=about_members.get("graceSeconds", GRACE_SECONDS),
        ),
    )


def quota(account: Account) -> Quota:
    """The KarmadaQuota's own part of an account that `read` gave."""
    if not isinstance(account.beside, Quota):
        raise TypeError(f"{account.name} is not the account of a KarmadaQuota")
    return account.beside


def status(account: Account, used: Resources) -> dict[str, Any]:
    """The whole status to store: what the ledger keeps, what people read of it, and everything else as it was.

    `used` is by canonical name; it is shown under the names of the limits, each in its limit's format.
    """
    amounts = {
        name: Quantity(used[canonical(name)].nano, limit.format) for name, limit in sorted(account.limits.items())
    }
    over = [name for name, amount in amounts.items() if amount > account.limits[name]]
    shown = {
        "hard": {name: limit.to_json() for name, limit in sorted(account.limits.items())},
        "used": {name: amount.to_json() for name, amount in amounts.items()},
        "summary": _summary(account, amounts),
        "exceeded": _shortened(", ".join(over)),
        "observedGeneration": quota(account).generation,
    }
    whole = {**quota(account).status, **shown, **_books(account)}
    if not whole["advances"]:  # mostly: it is for busy times only
        del whole["advances"]
    return whole


def stored_as(account: Account, whole: Mapping[str, Any]) -> Account:
    """The account with that status: for whoever adds something of its own to what `status` gave."""
    return replace(account, beside=replace(quota(account), status=whole))


def with_members(
    account: Account, figures: Sequence[member_usage.Figures], findings: Sequence[Finding], now: str
) -> Account:
    """The account with what is known of the member clusters, and charged with it where the quota says so."""
    kept = quota(account)
    unbound = member_usage.total_unbound(figures)
    whole = {
        **kept.status,
        "clusters": member_usage.write(account, figures),
        "unbound": member_usage.shown(account, unbound, leave_out_zeros=True),
        "conditions": condition.merge(
            kept.status.get("conditions") or (),
            findings,
            of=(member_usage.MEMBERS_READY, member_usage.UNBOUND_USAGE),
            now=now,
            generation=kept.generation,
        ),
    }
    for name in ("clusters", "unbound", "conditions"):
        if not whole[name]:
            del whole[name]
    charged = unbound if kept.charges_unbound else NOTHING
    return replace(stored_as(account, whole), unbound=charged)


def _books(account: Account) -> dict[str, Any]:
    return {
        "reservations": [write_reservation(one) for one in account.reservations],
        "advances": [_write_advance(one) for one in account.advances],
        "observedBindingVersion": str(account.observed),
        "shape": account.active_shape,
        "joined": [{"replica": replica, "shape": shape} for replica, shape in sorted(account.joined)],
    }


def read_reservation(stored: Mapping[str, Any]) -> Reservation:
    """A reservation as the status has it."""
    base = stored.get("base")
    return Reservation(
        id=stored["id"],
        binding=stored["binding"],
        claim=Claim(Resources.parse(stored.get("charge") or {}), stored.get("class") or ""),
        uid=stored.get("uid"),
        base=int(base) if base else None,
        time=stored.get("time") or "",
    )


def write_reservation(reservation: Reservation) -> dict[str, Any]:
    """A reservation for the status."""
    written: dict[str, Any] = {
        "id": reservation.id,
        "binding": reservation.binding,
        "charge": reservation.claim.charge.to_json(),
        "class": reservation.claim.priority_class,
        "time": reservation.time,
    }
    if reservation.uid is not None:
        written["uid"] = reservation.uid
    if reservation.base is not None:
        written["base"] = str(reservation.base)
    return written


def _read_advance(stored: Mapping[str, Any]) -> Advance:
    amounts = Resources.parse(stored.get("amounts") or {})
    return Advance(stored["id"], stored["replica"], amounts, bool(stored.get("recalled")))


def _write_advance(advance: Advance) -> dict[str, Any]:
    written: dict[str, Any] = {"id": advance.id, "replica": advance.replica, "amounts": advance.amounts.to_json()}
    return {**written, "recalled": True} if advance.is_recalled else written


def _summary(account: Account, used: Mapping[str, Quantity]) -> str:
    """As `kubectl get resourcequota` writes its REQUEST column."""
    parts = (f"{name}: {used.get(name, ZERO)}/{limit}" for name, limit in sorted(account.limits.items()))
    return _shortened(", ".join(parts))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SUMMARY else f"{text[: LONGEST_SUMMARY - 1]}…"
