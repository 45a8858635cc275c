"""How often the same thing may be done again, and how often anything at all: for writes that only inform people.

Pure; the caller brings the clock. What is done seldom is done at once; what would be done again and again waits a
moment, so that one write says what a hundred would have said. Nobody waits longer than the longest wait, however many
there are: what people read may be old, but not older than that.
"""

from collections.abc import Hashable
from typing import Final

# Beyond this, keys that were last done long ago are forgotten: they would not have to wait.
_MOST_REMEMBERED: Final = 4096


class Pace:
    """One for all keys. Whoever asks has a turn from then on, until it is `done` or `passed`."""

    def __init__(self, *, seconds: float, per_second: float, burst: float, longest_seconds: float) -> None:
        self._seconds = seconds
        self._per_second = per_second
        self._burst = burst
        self._longest_seconds = longest_seconds
        self._tokens = burst  # below nothing: so many have a turn that has yet to come
        self._filled_at: float | None = None
        self._turns: dict[Hashable, float] = {}
        self._done_at: dict[Hashable, float] = {}

    def wait_seconds(self, key: Hashable, now: float) -> float:
        """How long to wait before it is done; 0: now."""
        if key not in self._turns:
            self._fill(now)
            self._tokens = max(self._tokens - 1, -self._per_second * self._longest_seconds)
            since = self._done_at.get(key)
            own = 0.0 if since is None else since + self._seconds - now
            self._turns[key] = now + max(0.0, own, -self._tokens / self._per_second)
        return max(0.0, self._turns[key] - now)

    def done(self, key: Hashable, now: float) -> None:
        """It was done."""
        self._turns.pop(key, None)
        self._done_at[key] = now
        if len(self._done_at) > _MOST_REMEMBERED:
            self._done_at = {one: at for one, at in self._done_at.items() if at + self._seconds > now}

    def passed(self, key: Hashable) -> None:
        """There was nothing to do: its turn is for others."""
        if self._turns.pop(key, None) is not None:
            self._tokens = min(self._burst, self._tokens + 1)

    def _fill(self, now: float) -> None:
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
