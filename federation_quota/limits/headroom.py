"""What is left for a binding: the least of what its owner and its group have left, from its leaf to the root."""

from collections.abc import Iterable

from federation_quota.ledger.judging import Books
from federation_quota.ledger.level import APPLICATIONS
from federation_quota.limits.lens import UsageLens
from federation_quota.quantity import Quantity


def headroom(accounts: Iterable[Books], leaf: str) -> dict[str, Quantity]:
    """By canonical name, and below zero where a limit was lowered under what is used; what is not named is not limited.

    Applications are among it, by their own name.
    """
    left: dict[str, Quantity] = {}
    for books in accounts:
        lens = books.account.lens
        if not isinstance(lens, UsageLens):
            raise TypeError(f"{books.account.name} is not the account of a user or group")
        for resource, name in lens.limited(leaf):
            limit = lens.limits[name]
            rest = Quantity(limit.nano - books.used[name].nano, limit.format)
            if resource not in left or rest < left[resource]:
                left[resource] = rest
    return left


def of_resources(left: dict[str, Quantity]) -> dict[str, Quantity]:
    """The same without applications."""
    return {name: amount for name, amount in left.items() if name != APPLICATIONS}
