"""Changes that were let through and are not seen in the store yet: the next change is judged beside them too.

Otherwise two quotas that come at once would each fit below a parent that has room for one. A change may never arrive,
because somebody else refused it: it is forgotten when the object is seen past it, or when no write that was let through
then can still be on its way. So whoever would be refused only because of one is asked to come again, not refused.

Never here: clocks (the time is told), other replicas, which remember what they let through themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

WRITE_SECONDS: Final = 35.0
"""How long a write can be on its way: an API server cuts every one at 34 s."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which object it is, and how often its specification has changed."""

    uid: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Stored(Generic[T]):
    """A stored object: its name, its identity, and what it says."""

    name: str
    identity: Identity
    value: T


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One change that was let through."""

    new: T | None
    """What will stand there; None for a deletion."""
    identity: Identity
    """The object as it will be stored; of a deletion, as it was."""
    until: float
    """When it can no longer come."""

    def is_over(self, stored: Identity | None, now: float) -> bool:
        """Whether it has come, or will not."""
        if now >= self.until:
            return True
        is_same = stored is not None and stored.uid == self.identity.uid
        if self.new is None:
            return not is_same
        return stored is not None and (not is_same or stored.generation >= self.identity.generation)


class Underway(Generic[T]):
    """The changes to objects of one sort that one replica let through lately."""

    def __init__(self) -> None:
        self._changes: dict[str, Change[T]] = {}

    def note(self, name: str, new: T | None, identity: Identity, now: float) -> None:
        """One more; of several to one object the last counts."""
        self._changes[name] = Change(new, identity, now + WRITE_SECONDS)

    def beside(self, stored: Mapping[str, Stored[T]], now: float) -> dict[str, T]:
        """What there will be, by name, once all has come; what is over is forgotten."""
        self._changes = {
            name: change
            for name, change in self._changes.items()
            if not change.is_over(stored[name].identity if name in stored else None, now)
        }
        found = {name: one.value for name, one in stored.items() if name not in self._changes}
        return found | {name: change.new for name, change in self._changes.items() if change.new is not None}
