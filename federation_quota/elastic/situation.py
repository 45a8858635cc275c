"""A tree as it is watched at one moment: what a plan is made from.

Values only; gathered by the controller, and by whoever wants to know what would be if.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from federation_quota.binding import Binding
from federation_quota.elastic import ask, unit
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.forest import Root
from federation_quota.elastic.publication import Stored
from federation_quota.elastic.running import InCluster
from federation_quota.elastic.tree import Tree
from federation_quota.elastic.unit import Steps
from federation_quota.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf as it is watched."""

    published: Steps = field(default_factory=dict)
    used: Resources = NOTHING
    """What is stored and reserved."""
    advanced: Resources = NOTHING
    """What replicas of the webhook may give out without asking anybody."""
    in_doubt: Steps = field(default_factory=dict)
    """What a write of which nothing was heard may have published, or may yet."""
    asks: tuple[Ask, ...] = ()
    bindings: tuple[Binding, ...] = ()
    """Every binding that is charged to it, or waits."""
    running: tuple[InCluster, ...] | None = None
    """What its pods use in each member cluster; None where nobody has looked yet. Nothing is decided by it."""

    @property
    def stored(self) -> Stored:
        """What it may come to use, whoever writes what meanwhile."""
        taken = unit.asked(self.used + self.advanced)
        names = taken.keys() | self.in_doubt.keys()
        return Stored(self.published, {name: max(taken.get(name, 0), self.in_doubt.get(name, 0)) for name in names})

    @property
    def held(self) -> int:
        """How many wait."""
        return sum(one.is_held for one in self.bindings)

    def open_asks(self, now: str) -> tuple[Ask, ...]:
        """The asks that still count."""
        there = {str(one.key): one.assigned for one in self.bindings if not one.is_deleting}
        # New bindings are held, not refused: an ask without its binding is of one that is gone, and wants nothing more.
        return tuple(one for one in ask.open_asks(self.asks, there, now) if one.binding in there)


@dataclass(frozen=True, slots=True)
class Situation:
    """A tree as it is watched."""

    tree: Tree
    """With what there is to share."""
    leaves: Mapping[str, Leaf]
    """Every leaf of the tree."""
    root: Root = field(default_factory=Root)
    now: str = ""
    """The time, as asks have it."""
    clock: float = 0.0
    """The same in seconds, from wherever."""
    over_since: Mapping[str, float] = field(default_factory=dict)
    """Since when each leaf has been using more than its runtime, as the last plan found it."""
    resting: frozenset[str] = frozenset()
    """Bindings that were released or woken a moment ago, and to no avail: not again yet."""
    touched: frozenset[str] | None = None
    """The leaves that may be other than in the situation before; None where that is not known, and may be all."""
    limited: Mapping[str, str] = field(default_factory=dict)
    """Bindings that a limit of their user or group keeps from getting any more, and which: they take no turn, and count
    for what they have alone. A leaf in which one comes or goes is touched."""


def demand(bindings: Iterable[Binding], asks: Iterable[Ask], limited: Container[str] = ()) -> Resources:
    """What a leaf is asked for: by what runs and waits, and by what was refused. What has to wait for somebody's limit
    asks for no more than it has: nothing is kept idle for it."""
    wishes = {str(one.key): one.assigned if str(one.key) in limited else wish(one) for one in bindings}
    return ask.request(wishes, (one for one in asks if one.binding not in limited))


def wish(binding: Binding) -> Resources:
    """What a binding would have."""
    # What goes, or is kept back by somebody else, gets no more than it has.
    if binding.is_deleting or (binding.is_suspended and not binding.is_held):
        return binding.assigned
    return binding.demand.maximum(binding.assigned)
