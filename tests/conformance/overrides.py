"""Where the product differs from a peer on purpose: a predicate over the vector, and the reason.

Never a list of names or inputs: other vectors of the same kind must meet the same rule. An override does not excuse a
case; the test module that asks for it says what is expected instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.vectors import Case


@dataclass(frozen=True, slots=True)
class Override:
    """One deliberate difference."""

    reason: str
    applies_to: Callable[[Case], bool]
