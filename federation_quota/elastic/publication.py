"""In which steps published runtimes change, so that at no moment siblings may admit more than their parent has.

A leaf's published runtime is the limit that the webhook guards. Each is an object of its own, so they change one by
one, and whoever is to get less may have used it already. So lowerings are written first. A raise comes out of what is
left when every other leaf is counted with the larger of what is published for it and what it has used and reserved, on
every level: below each ancestor no more than the ancestor's own runtime, and in all no more than there is.

Pure: told what is stored, it says what to write next. Whoever writes reads again and asks again: a raise that found no
room is found again when the room is there. Amounts are in steps, resource by resource.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from federation_quota.elastic.node import ROOT
from federation_quota.elastic.sums import Part, Sums
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

    @property
    def ceilings(self) -> dict[str, int]:
        """The same of everything."""
        return {resource: self.ceiling(resource) for resource in self.published.keys() | self.taken.keys()}


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


def raises(
    tree: Tree,
    wanted: Table,
    stored: Mapping[str, Stored],
    names: Iterable[str] | None = None,
    sums: Sums | None = None,
) -> dict[str, dict[str, int]]:
    """What to write once no lowering is left: for each leaf that can gain anything now its whole new runtime.

    `wanted` has the runtimes of parents too, and `stored` every leaf of the tree. Raises do not rely on each other, and
    may be written in any order; but what was planned is carried out or dropped before the next plan is made, because
    two plans could give the same room away. Whoever knows which leaves have less than is wanted says so in `names`, and
    whoever keeps the sums of all leaves need not have them made.
    """
    sums = sums or Sums(tree, {name: Part(leaf.ceilings) for name, leaf in stored.items() if _is_leaf(tree, name)})
    given: dict[str, dict[str, int]] = {}  # by ancestor, what is raised below it here
    raised: dict[str, dict[str, int]] = {}
    for name in sorted(wanted if names is None else names):
        if not _is_leaf(tree, name):
            continue
        leaf = stored.get(name, Stored())
        path = [
            (
                tree.total if above == ROOT else wanted.get(above, {}),
                sums.below(above).ceilings,
                given.setdefault(above, {}),
            )
            for above in (*tree.ancestors(name), ROOT)
        ]
        new: dict[str, int] = {}
        for resource, amount in wanted[name].items():
            # What it has used beyond its runtime is counted already: up to there a raise takes nothing from anybody.
            counted, published = leaf.ceiling(resource), leaf.published.get(resource, 0)
            left = min(
                there.get(resource, 0) - taken.get(resource, 0) - more.get(resource, 0) for there, taken, more in path
            )
            new[resource] = max(min(amount, counted + max(left, 0)), published)
            for _, _, more in path:
                more[resource] = more.get(resource, 0) + max(new[resource] - counted, 0)
        if any(amount > leaf.published.get(resource, 0) for resource, amount in new.items()):
            raised[name] = new
    return raised


def _is_leaf(tree: Tree, name: str) -> bool:
    return name in tree.nodes and not tree.nodes[name].is_parent
