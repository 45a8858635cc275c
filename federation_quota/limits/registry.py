"""The limits of all trees, kept up with quotas and trees as they come and go.

Most of what happens to a quota is about its status. So each change is looked at first, and only one that limits could
depend on makes the schemes anew; a scheme that comes out the same is the same object as before.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from federation_quota.limits.hierarchy import Level
from federation_quota.limits.scheme import NO_LIMITS, Scheme, Schemes


class Registry:
    """The schemes of all trees, and word of every change."""

    def __init__(self, on_change: Callable[[Schemes], None] = lambda _schemes: None) -> None:
        self.schemes = NO_LIMITS
        self._on_change = on_change

    def refresh(self, trees: Mapping[str, Iterable[Level]]) -> None:
        """These are the nodes of all trees now."""
        found = Schemes.of(trees)
        kept = {tree: self._same(scheme) for tree, scheme in found.by_tree.items()}
        before = self.schemes
        is_same = kept.keys() == before.by_tree.keys() and all(
            scheme is before.by_tree[tree] for tree, scheme in kept.items()
        )
        if is_same and found.quotas == before.quotas:
            return
        self.schemes = replace(found, by_tree=kept) if kept else NO_LIMITS
        self._on_change(self.schemes)

    def _same(self, scheme: Scheme) -> Scheme:
        known = self.schemes.by_tree.get(scheme.tree)
        return known if known == scheme else scheme
