"""In which steps published runtimes change, so that at no moment siblings may admit more than their parent has.

A leaf's published runtime is the limit that the webhook guards. Each is an object of its own, so they change one by
one, and whoever is to get less may have used it already. So lowerings are written first. A raise comes out of what is
left when every other leaf is counted with the larger of what is published for it and what it has used and reserved, on
every level: below each ancestor no more than the ancestor's own runtime, and in all no more than there is.

Pure: told what is stored, it says what to write next. Whoever writes reads again and asks again: a raise that found no
room is found again when the room is there. Amounts are in steps, resource by resource.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from federation_quota.elastic.node import ROOT
from federation_quota.elastic.tree import Tree
from federation_quota.elastic.unit import Steps

Table = Mapping[str, Steps]
"""Amounts by the name of a node."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A leaf as it is stored."""

    published: Steps = field(default_factory=dict)
    taken: Steps = field(default_factory=dict)
    """What is used and reserved."""

    def ceiling(self, resource: str) -> int:
        """What it may come to use without anybody writing to it, or uses already."""
        return max(self.published.get(resource, 0), self.taken.get(resource, 0))


def lowerings(wanted: Table, stored: Mapping[str, Stored]) -> dict[str, dict[str, int]]:
    """What to write first: for each leaf that loses anything its whole new runtime, with what it gains left out.

    So with one that has come to limit something else: of what nothing is published, nothing is given before it is.
    """
    lowered: dict[str, dict[str, int]] = {}
    for name, runtime in sorted(wanted.items()):
        published = stored.get(name, Stored()).published
        loses = any(amount < published.get(resource, 0) for resource, amount in runtime.items())
        if loses or runtime.keys() != published.keys():
            lowered[name] = {resource: min(amount, published.get(resource, 0)) for resource, amount in runtime.items()}
    return lowered


def raises(tree: Tree, wanted: Table, stored: Mapping[str, Stored]) -> dict[str, dict[str, int]]:
    """What to write once no lowering is left: for each leaf that can gain anything now its whole new runtime.

    `wanted` has the runtimes of parents too, and `stored` every leaf of the tree. Raises do not rely on each other, and
    may be written in any order; but what was planned is carried out or dropped before the next plan is made, because
    two plans could give the same room away.
    """
    left = _left(tree, wanted, stored)
    raised: dict[str, dict[str, int]] = {}
    for name in sorted(wanted):
        if name not in tree.nodes or tree.nodes[name].is_parent:
            continue
        leaf = stored.get(name, Stored())
        path = [left[ancestor] for ancestor in (*tree.ancestors(name), ROOT)]
        new: dict[str, int] = {}
        for resource, amount in wanted[name].items():
            # What it has used beyond its runtime is counted already: up to there a raise takes nothing from anybody.
            counted, published = leaf.ceiling(resource), leaf.published.get(resource, 0)
            room = max(min(above.get(resource, 0) for above in path), 0)
            new[resource] = max(min(amount, counted + room), published)
            for above in path:
                above[resource] = above.get(resource, 0) - max(new[resource] - counted, 0)
        if any(amount > leaf.published.get(resource, 0) for resource, amount in new.items()):
            raised[name] = new
    return raised


def _left(tree: Tree, wanted: Table, stored: Mapping[str, Stored]) -> dict[str, dict[str, int]]:
    """Of the root and of every parent what is left of its runtime beside all that is below it."""
    left = {name: dict(wanted.get(name, {})) for name, node in tree.nodes.items() if node.is_parent}
    left[ROOT] = dict(tree.total)
    for name, leaf in stored.items():
        if name in tree.nodes and not tree.nodes[name].is_parent:
            for ancestor in (*tree.ancestors(name), ROOT):
                room = left[ancestor]
                for resource in leaf.published.keys() | leaf.taken.keys():
                    room[resource] = room.get(resource, 0) - leaf.ceiling(resource)
    return left
