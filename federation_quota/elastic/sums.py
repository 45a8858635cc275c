"""What leaves come to together, for every quota above them and for the whole tree: kept a leaf at a time.

A leaf that changes costs its ancestors and nobody else. Exact: whoever takes away what was added comes back to what
was there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from federation_quota.elastic.node import ROOT
from federation_quota.elastic.tree import Tree
from federation_quota.elastic.unit import Steps
from federation_quota.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Part:
    """What one leaf adds."""

    ceilings: Steps = field(default_factory=dict)
    """What it may come to use, or uses already."""
    used: Resources = NOTHING
    held: int = 0
    running: Resources | None = NOTHING
    """None where nobody has looked yet."""


_NOTHING = Part()


@dataclass(slots=True)
class Whole:
    """What the leaves below a quota come to."""

    ceilings: dict[str, int] = field(default_factory=dict)
    used: Resources = NOTHING
    held: int = 0
    running: Resources = NOTHING
    unseen: int = 0
    """Of how many it is not known what runs."""


class Sums:
    """The sums of one tree."""

    def __init__(self, tree: Tree, parts: Mapping[str, Part] | None = None) -> None:
        self._tree = tree
        self._parts: dict[str, Part] = {}
        self._wholes: dict[str, Whole] = {}
        for name, part in (parts or {}).items():
            self.put(name, part)

    def put(self, name: str, part: Part = _NOTHING) -> None:
        """A leaf adds that much, and no longer what it added before."""
        before = self._parts.get(name, _NOTHING)
        self._parts[name] = part
        for above in (*self._tree.ancestors(name), ROOT):
            whole = self._wholes.setdefault(above, Whole())
            whole.used = whole.used - before.used + part.used
            whole.held += part.held - before.held
            whole.running = whole.running - (before.running or NOTHING) + (part.running or NOTHING)
            whole.unseen += (part.running is None) - (before.running is None)
            for resource, amount in before.ceilings.items():
                whole.ceilings[resource] -= amount
            for resource, amount in part.ceilings.items():
                whole.ceilings[resource] = whole.ceilings.get(resource, 0) + amount

    def below(self, name: str = ROOT) -> Whole:
        """What the leaves below a quota come to; by default, all."""
        return self._wholes.get(name) or Whole()
