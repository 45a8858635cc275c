"""How much of an excess has lasted: what stood above zero all the time of a grace, and not what comes and goes.

Rollouts surge, deleted pods take their time, watches are not equally fast. So what counts at any moment is the least
that the excess was within the grace before it: two pods too many that stay are two, a third that comes for a minute and
goes is never counted. Pure: whoever asks says what time it is.
"""

from federation_quota.quantity import Quantity
from federation_quota.resources import NOTHING, Resources


class Grace:
    """The history of one excess, reduced to what may still matter."""

    def __init__(self, lasting: Resources = NOTHING) -> None:
        # What had lasted before this process looked, and counts as having been so until it does.
        self._earlier = lasting
        self._current: dict[str, Quantity] = {}
        # Smaller amounts before the current one, and when each was last so; both ascend.
        self._past: dict[str, list[tuple[float, Quantity]]] = {}

    @property
    def current(self) -> Resources:
        """The excess as it was last noted; before that, what had lasted earlier."""
        return Resources(self._current) + self._earlier

    def note(self, excess: Resources, now: float) -> None:
        """The excess is that much from now on."""
        for name in {*excess, *self._current, *self._earlier}:
            before, amount = self._current.get(name, self._earlier[name]), excess[name]
            past = self._past.setdefault(name, [])
            if amount > before:
                past.append((now, before))
            while past and past[-1][1] >= amount:
                past.pop()
            self._current[name] = amount
            if not past:
                del self._past[name]
                if amount.is_zero:
                    del self._current[name]
        self._earlier = NOTHING

    def lasting(self, now: float, seconds: float) -> Resources:
        """The least that the excess was within so many seconds."""
        amounts = {}
        for name, amount in self._current.items():
            past = [entry for entry in self._past.get(name, ()) if entry[0] > now - seconds]
            amounts[name] = past[0][1] if past else amount
        return Resources(amounts)

    def next_change(self, now: float, seconds: float) -> float | None:
        """In how many seconds more will have lasted, if nothing happens meanwhile."""
        turns = [at + seconds - now for past in self._past.values() for at, _ in past if at > now - seconds]
        return min(turns, default=None)

    def forget(self, now: float, seconds: float) -> None:
        """Let go of what can no longer matter, as long as the grace does not become longer."""
        for name, past in list(self._past.items()):
            kept = [entry for entry in past if entry[0] > now - seconds]
            if kept:
                self._past[name] = kept
            else:
                del self._past[name]
