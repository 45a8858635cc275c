"""What the accountant says to an ask."""

from dataclasses import dataclass

from federation_quota.ledger.denial import Denial


@dataclass(frozen=True, slots=True)
class Allowed:
    """It fits everywhere, or nothing of it is limited. `warnings` are refusals of accounts that only warn."""

    warnings: tuple[Denial, ...] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """It does not fit beside what is stored."""

    denial: Denial


@dataclass(frozen=True, slots=True)
class Later:
    """No decision could be made in time: ask again. Never a refusal."""

    reason: str
    retry_after_seconds: int = 1


@dataclass(frozen=True, slots=True)
class Exists:
    """A CREATE of what is stored already: nothing is judged, and nothing reserved."""


Answer = Allowed | Denied | Later | Exists
