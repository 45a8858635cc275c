"""What a validator answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# What people read of a refusal; the rest is left out.
LONGEST_REASON: Final = 1024
MOST_SHORTFALLS: Final = 16


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes, or not now. A refusal is never for good: what was refused waits, and is asked about again."""

    allowed: bool
    reason: str = ""
    """For people: why not."""
    shortfall: Mapping[str, str] = field(default_factory=dict)
    """How much is missing, and of what, in whatever units people think in: `{"EUR per day": "12.50"}`."""
    retry_after_seconds: float | None = None
    """When to ask again even if the tenant's use has not fallen; None: when the host sees fit."""

    @property
    def message(self) -> str:
        """The reason and what is missing, on one line."""
        missing = sorted(self.shortfall.items())[:MOST_SHORTFALLS]
        short = ", ".join(f"{name}={amount}" for name, amount in missing)
        said = f"{self.reason or 'it gives no reason'}" + (f" (short of: {short})" if short else "")
        return " ".join(said.split())[:LONGEST_REASON]


ALLOWED: Final = Decision(True)


def allow() -> Decision:
    """Yes."""
    return ALLOWED


def refuse(
    reason: str, shortfall: Mapping[str, str] | None = None, retry_after_seconds: float | None = None
) -> Decision:
    """Not now."""
    return Decision(False, reason, shortfall or {}, retry_after_seconds)
