"""What every quota of a tree may use at the moment: demand up, runtime down.

`Runtimes` is a tree at work. Demands come in, runtimes come out, resource by resource and all in whole steps. One that
has just been made has had a whole pass; afterwards a changed leaf costs its path, and what a change really touches.
Another tree (a node changed, moved, came or went) is a new one, with the demands of the old.

Called by the controller that publishes runtimes, and by whoever wants to know what would be if. Never here: from which
bindings a demand comes, what happens to those that do not fit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from federation_quota.elastic.column import Column
from federation_quota.elastic.shape import Shape
from federation_quota.elastic.tree import Tree
from federation_quota.elastic.unit import Steps


@dataclass(frozen=True, slots=True)
class Standing:
    """How a quota stands: by resource, for those that it limits."""

    demand: dict[str, int]
    """What is asked for: of a leaf by its bindings, of a parent what its children pass up."""
    request: dict[str, int]
    """The same, and no less than its min where it does not lend."""
    passed_up: dict[str, int]
    """What of it counts for its parent: no more than its max."""
    min: dict[str, int]
    """What of its min can be kept, as there is no more."""
    guaranteed: dict[str, int]
    """What cannot be taken from it: its min as it was set, and what it uses where the tree keeps that."""
    allocated: dict[str, int]
    """What it uses; in a parent what is guaranteed to its children. Only where the tree keeps what is used."""
    runtime: dict[str, int]
    """What it may use now."""
    borrowed: dict[str, int]
    """How much more that is than its min."""
    lent: dict[str, int]
    """How much of its min others may use meanwhile."""


class Runtimes:
    """A tree with the demands of its nodes."""

    def __init__(self, tree: Tree, requests: Mapping[str, Steps], used: Mapping[str, Steps] | None = None) -> None:
        self.tree = tree
        self._shape = Shape(tree.order)
        self._numbers = self._shape.numbers
        self._columns = {
            resource: Column(
                self._shape,
                resource,
                tree.total.get(resource, 0),
                scales_min=tree.scales_min,
                keeps_used=tree.keeps_used,
            )
            for resource in tree.resources
        }
        for resource, column in self._columns.items():
            own = [
                requests[name].get(resource, 0) if name in requests and is_limited else 0
                for name, is_limited in zip(self._shape.names, column.is_limited, strict=True)
            ]
            column.fill(own)
        for name, amounts in (used or {}).items():
            self.use(name, amounts)
        self.settle()

    def __contains__(self, name: str) -> bool:
        return bool(name) and name in self._numbers

    def ask(self, name: str, amounts: Steps) -> None:
        """A node asks for so much now: all that its bindings ask for together."""
        number = self._numbers[name]
        for resource, column in self._columns.items():
            amount = amounts.get(resource, 0)
            if column.own[number] != amount and column.is_limited[number]:
                column.ask(number, amount)

    def use(self, name: str, amounts: Steps) -> None:
        """A node uses so much now; it matters only where the tree keeps what is used."""
        if self.tree.keeps_used:
            number = self._numbers[name]
            for resource, column in self._columns.items():
                if column.is_limited[number]:
                    column.use(number, amounts.get(resource, 0))

    def set_total(self, total: Steps) -> None:
        """There is so much to share now."""
        for resource, column in self._columns.items():
            column.set_total(total.get(resource, 0))

    def runtime(self, name: str) -> dict[str, int]:
        """What a node may use now, and nothing computed that does not matter for it."""
        number = self._numbers[name]
        path = self._shape.path(number)
        found = {}
        for resource, column in self._columns.items():
            if column.is_limited[number]:
                column.settle(path)
                found[resource] = column.runtimes[number]
        return found

    def settle(self) -> set[str]:
        """Bring everybody up to date; the names of those whose runtime has changed since the last time."""
        changed: set[int] = set()
        for column in self._columns.values():
            column.settle()
            changed |= column.take_changes()
        return {self._shape.names[number] for number in changed}

    def runtimes(self, names: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
        """What each may use, by name; all of them by default."""
        self.settle()
        return {name: self._row(name) for name in (self._shape.names[1:] if names is None else names)}

    def standing(self, name: str) -> Standing:
        """Everything about one node."""
        number = self._numbers[name]
        runtime = self.runtime(name)
        columns = {resource: self._columns[resource] for resource in runtime}
        kept = {resource: column.kept_min(number) for resource, column in columns.items()}
        mins = {resource: column.mins[number] for resource, column in columns.items()}
        return Standing(
            demand={resource: column.own[number] + column.below[number] for resource, column in columns.items()},
            request={resource: column.asked[number] for resource, column in columns.items()},
            passed_up={resource: column.wants[number] for resource, column in columns.items()},
            min=kept,
            guaranteed={resource: column.guaranteed[number] for resource, column in columns.items()},
            allocated={resource: column.allocated[number] for resource, column in columns.items()},
            runtime=runtime,
            borrowed={resource: max(amount - mins[resource], 0) for resource, amount in runtime.items()},
            lent={resource: max(kept[resource] - amount, 0) for resource, amount in runtime.items()},
        )

    def _row(self, name: str) -> dict[str, int]:
        number = self._numbers[name]
        return {
            resource: column.runtimes[number] for resource, column in self._columns.items() if column.is_limited[number]
        }
