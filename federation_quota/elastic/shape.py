"""A tree's order in numbers: what the columns of all resources have in common.

Nodes are numbered in the tree's order, the root being 0. The children of one parent are beside each other, so that they
are a slice of any list by number.
"""

from collections.abc import Sequence

from federation_quota.elastic.node import Node

_NOBODY = slice(0, 0)


class Shape:
    """Who is whose child, by number."""

    __slots__ = ("_firsts", "_paths", "branches", "children", "names", "nodes", "numbers", "parents")

    def __init__(self, order: Sequence[Node | None]) -> None:
        self.nodes = [Node("") if node is None else node for node in order]
        self.names = [node.name for node in self.nodes]
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.parents = [0, *(self.numbers[node.parent] for node in self.nodes[1:])]
        self._firsts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for number, parent in enumerate(self.parents[1:], start=1):
            self._firsts.setdefault(parent, number)
            ends[parent] = number + 1
        self.branches = sorted(self._firsts)
        """The nodes that have children, parents first."""
        self.children = [_NOBODY] * len(self.nodes)
        """The children of each node."""
        for parent in self.branches:
            self.children[parent] = slice(self._firsts[parent], ends[parent])
        self._paths: dict[int, tuple[int, ...]] = {}

    def first_child(self, parent: int) -> int:
        """The number of the first child of a node that has any."""
        return self._firsts[parent]

    def path(self, number: int) -> tuple[int, ...]:
        """The ancestors of a node, the root first."""
        known = self._paths.get(number)
        if known is None:
            path: list[int] = []
            above = number
            while above:
                above = self.parents[above]
                path.append(above)
            known = self._paths[number] = tuple(reversed(path))
        return known
