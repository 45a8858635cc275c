"""The steps in which an elastic tree counts: thousandths of a cpu, and whole units of everything else.

Runtime is divided in whole steps, so that what is handed out adds up exactly. Which way an amount is rounded depends on
what it is: what is asked for is rounded up, what there is is rounded down, so that nobody is ever promised a part of a
step that does not exist. `validation` refuses a min or max that is not in whole steps.
"""

from collections.abc import Mapping
from typing import Final

from federation_quota.quantity import Format, Quantity
from federation_quota.resource_name import canonical

Steps = Mapping[str, int]
"""Amounts in steps, by canonical resource name."""

_NANO: Final = 10**9
_MILLI: Final = 10**6
_BINARY: Final = frozenset({"memory", "ephemeral-storage"})


def step(name: str) -> int:
    """The nano units of one step of a resource."""
    return _MILLI if canonical(name) == "cpu" else _NANO


def asked(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """What is asked for, used or promised, in steps; of several names of one resource the last counts."""
    return {canonical(name): -(-amount.nano // step(name)) for name, amount in amounts.items()}


def available(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """What there is, in steps."""
    return {canonical(name): amount.nano // step(name) for name, amount in amounts.items()}


def is_whole(name: str, amount: Quantity) -> bool:
    """Whether it is in whole steps."""
    return not amount.nano % step(name)


def quantities(steps: Steps) -> dict[str, Quantity]:
    """The same as quantities, in the format that people expect of each resource."""
    return {
        name: Quantity(count * step(name), Format.BINARY_SI if name in _BINARY else Format.DECIMAL_SI)
        for name, count in sorted(steps.items())
    }


def to_json(steps: Steps) -> dict[str, str]:
    """As an object's field has them."""
    return {name: amount.to_json() for name, amount in quantities(steps).items()}
