"""KarmadaQuotas as accounts, and accounts as a KarmadaQuota's status.

Translation only, between the object that the API server stores and the values that the ledger judges with; pure. What
may stand in a quota is `validation`'s business: here, a limit that cannot be read makes the quota one that cannot be
used, and says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from federation_quota import bookkeeping, condition, member_usage
from federation_quota.bookkeeping import text
from federation_quota.bounds import LONGEST_SUMMARY
from federation_quota.condition import Finding
from federation_quota.ledger.account import Account
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
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        limits=limits,
        selector=Selector.from_spec(spec),
        uid=text(metadata, "uid"),
        version=str(bookkeeping.version(metadata["resourceVersion"])),
        reservations=bookkeeping.reservations(status),
        advances=bookkeeping.advances(status),
        unbound=Resources(unbound) if charges_unbound else NOTHING,
        observed=bookkeeping.observed(status),
        active_shape=text(status, "shape", ""),
        joined=bookkeeping.joined(status),
        beside=Quota(
            on_exceeded=text(spec, "onExceeded", DENY),
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
    return bookkeeping.written(account, {**quota(account).status, **shown})


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


def _summary(account: Account, used: Mapping[str, Quantity]) -> str:
    """As `kubectl get resourcequota` writes its REQUEST column."""
    parts = (f"{name}: {used.get(name, ZERO)}/{limit}" for name, limit in sorted(account.limits.items()))
    return _shortened(", ".join(parts))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SUMMARY else f"{text[: LONGEST_SUMMARY - 1]}…"
