"""What the accountant has to tell whoever measures it."""

from typing import Protocol


class Meter(Protocol):
    """Counts. Called in the middle of admissions: it must neither wait nor fail."""

    def committed(self, admissions: int) -> None:
        """One write was stored that carried so many admissions."""


class NoMeter:
    """Nobody measures."""

    def committed(self, admissions: int) -> None:
        """Nothing follows from it."""
