"""Accounts, claims and reservations, as the tests of the ledger and of accounting write them."""

from collections.abc import Mapping

from hypothesis import strategies as st

from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from federation_quota.scope import EVERYTHING, Selector
from tests.conformance.bookstore import NAMESPACE

CLASSES = ("", "gold", "silver")
RESOURCES = ("cpu", "memory", "pods", "count/deployments.apps")


def claim(amounts: int | Mapping[str, str | int], priority_class: str = "") -> Claim:
    """A claim of these amounts; a number alone is so much cpu."""
    return Claim(Resources.parse({"cpu": amounts} if isinstance(amounts, int) else amounts), priority_class)


def quota(name: str = "quota", limits: int | Mapping[str, str | int] = 10, selector: Selector = EVERYTHING) -> Account:
    """An account with these limits; a number alone is so much cpu."""
    given = {"cpu": limits} if isinstance(limits, int) else limits
    return Account(NAMESPACE, name, {resource: parse(limit) for resource, limit in given.items()}, selector)


def of_class(*names: str) -> Selector:
    """What a quota for these priority classes selects."""
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": list(names)}
    return Selector.from_spec({"scopeSelector": {"matchExpressions": [expression]}})


def without_class() -> Selector:
    """What a quota for workloads without a priority class selects."""
    expression = {"scopeName": "PriorityClass", "operator": "DoesNotExist"}
    return Selector.from_spec({"scopeSelector": {"matchExpressions": [expression]}})


def creation(identifier: str, claimed: Claim | int, binding: str = "") -> Reservation:
    """What is held for a CREATE; the binding is called as the reservation unless it is named."""
    name = binding or identifier
    held = claim(claimed) if isinstance(claimed, int) else claimed
    return Reservation(identifier, name, held, uid=f"uid-{name}")


def change(identifier: str, claimed: Claim | int, binding: str, base: int) -> Reservation:
    """What is held for an UPDATE of that version."""
    held = claim(claimed) if isinstance(claimed, int) else claimed
    return Reservation(identifier, binding, held, base=base)


def holding(account: Account, *reservations: Reservation) -> Account:
    """The account with these reservations more."""
    return account.with_reservations((*account.reservations, *reservations))


AMOUNTS = st.integers(0, 6)
CLAIMS = st.builds(claim, st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS, max_size=4), st.sampled_from(CLASSES))
SELECTORS = st.sampled_from([EVERYTHING, of_class("gold"), of_class("gold", "silver"), without_class()])
