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
from federation_quota.api.meta import LONGEST_NAME, LONGEST_UID, MOST_RESOURCES
from federation_quota.condition import Finding
from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.quantity import ZERO, Quantity, parse
from federation_quota.resource_name import canonical
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import ScopeError, Selector

DENY: Final = "Deny"
HOLD: Final = "Hold"
WARN: Final = "Warn"

REPORT: Final = "Report"
CHARGE: Final = "Charge"
GRACE_SECONDS: Final = 300

_LONGEST_VERSION: Final = 20
# Of one reservation. A status has to fit into what etcd stores, with a thousand of them; a few hundred is usual.
_LONGEST_CHARGE: Final = 4096
_SHORT: Final = 10**30  # nano units: no amount below has a longer text than this
_SHORT_LENGTH: Final = 40


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
    """The account of a stored KarmadaQuota; its `beside` is a `Quota`.

    QuotaError for all that is none, whatever its shape: an API server with another schema may have stored it.
    """
    try:
        return _read(stored)
    except (ScopeError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise QuotaError(f"quota {_place(stored)} cannot be used: {reason}") from error


def _read(stored: Mapping[str, Any]) -> Account:
    metadata, spec = stored["metadata"], stored.get("spec") or {}
    status = stored.get("status") or {}
    about_members = spec.get("memberUsage") or {}
    unbound_texts = status.get("unbound") or {}
    limits = {name: parse(amount) for name, amount in (spec.get("hard") or {}).items()}
    charges_unbound = about_members.get("policy") == CHARGE
    # Only of what is limited now: the status may be older than the limits.
    unbound = {canonical(name): parse(text) for name, text in unbound_texts.items() if name in limits}
    return Account(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        limits=limits,
        selector=Selector.from_spec(spec),
        uid=_text(metadata, "uid"),
        version=str(_version(metadata["resourceVersion"])),
        reservations=tuple(read_reservation(one) for one in status.get("reservations") or ()),
        advances=tuple(_read_advance(one) for one in status.get("advances") or ()),
        unbound=Resources(unbound) if charges_unbound else NOTHING,
        observed=_version(status.get("observedBindingVersion") or "0"),
        active_shape=_text(status, "shape", ""),
        joined=frozenset((_text(one, "replica"), _text(one, "shape")) for one in status.get("joined") or ()),
        beside=Quota(
            on_exceeded=_text(spec, "onExceeded", DENY),
            generation=int(metadata.get("generation") or 0),
            status=status,
            charges_unbound=charges_unbound,
            grace_seconds=int(about_members.get("graceSeconds", GRACE_SECONDS)),
        ),
    )


def _place(stored: object) -> str:
    metadata = stored.get("metadata") if isinstance(stored, Mapping) else None
    known = metadata if isinstance(metadata, Mapping) else {}
    return f"{str(known.get('namespace', ''))[:80]}/{str(known.get('name', ''))[:80]}"


def _text(parent: Mapping[str, Any], field: str, otherwise: str | None = None) -> str:
    value = parent[field] if otherwise is None else parent.get(field) or otherwise
    if not isinstance(value, str):
        raise TypeError(f"{field} is not text")
    return value


def _version(value: object) -> int:
    """A resourceVersion; never a sign, a space or an underscore, which Python would read as well."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > _LONGEST_VERSION:
        raise ValueError("a resourceVersion is not a number")
    return int(value)


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
    base, uid = stored.get("base"), stored.get("uid")
    return Reservation(
        id=_text(stored, "id"),
        binding=_text(stored, "binding"),
        claim=Claim(Resources.parse(stored.get("charge") or {}), _text(stored, "class", "")),
        uid=None if uid is None else _text(stored, "uid"),
        base=_version(base) if base else None,
        time=_text(stored, "time", ""),
    )


def unwritable(reservation: Reservation) -> str:
    """Why no status could hold this reservation; empty where it can.

    An account is written as a whole: one reservation that the API server does not take would hold up all others.
    """
    claim = reservation.claim
    if len(claim.charge) > MOST_RESOURCES:
        return f"it asks for {len(claim.charge)} resources, and a quota accounts for {MOST_RESOURCES} at most"
    if _is_too_long(claim.charge):
        return f"the names and amounts of what it asks for have more than {_LONGEST_CHARGE} characters"
    for what, text, longest in (
        ("name", reservation.binding, LONGEST_NAME),
        ("uid", reservation.uid or "", LONGEST_UID),
        ("priority class", claim.priority_class, LONGEST_NAME),
    ):
        if len(text) > longest:
            return f"its {what} has more than {longest} characters"
    return ""


def _is_too_long(charge: Resources) -> bool:
    # Asked at every admission: amounts that are known to be short are not written out for it.
    is_short = all(abs(amount.nano) < _SHORT for _, amount in charge.items())
    if is_short and sum(len(name) + _SHORT_LENGTH for name in charge) <= _LONGEST_CHARGE:
        return False
    return sum(len(name) + len(text) for name, text in charge.to_json().items()) > _LONGEST_CHARGE


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
    return Advance(_text(stored, "id"), _text(stored, "replica"), amounts, bool(stored.get("recalled")))


def _write_advance(advance: Advance) -> dict[str, Any]:
    written: dict[str, Any] = {"id": advance.id, "replica": advance.replica, "amounts": advance.amounts.to_json()}
    return {**written, "recalled": True} if advance.is_recalled else written


def _summary(account: Account, used: Mapping[str, Quantity]) -> str:
    """As `kubectl get resourcequota` writes its REQUEST column."""
    parts = (f"{name}: {used.get(name, ZERO)}/{limit}" for name, limit in sorted(account.limits.items()))
    return _shortened(", ".join(parts))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SUMMARY else f"{text[: LONGEST_SUMMARY - 1]}…"
