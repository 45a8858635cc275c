"""The limits of a whole tree at one moment: who has which of them, on which node, and for which group one counts.

- A user has, on each node, the limit that names them there, else the wildcard's, which is theirs alone.
- A binding counts for one group: from the leaf up, the first node that lists a group of its owner's, in the order in
  which the node lists them, or that has a wildcard. A wildcard below hides what is named above. The group is charged
  on the whole way to the root, and limited wherever it is named.
- Who is in no group at all counts for the wildcard like everybody who is in no named one.

A scheme is a value, and says all of that by itself: whoever has an equal one has the same. Which one is in force for an
account is the ledger's business: every replica has to join with the same.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar, cast

from federation_quota.ledger.claim import Claim
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.limit import WILDCARD, Limit
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.stamp import Owner

_MOST_REMEMBERED: Final = 20_000

Seen = TypeVar("Seen")

Limits = Mapping[str, Limit]
"""By the node that they stand on."""


@dataclass(frozen=True)
class Scheme:
    """One tree's."""

    tree: str
    parents: Mapping[str, str] = field(default_factory=dict)
    """Of every quota in the tree the one above it; the root is no quota."""
    limits: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    """Of every node that has any, the root included."""

    @classmethod
    def of(cls, tree: str, levels: Iterable[Level]) -> "Scheme":
        """The scheme of these nodes."""
        found = list(levels)
        parents = {one.name: one.parent for one in found if one.name != ROOT}
        return cls(tree, parents, {one.name: one.limits for one in found if one.limits})

    def path(self, leaf: str) -> tuple[str, ...]:
        """The nodes from a leaf to the root, both included; it ends where a parent is missing or comes again."""
        known = self._paths.get(leaf)
        if known is None:
            found = [leaf]
            while (parent := self.parents.get(found[-1], ROOT)) != ROOT and parent in self.parents:
                if parent in found:
                    break
                found.append(parent)
            known = self._paths[leaf] = (*found, ROOT)
        return known

    def subjects(self, owner: Owner, leaf: str) -> tuple[Subject, ...]:
        """Whose accounts a binding is charged to: its user's, if that is limited on its way up, and its group's."""
        known = self._subjects.get((owner, leaf))
        if known is None:
            found = []
            if not self.user_limits(owner.user).keys().isdisjoint(self.path(leaf)):
                found.append(Subject(self.tree, USER, owner.user))
            if group := self.group_of(owner.groups, leaf):
                found.append(Subject(self.tree, GROUP, group))
            if len(self._subjects) >= _MOST_REMEMBERED:
                self._subjects.clear()
            known = self._subjects[owner, leaf] = tuple(found)
        return known

    def limits_of(self, subject: Subject) -> Limits:
        """Every limit of a subject, by node."""
        return self.user_limits(subject.name) if subject.kind == USER else self.group_limits(subject.name)

    def user_limits(self, user: str) -> Limits:
        """Every limit of a user."""
        named = self._named_users.get(user)
        return self._wild_users if named is None else {**self._wild_users, **named}

    def group_limits(self, group: str) -> Limits:
        """Every limit of a group; of `*` those of the groups that are not named."""
        return self._groups.get(group, {})

    def group_of(self, groups: Iterable[str], leaf: str) -> str:
        """The group that a binding counts for; empty for none."""
        member_of = frozenset(groups)
        for node in self.path(leaf):
            for group in self._listed.get(node, ()):
                if group in member_of or group == WILDCARD:
                    return group
        return ""

    def named(self) -> list[Subject]:
        """Everybody whom a limit names, the groups that are not named among them."""
        users = [Subject(self.tree, USER, name) for name in sorted(self._named_users)]
        return users + [Subject(self.tree, GROUP, name) for name in sorted(self._groups)]

    def leaves_below(self, node: str) -> tuple[str, ...]:
        """The quotas whose way up leads past a node, itself included, by name."""
        return self._below.get(node, ())

    def remembered(self, subject: Subject, make: Callable[[], Seen]) -> Seen:
        """What somebody makes of this scheme for a subject: once, and asked for at every event of its account."""
        known = self._made.get(subject)
        if known is None:
            if len(self._made) >= _MOST_REMEMBERED:
                self._made.clear()
            known = self._made[subject] = make()
        return cast(Seen, known)

    @cached_property
    def groups_digest(self) -> str:
        """A text that is equal where every binding counts for the same group."""
        described = [f"{node}:{'|'.join(groups)}" for node, groups in sorted(self._listed.items())]
        return digest([*described, *(self.subtree_digest(node) for node in sorted(self._listed))])

    def subtree_digest(self, node: str) -> str:
        """A text that is equal where the same leaves are below a node. Of the root it is enough which tree it is."""
        known = self._digests.get(node)
        if known is None:
            below = () if node == ROOT else self.leaves_below(node)
            known = self._digests[node] = digest([self.tree, node, *below])
        return known

    @cached_property
    def _named_users(self) -> dict[str, dict[str, Limit]]:
        found: dict[str, dict[str, Limit]] = {}
        for node, limits in self.limits.items():
            for one in limits:
                for user in one.users:
                    if user != WILDCARD:
                        found.setdefault(user, {}).setdefault(node, one)
        return found

    @cached_property
    def _wild_users(self) -> dict[str, Limit]:
        found: dict[str, Limit] = {}
        for node, limits in self.limits.items():
            for one in limits:
                if WILDCARD in one.users:
                    found.setdefault(node, one)
        return found

    @cached_property
    def _groups(self) -> dict[str, dict[str, Limit]]:
        found: dict[str, dict[str, Limit]] = {}
        for node, limits in self.limits.items():
            for one in limits:
                for group in one.groups:
                    found.setdefault(group, {}).setdefault(node, one)
        return found

    @cached_property
    def _listed(self) -> dict[str, tuple[str, ...]]:
        """The groups of every node that lists any, in order; a wildcard counts last, wherever it stands."""
        found: dict[str, tuple[str, ...]] = {}
        for node, limits in self.limits.items():
            groups = [group for one in limits for group in one.groups]
            named = [group for group in groups if group != WILDCARD]
            if groups:
                found[node] = (*named, WILDCARD) if WILDCARD in groups else tuple(named)
        return found

    @cached_property
    def _below(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for name in sorted(self.parents):
            for node in self.path(name):
                found.setdefault(node, []).append(name)
        return {node: tuple(names) for node, names in found.items()}

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        return {}

    @cached_property
    def _subjects(self) -> dict[tuple[Owner, str], tuple[Subject, ...]]:
        return {}

    @cached_property
    def _made(self) -> dict[Subject, object]:
        return {}

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True)
class Schemes:
    """Those of all trees that have limits. Where there are none, nothing is looked at."""

    by_tree: Mapping[str, Scheme] = field(default_factory=dict)
    quotas: frozenset[str] = frozenset()
    """Every quota of any tree; not kept where there are no limits."""

    @classmethod
    def of(cls, trees: Mapping[str, Iterable[Level]]) -> "Schemes":
        """The schemes of these trees."""
        found = {tree: Scheme.of(tree, levels) for tree, levels in trees.items()}
        limited = {tree: one for tree, one in found.items() if one.limits}
        if not limited:
            return NO_LIMITS
        return cls(limited, frozenset(name for one in found.values() for name in one.parents))

    def subjects(self, claim: Claim) -> tuple[Subject, ...]:
        """Whose accounts a claim is charged to."""
        if claim.owner is None or not claim.leaf:
            return ()
        scheme = self._by_leaf.get(claim.leaf)
        return scheme.subjects(claim.owner, claim.leaf) if scheme else ()

    def domains(self, claim: Claim) -> tuple[str, ...]:
        """The same, as the ledger has it."""
        return tuple(one.domain for one in self.subjects(claim))

    def knows(self, leaf: str) -> bool:
        """Whether it can be told where a leaf stands; where nothing is limited, nobody needs to."""
        return not self.by_tree or leaf in self.quotas

    @cached_property
    def _by_leaf(self) -> dict[str, Scheme]:
        return {leaf: scheme for scheme in self.by_tree.values() for leaf in scheme.parents}


NO_LIMITS: Final = Schemes()


def digest(parts: Iterable[str]) -> str:
    """A short text for several."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
