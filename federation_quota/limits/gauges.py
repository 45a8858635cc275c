"""What is told of users and groups to whoever watches: so many figures and no more, of those nearest to a limit first.

There may be very many of them, each on several quotas; nobody's monitoring is to drown in them.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from federation_quota.ledger.account import Account
from federation_quota.ledger.level import APPLICATIONS
from federation_quota.limits import usage
from federation_quota.limits.subject import Subject
from federation_quota.quantity import ZERO, Quantity, parse


class Gauge(NamedTuple):
    """What somebody uses of one resource on one quota, and may use at most."""

    subject: Subject
    node: str  # empty for the whole tree
    resource: str
    used: Quantity
    limit: Quantity

    @property
    def fullness(self) -> Fraction:
        """1 at the limit. Of what nobody may have, any is beyond it."""
        if self.limit.is_zero:
            return Fraction(0 if self.used.is_zero else 2)
        return Fraction(self.used.nano, self.limit.nano)


def gauges(accounts: Iterable[Account], most: int) -> tuple[list[Gauge], int]:
    """Those of as many accounts as there is room for, as their statuses have them; and how many were left out."""
    found = [(usage.kept(account).subject, _of(account)) for account in accounts]
    found.sort(key=lambda one: (-max((gauge.fullness for gauge in one[1]), default=Fraction(0)), _key(one[0])))
    told: list[Gauge] = []
    untold = 0
    for _, own in found:
        if len(told) + len(own) > most:
            untold += 1
        else:
            told += own
    return told, untold


def _key(subject: Subject) -> tuple[str, str, str]:
    return subject.tree, subject.kind, subject.name


def _of(account: Account) -> list[Gauge]:
    """Nothing where no status was written yet, or none that can be read."""
    kept = usage.kept(account)
    try:
        return [gauge for node in kept.status.get("nodes") or () for gauge in _on(kept.subject, node)]
    except (KeyError, TypeError, AttributeError, ValueError):
        return []


def _on(subject: Subject, node: Mapping[str, Any]) -> Iterator[Gauge]:
    used = node.get("used") or {}
    for resource, limit in (node.get("maxResources") or {}).items():
        yield Gauge(subject, node["node"], resource, parse(used[resource]) if resource in used else ZERO, parse(limit))
    if node.get("maxApplications"):
        count, limit = node.get("applications") or 0, node["maxApplications"]
        yield Gauge(subject, node["node"], APPLICATIONS, parse(count), parse(limit))
