"""What an account says to an ask."""

from dataclasses import dataclass

from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Exceeded, Verdict


@dataclass(frozen=True, slots=True)
class Overdrawn:
    """Admitted and written although it does not fit, because the ask may exceed."""

    exceeded: tuple[Exceeded, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """No verdict before the ask's deadline."""

    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no such account any more."""


Outcome = Verdict | Overdrawn | Undecided | Gone


@dataclass(frozen=True, slots=True)
class Judgement:
    """An outcome, and the very account that it was given by."""

    outcome: Outcome
    account: Account | None
