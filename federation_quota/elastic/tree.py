"""A tree of quotas at one moment: its nodes, what there is to share, and how it is shared.

The order of the nodes is fixed here, once: level by level, the children of one parent beside each other, siblings by
name. So every computation meets them in the same order, whatever order they came in, and a tie goes to the first name.

Never here: how a runtime comes about (`runtime`), whether a tree may be stored as it is (`topology`): what hangs on no
root, because its parent is missing or a descendant of its own, is left out and said.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from federation_quota.elastic.node import ROOT, Node
from federation_quota.elastic.unit import Steps

DEFAULT = "default"
"""The tree of what names none."""


@dataclass(frozen=True)
class Tree:
    """Quotas that share one capacity."""

    nodes: Mapping[str, Node]
    total: Steps = field(default_factory=dict)
    """What there is to share; nothing of a resource that it does not name."""
    name: str = DEFAULT
    scales_min: bool = True
    """Whether mins shrink in proportion where they are more than there is; otherwise they are promised all the same."""
    keeps_used: bool = False
    """Whether what a quota uses is guaranteed to it like its min, so that nothing is ever taken back."""

    @classmethod
    def of(cls, nodes: Iterable[Node], total: Steps, *, scales_min: bool = True, keeps_used: bool = False) -> "Tree":
        """The default tree, of these nodes."""
        return cls({node.name: node for node in nodes}, total, scales_min=scales_min, keeps_used=keeps_used)

    @cached_property
    def order(self) -> list[Node | None]:
        """The nodes, each after its parent; the first is the root, which is no quota."""
        ordered: list[Node | None] = [None]
        level = [ROOT]
        while level:
            below: list[str] = []
            for parent in level:
                below += self.children(parent)
            ordered += [self.nodes[name] for name in below]
            level = below
        return ordered

    @cached_property
    def detached(self) -> frozenset[str]:
        """The nodes that hang on no root."""
        return frozenset(self.nodes) - {node.name for node in self.order if node is not None}

    @cached_property
    def resources(self) -> list[str]:
        """What any of its quotas says anything about, by name."""
        return sorted({resource for node in self.nodes.values() for resource in node.resources})

    def children(self, name: str = ROOT) -> list[str]:
        """The names of a node's children, in order."""
        return self._children.get(name, [])

    def ancestors(self, name: str) -> list[str]:
        """The node's parent, that one's parent, and so on; it ends where a parent is missing or comes again."""
        found: list[str] = []
        parent = self.nodes[name].parent
        while parent in self.nodes and parent not in found:
            found.append(parent)
            parent = self.nodes[parent].parent
        return found

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            found.setdefault(node.parent, []).append(name)
        for siblings in found.values():
            siblings.sort()
        return found

    def leaves(self) -> list[str]:
        """The nodes that are no parents, in order."""
        return [node.name for node in self.order if node is not None and not node.is_parent]
