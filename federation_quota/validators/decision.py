"""What a validator answers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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


def checked(answer: Any) -> Decision:  # noqa: ANN401 - whatever somebody returned
    """That answer as it is now, if it can be relied on; TypeError or ValueError where it cannot.

    What is nearly right is wrong: `Decision("no money")` means to refuse, and would let through.
    """
    if not isinstance(answer, Decision):
        raise TypeError(f"it returned {type(answer).__name__}, and no Decision")
    found: Any = answer  # what its fields really are, nobody has looked at so far
    allowed, reason, shortfall, retry = found.allowed, found.reason, found.shortfall, found.retry_after_seconds
    if not isinstance(allowed, bool):
        raise TypeError(f"`allowed` of its Decision is {type(allowed).__name__}, and neither True nor False")
    if not isinstance(reason, str):
        raise TypeError(f"`reason` of its Decision is {type(reason).__name__}, and no text")
    if not isinstance(shortfall, Mapping):
        raise TypeError(f"`shortfall` of its Decision is {type(shortfall).__name__}, and no mapping")
    missing = dict(shortfall)
    if not all(isinstance(part, str) for item in missing.items() for part in item):
        raise TypeError("`shortfall` of its Decision is to map texts to texts")
    if retry is not None and (isinstance(retry, bool) or not isinstance(retry, int | float)):
        raise TypeError(f"`retry_after_seconds` of its Decision is {type(retry).__name__}, and no number")
    if retry is not None and not (math.isfinite(retry) and retry >= 0):
        raise ValueError(f"`retry_after_seconds` of its Decision is {retry}")
    return Decision(allowed, reason, missing, retry)
