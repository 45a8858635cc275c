"""Amounts of several resources at once: what a binding costs, what an account has, what is left.

`Resources` is a vector over canonical resource names (`resource_name.canonical`). What is not named is zero, and zeros
are not kept, so that two vectors are equal exactly when they mean the same. Limits, where an absent name means
something else than zero, are not `Resources`.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Final

from federation_quota.quantity import ZERO, Quantity, parse


class Resources(Mapping[str, Quantity]):
    """An immutable vector of exact amounts."""

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, Quantity] | Iterable[tuple[str, Quantity]] = ()) -> None:
        pairs = amounts.items() if isinstance(amounts, Mapping) else amounts
        self._hash: int
        self._amounts = {name: amount for name, amount in pairs if not amount.is_zero}

    @classmethod
    def parse(cls, texts: Mapping[str, str | int]) -> "Resources":
        """Read the amounts of an object's field; QuantityError for the first that is none."""
        return cls({name: parse(text) for name, text in texts.items()})

    @classmethod
    def sum(cls, parts: Iterable["Resources"]) -> "Resources":
        """All of them together, in one pass: adding one after the other copies what there is each time."""
        total: dict[str, Quantity] = {}
        for part in parts:
            for name, amount in part._amounts.items():
                total[name] = total[name] + amount if name in total else amount
        return cls(total)

    @classmethod
    def largest(cls, parts: Iterable["Resources"]) -> "Resources":
        """The largest amount of each resource in any of them, in one pass; amounts are not negative here."""
        larger: dict[str, Quantity] = {}
        for part in parts:
            for name, amount in part._amounts.items():
                if name not in larger or larger[name] < amount:
                    larger[name] = amount
        return cls(larger)

    def __getitem__(self, name: str) -> Quantity:
        """The amount of that resource: zero where it is not named."""
        return self._amounts.get(name, ZERO)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __eq__(self, other: object) -> bool:
        return self._amounts == other._amounts if isinstance(other, Resources) else NotImplemented

    def __hash__(self) -> int:
        # Worked out once: equal vectors are looked up to be shared, each many times.
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self._amounts.items()))
            return self._hash

    def items(self) -> ItemsView[str, Quantity]:
        """Names and amounts; the table's own, which is walked much faster than a Mapping's."""
        return self._amounts.items()

    def __add__(self, other: "Resources") -> "Resources":
        if not other._amounts:
            return self
        if not self._amounts:
            return other
        total = self._amounts.copy()
        for name, amount in other._amounts.items():
            known = total.get(name)
            _keep(total, name, amount if known is None else known + amount)
        return _made(total)

    def __sub__(self, other: "Resources") -> "Resources":
        """Exactly what is left, below zero where more is taken than is there."""
        if not other._amounts:
            return self
        total = self._amounts.copy()
        for name, amount in other._amounts.items():
            known = total.get(name)
            _keep(total, name, -amount if known is None else known - amount)
        return _made(total)

    def __mul__(self, count: int) -> "Resources":
        if count == 1:
            return self
        return Resources({name: amount * count for name, amount in self._amounts.items()})

    def maximum(self, other: "Resources") -> "Resources":
        """The larger amount of each resource; amounts are not negative here."""
        if not other._amounts or other is self:
            return self
        larger = self._amounts.copy()
        for name, amount in other._amounts.items():
            known = larger.get(name)
            if known is None or known < amount:
                larger[name] = amount
        return _made(larger)

    def to_json(self) -> dict[str, str]:
        """As an object's field has it, names in order."""
        return {name: self._amounts[name].to_json() for name in sorted(self._amounts)}

    def __repr__(self) -> str:
        return f"Resources({', '.join(f'{name}={self._amounts[name]}' for name in sorted(self._amounts))})"


def _keep(amounts: dict[str, Quantity], name: str, amount: Quantity) -> None:
    if amount.is_zero:
        amounts.pop(name, None)
    else:
        amounts[name] = amount


def _made(amounts: dict[str, Quantity]) -> Resources:
    """The vector of amounts none of which is zero: every admission makes a dozen, and need not look again."""
    made = Resources.__new__(Resources)
    made._amounts = amounts
    return made


NOTHING: Final = Resources()
