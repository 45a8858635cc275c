"""How long to wait before trying again: exponential, bounded, jittered. Values only; nobody sleeps here."""

import random
from collections.abc import Callable
from dataclasses import dataclass

# A place in [0, 1): `random.random` in production, a constant in tests.
Jitter = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double (or so) up to a cap, each spread over its upper half so that many do not return at once."""

    first_seconds: float = 0.2
    most_seconds: float = 10.0
    factor: float = 2.0

    def delay(self, failures: int, jitter: Jitter = random.random) -> float:
        """After so many failures in a row, the first counted as 1."""
        # The exponent is bounded: a key that failed for days must not end in an overflow.
        grown = self.first_seconds * self.factor ** min(max(failures - 1, 0), 64)
        return min(self.most_seconds, grown) * (0.5 + 0.5 * jitter())
