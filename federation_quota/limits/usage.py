"""Accounts of users and groups: from stored UsageAccounts, and as their status. The counterpart of `karmadaquota`.

What is limited does not stand in the object: it follows from the limits of its tree, as whoever looks knows them, and
`fitted` brings the two together. What has been reserved does: each reservation with its whole charge and the leaf it is
under, so that other limits find in it what they need.

Translation only, pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from federation_quota import bookkeeping
from federation_quota.bookkeeping import text
from federation_quota.ledger.account import Account
from federation_quota.ledger.lens import Lens
from federation_quota.ledger.level import APPLICATIONS, compact, split, spread
from federation_quota.ledger.reservation import Reservation
from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.lens import UsageLens
from federation_quota.limits.limit import WILDCARD
from federation_quota.limits.scheme import Scheme, Schemes
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.quantity import ZERO, Quantity
from federation_quota.resources import Resources
from federation_quota.scope import EVERYTHING
from federation_quota.stamp import Owner

MOST_NODES: Final = 256
LONGEST_SUMMARY: Final = 65536


class UsageError(ValueError):
    """A stored account that cannot be used."""


@dataclass(frozen=True)
class UsageAccount(Account):
    """The account of a user or group; without a lens, by limits that nobody has looked up yet, it limits nothing."""

    sight: UsageLens | None = None

    @cached_property
    def lens(self) -> Lens:
        """What it sees of a claim."""
        return self.sight or Lens(EVERYTHING, frozenset())

    @property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """By canonical name, the names that the user wrote for it: these are canonical as they are."""
        return self.sight.own_names if self.sight else {}

    def storable(self, amounts: Resources) -> Resources:
        """At least these amounts, as a status can hold them of an advance."""
        return spread(Resources(compact(amounts, self.limits)), self.limits)

    @property
    def title(self) -> str:
        """What it is called to people."""
        subject = kept(self).subject
        return f"limit of {subject} in tree {subject.tree}"


@dataclass(frozen=True, slots=True)
class Kept:
    """What an account keeps of its object beside the ledger's part."""

    subject: Subject
    status: Mapping[str, Any]  # as it was stored, with the ledger's fields in it


def manifest(subject: Subject) -> dict[str, Any]:
    """The object of a subject's account, to be created."""
    return {
        "apiVersion": "quota.karmada.io/v1alpha1",
        "kind": "UsageAccount",
        "metadata": {"name": subject.account},
        "spec": {"tree": subject.tree, "kind": subject.kind, "name": subject.name},
    }


def unopened(subject: Subject) -> UsageAccount:
    """The account of a subject that has none: nothing was ever written of it."""
    made = manifest(subject)
    return read({**made, "metadata": {**made["metadata"], "uid": "", "resourceVersion": "0"}})


def read(stored: Mapping[str, Any]) -> UsageAccount:
    """The account of a stored UsageAccount; UsageError for all that is none, whatever its shape."""
    try:
        return _read(stored)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"a UsageAccount cannot be used: {reason}") from error


def _read(stored: Mapping[str, Any]) -> UsageAccount:
    metadata, spec, status = stored["metadata"], stored["spec"], stored.get("status") or {}
    subject = Subject(text(spec, "tree"), text(spec, "kind"), text(spec, "name"))
    if subject.kind not in (USER, GROUP) or subject.account != metadata["name"]:
        raise ValueError(f"{metadata['name']} is not what the account of {subject} is called")
    return UsageAccount(
        namespace=subject.domain,
        name=subject.account,
        limits={},
        selector=EVERYTHING,
        uid=text(metadata, "uid"),
        version=str(bookkeeping.version(metadata["resourceVersion"])),
        reservations=tuple(_reservation(one, subject) for one in status.get("reservations") or ()),
        advances=bookkeeping.advances(status),
        observed=bookkeeping.observed(status),
        active_shape=text(status, "shape", ""),
        joined=bookkeeping.joined(status),
        beside=Kept(subject, status),
    )


def _reservation(stored: Mapping[str, Any], subject: Subject) -> Reservation:
    found = bookkeeping.read_reservation(stored)
    return replace(found, claim=replace(found.claim, leaf=text(stored, "leaf"), owner=anybody(subject)))


def anybody(subject: Subject) -> Owner:
    """Somebody who counts for a subject: who it was is not repeated in each entry of a status."""
    if subject.kind == USER:
        return Owner(subject.name)
    return Owner("", () if subject.name == WILDCARD else (subject.name,))


def kept(account: Account) -> Kept:
    """The object's own part of an account that `read` gave."""
    if not isinstance(account.beside, Kept):
        raise TypeError(f"{account.name} is not the account of a user or group")
    return account.beside


def is_usage(account: Account) -> bool:
    """Whether it is a user's or group's account."""
    return isinstance(account, UsageAccount)


def fitted(account: Account, schemes: Schemes) -> Account:
    """The account as these limits make it; all other accounts as they are."""
    if not isinstance(account, UsageAccount):
        return account
    subject = kept(account).subject
    scheme = schemes.by_tree.get(subject.tree)
    known = account.sight.scheme if account.sight else None
    if known is scheme and known is not None:
        return account
    sight = UsageLens.of(subject, scheme or Scheme(subject.tree))
    advances = tuple(replace(one, amounts=spread(one.amounts, sight.limits)) for one in account.advances)
    return replace(account, limits=sight.limits, sight=sight, advances=advances)


def stored_as(account: Account, whole: Mapping[str, Any]) -> Account:
    """The account with that status in place of its own, but for the books."""
    return replace(account, beside=replace(kept(account), status=whole))


def status(account: Account, used: Resources) -> dict[str, Any]:
    """The whole status to store: what the ledger keeps, what people read of it, and everything else as it was."""
    levels = _levels(account, used)
    over = [f"{one} on {level.title}" for level in levels for one in level.exceeded]
    shown = {
        "nodes": [level.to_json() for level in levels],
        "summary": "; ".join(f"{level.title}: {level.summary}" for level in levels)[:LONGEST_SUMMARY],
        "exceeded": ", ".join(over)[:LONGEST_SUMMARY],
    }
    advances = tuple(replace(one, amounts=Resources(compact(one.amounts, account.limits))) for one in account.advances)
    whole = bookkeeping.written(replace(account, advances=advances), {**kept(account).status, **shown})
    for written, reservation in zip(whole["reservations"], account.reservations, strict=True):
        written["leaf"] = reservation.claim.leaf
    return whole


@dataclass(frozen=True, slots=True)
class _Level:
    """One node, as a status shows it."""

    node: str
    title: str
    amounts: Mapping[str, tuple[Quantity, Quantity]]
    """Used and limit, by resource."""

    @property
    def summary(self) -> str:
        return ", ".join(f"{name} {used}/{limit}" for name, (used, limit) in self.amounts.items())

    @property
    def exceeded(self) -> list[str]:
        return [name for name, (used, limit) in self.amounts.items() if used > limit]

    def to_json(self) -> dict[str, Any]:
        resources = {name: pair for name, pair in self.amounts.items() if name != APPLICATIONS}
        found: dict[str, Any] = {
            "node": self.node,
            "used": {name: used.to_json() for name, (used, _) in resources.items()},
            "maxResources": {name: limit.to_json() for name, (_, limit) in resources.items()},
        }
        if APPLICATIONS in self.amounts:
            used, limit = self.amounts[APPLICATIONS]
            found |= {"applications": used.whole(), "maxApplications": limit.whole()}
        return found


def _levels(account: Account, used: Resources) -> list[_Level]:
    """The nodes on which something of it is used, or that name it; where there are very many, the first by name."""
    subject = kept(account).subject
    by_node: dict[str, dict[str, tuple[Quantity, Quantity]]] = {}
    for name, limit in sorted(account.limits.items()):
        resource, node = split(name)
        by_node.setdefault(node, {})[resource] = (Quantity(used[name].nano, limit.format), limit)
    naming = account.sight.naming if isinstance(account, UsageAccount) and account.sight else frozenset()
    wanted = [
        node
        for node, amounts in sorted(by_node.items())
        if node in naming or any(amount != ZERO for amount, _ in amounts.values())
    ]
    return [_Level(node, title(subject.tree, node), by_node[node]) for node in wanted[:MOST_NODES]]


def title(tree: str, node: str) -> str:
    """What a node is called to people: the root has the name of its tree."""
    return node if node != ROOT else f"tree {tree}"
