"""Elastic leaves as accounts, and accounts as a leaf's status: the counterpart of `karmadaquota`.

A leaf is the one account of a domain of its own (`ledger.domain`), under the name by which its tree knows it. It limits
what its spec names, to the runtime that its status publishes. As long as that says nothing of a resource, nothing of it
can be given: who asks for some is told to come again, because nobody knows yet whether there is any.

Where `spec.admission` says so it also limits what it is asked for, as a resource of its own: the ledger keeps to both.

Translation only, pure. Whoever writes a leaf writes its whole status, under the version that was read: the webhook its
books and its asks, the controllers how it stands; each leaves as it was what is the other's. What is used follows from
the books, and is written by both. Replicas are advanced nothing of a leaf (`accounting.treasurer`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from federation_quota import bookkeeping
from federation_quota.binding import Binding
from federation_quota.bookkeeping import text
from federation_quota.elastic import ask, quota, unit
from federation_quota.elastic import status as statuses
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.quota import Quota, QuotaError
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Books
from federation_quota.ledger.view import View
from federation_quota.quantity import Quantity
from federation_quota.resource_name import ADMISSION, COUNT
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import EVERYTHING


@dataclass(frozen=True, slots=True)
class Kept:
    """What an account keeps of its ElasticQuota or CompositeElasticQuota beside the ledger's part."""

    quota: Quota
    generation: int
    status: Mapping[str, Any]  # as it was stored, with the ledger's fields in it


def read(stored: Mapping[str, Any], *, is_default_group: bool = False) -> Account:
    """The account of a stored leaf; its `beside` is a `Kept`. QuotaError for all that is none, whatever its shape."""
    try:
        return _read(stored, is_default_group)
    except QuotaError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise QuotaError(f"an elastic quota cannot be used: {reason}") from error


def _read(stored: Mapping[str, Any], is_default_group: bool) -> Account:
    metadata, status = stored["metadata"], stored.get("status") or {}
    found = quota.read(stored, is_default_group=is_default_group)
    limits, fault = _limits(found, status)
    return Account(
        namespace=domain.of_leaf(found.name),
        name=found.name,
        limits=limits,
        selector=EVERYTHING,
        uid=text(metadata, "uid"),
        version=str(bookkeeping.version(metadata["resourceVersion"])),
        reservations=bookkeeping.reservations(status),
        observed=bookkeeping.observed(status),
        active_shape=text(status, "shape", ""),
        joined=bookkeeping.joined(status),
        fault=fault,
        beside=Kept(found, int(metadata.get("generation") or 0), status),
    )


def _limits(found: Quota, status: Mapping[str, Any]) -> tuple[dict[str, Quantity], str]:
    """What is limited, and why nothing can be given beyond that; what is not published is limited to nothing."""
    runtime = statuses.published(status)
    missing = sorted(found.node.resources - runtime.keys())
    fault = f"how much {', '.join(missing)} it may use now has yet to be worked out" if missing else ""
    limits = unit.quantities({name: runtime.get(name, 0) for name in found.node.resources})
    taken_in = unit.quantities(found.admission or {})
    return limits | {f"{ADMISSION}{name}": amount for name, amount in taken_in.items()}, fault


def kept(account: Account) -> Kept:
    """The quota's own part of an account that `read` gave."""
    if not isinstance(account.beside, Kept):
        raise TypeError(f"{account.name} is not the account of an elastic leaf")
    return account.beside


def is_leaf(account: Account) -> bool:
    """Whether it is a leaf's account, and not a KarmadaQuota's."""
    return isinstance(account.beside, Kept)


def stored_as(account: Account, whole: Mapping[str, Any]) -> Account:
    """The account with that status in place of its own, but for the books: for whoever changes something else in it.

    A runtime that stands in it is published by writing the account.
    """
    beside = kept(account)
    limits, fault = _limits(beside.quota, whole)
    return replace(account, limits=limits, fault=fault, beside=replace(beside, status=whole))


def published(account: Account) -> dict[str, int]:
    """The runtime that it publishes, in steps."""
    return statuses.published(kept(account).status)


def asks(account: Account) -> tuple[Ask, ...]:
    """What was refused lately."""
    return ask.read(kept(account).status)


def with_asks(account: Account, wanted: Sequence[Ask]) -> Account:
    """The account with these asks."""
    return stored_as(account, {**kept(account).status, "asks": ask.write(wanted)})


def status(account: Account, used: Resources) -> dict[str, Any]:
    """The whole status to store: what the ledger keeps, what is used of it, and everything else as it was."""
    steps = _used(account, used)
    shown = {"used": unit.to_json(steps), "summary": statuses.summary(steps, published(account))}
    return bookkeeping.written(account, {**kept(account).status, **shown})


def _used(account: Account, used: Resources) -> dict[str, int]:
    return unit.asked({name: used[name] for name in account.limits if not name.startswith(ADMISSION)})


def taken(account: Account, view: View) -> dict[str, int]:
    """What nobody else can have, in steps: what is stored, and what is reserved."""
    return _used(account, Books(account, view).used)


def claim(binding: Binding) -> Claim:
    """What a binding costs the leaf that it is under: what it was given, and what it asks for as such."""
    return Claim(_charge(binding.assigned, binding.demand))


def asking(demand: Resources) -> Claim:
    """What asking for that much costs a leaf, before anything is given."""
    return Claim(_charge(NOTHING, demand))


@lru_cache(maxsize=65536)  # most bindings are like many others
def _charge(assigned: Resources, demand: Resources) -> Resources:
    given = {name: amount for name, amount in assigned.items() if not name.startswith(ADMISSION)}
    for name, amount in demand.maximum(assigned).items():
        if not name.startswith((COUNT, ADMISSION)):
            given[f"{ADMISSION}{name}"] = amount
    return Resources(given)


def wants(account: Account, binding: Binding) -> Resources:
    """What a binding asks for, or has, of what the leaf limits; nothing where the leaf has no reason to hold it."""
    return account.lens.cost(Claim(binding.demand.maximum(binding.assigned)))
