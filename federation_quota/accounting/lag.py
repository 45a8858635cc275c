"""How long a view has been behind what others have seen: for people and alarms; nothing is decided by it.

An account's observed version is a binding event that somebody has seen for sure. A view that has not reached it is
behind, from the moment when this component heard of that version.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from federation_quota.accounting.observation import Observation

# The first ones are what counts: a view that has been behind all of these has been behind for long.
_MOST: Final = 1000


class Lag:
    """One component's."""

    def __init__(self, observation: Observation, clock: Callable[[], float]) -> None:
        self._observation = observation
        self._clock = clock
        self._ahead: deque[tuple[int, float]] = deque()  # versions yet to be seen, rising, and when they were heard of

    def hear(self, version: int) -> None:
        """Somebody has seen the bindings up to that version."""
        self._drop()
        newest = self._ahead[-1][0] if self._ahead else self._observation.view.version
        if version > newest and len(self._ahead) < _MOST:
            self._ahead.append((version, self._clock()))

    def rewind(self) -> None:
        """The store went back in time: what was heard of may never come."""
        self._ahead.clear()

    def seconds(self) -> float:
        """How long the view has been behind; 0 where it is not."""
        self._drop()
        return self._clock() - self._ahead[0][1] if self._ahead else 0.0

    def _drop(self) -> None:
        while self._ahead and self._ahead[0][0] <= self._observation.view.version:
            self._ahead.popleft()
