"""What the accountant has to tell whoever measures it."""

from typing import Protocol

from federation_quota.ledger.account import Account
from federation_quota.ledger.reservation import Reservation


class Meter(Protocol):
    """Counts. Called in the middle of admissions: it must neither wait nor fail."""

    def committed(self, admissions: int) -> None:
        """One write was stored that carried so many admissions."""

    def spent(self, account: Account, reservation: Reservation) -> None:
        """One was admitted from an advance, without a write."""


class NoMeter:
    """Nobody measures."""

    def committed(self, admissions: int) -> None:
        """Nothing follows from it."""

    def spent(self, account: Account, reservation: Reservation) -> None:
        """Nothing follows from it."""
