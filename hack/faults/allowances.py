"""Limits of users and groups, held against every stored version: by code of the checker's own, in exact fractions.

Given are trees, quotas and bindings as they were stored, one version after the other. Whoever comes to have more by
a version must be within each of their limits after it, from the leaf to the root. Where a limit was lowered below what
somebody has, they keep it, and it only gets less. Limits are to be changed while nothing that could grow is on its way.

As `docs` have it: a user has the entry that names them on a node, else the wildcard's, alone; a binding counts for one
group, from the leaf up the first that a node lists and its owner is in, else the wildcard's pool of that node.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

from faults import charge
from faults.charge import Amounts

Object = Mapping[str, Any]

ROOT: Final = ""
EVERYBODY: Final = "*"
USERS: Final = "users"
GROUPS: Final = "groups"
APPLICATIONS: Final = "applications"
STAMP: Final = "quota.karmada.io/stamp"
_NONE: Final = Fraction(0)


class Subject(NamedTuple):
    """A user or a group, on one node."""

    kind: str
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class Node:
    """A quota, or the root: what is above it, and its limits as they were written."""

    parent: str
    limits: tuple[Object, ...] = ()

    def entry(self, kind: str, name: str) -> Object | None:
        """The one that names somebody."""
        return next((one for one in self.limits if name in (one.get(kind) or ())), None)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a binding is to limits."""

    leaf: str
    user: str
    groups: frozenset[str]
    amounts: Amounts


@dataclass(slots=True)
class Allowances:
    """Who has how much of one tree, and may have."""

    tree: str
    nodes: dict[str, Node] = field(default_factory=dict)
    held: dict[str, Holding] = field(default_factory=dict)
    """By binding; what has no owner, or is under no leaf of this tree, is not in it."""
    used: dict[Subject, Amounts] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    """What must never be."""
    versions: int = 0
    reached: Counter[Subject] = field(default_factory=Counter)
    """How often somebody came to have all that they may: where nobody did, nothing was tried."""

    def take(self, kind: str, item: Object) -> None:
        """The next version: what became of an object, as a watch tells it."""
        metadata, is_gone = item["metadata"], kind == "DELETED"
        place = metadata.get("namespace")
        name = f"{place}/{metadata['name']}" if place else str(metadata["name"])
        if item["kind"] == "ResourceBinding":
            self._binding(name, None if is_gone else holding(item))
        elif item["kind"] == "QuotaTree" and name == self.tree:
            self._node(ROOT, None if is_gone else Node(ROOT, _limits(item)))
        elif item["kind"].endswith("ElasticQuota") and (item["spec"].get("tree") or "default") == self.tree:
            self._node(name, None if is_gone else Node(item["spec"].get("parent") or ROOT, _limits(item)))

    def most(self, subject: Subject) -> Amounts:
        """What somebody may have on a node; what is not in it is not limited."""
        node = self.nodes.get(subject.node)
        found = node.entry(subject.kind, subject.name) if node else None
        if node and found is None and subject.kind == USERS:
            found = node.entry(USERS, EVERYBODY)
        if found is None:
            return {}
        limits = charge.amounts(found.get("maxResources"))
        if found.get("maxApplications"):
            limits[APPLICATIONS] = Fraction(found["maxApplications"])
        return limits

    def path(self, leaf: str) -> Iterator[str]:
        """From a leaf to the root."""
        node = leaf
        while node != ROOT:
            yield node
            node = self.nodes[node].parent
        yield ROOT

    def subjects(self, one: Holding) -> list[Subject]:
        """Who has it, on every node from the leaf to the root."""
        nodes = list(self.path(one.leaf))
        found = [Subject(USERS, one.user, node) for node in nodes]
        if group := self._group(one, nodes):
            found += [Subject(GROUPS, group, node) for node in nodes]
        return found

    def _group(self, one: Holding, nodes: Iterable[str]) -> str:
        for node in nodes:
            here = self.nodes.get(node, Node(ROOT))
            listed = [group for limit in here.limits for group in limit.get(GROUPS) or ()]
            for group in listed:
                if group in one.groups or group == EVERYBODY:
                    return str(group)
        return ""

    def _node(self, name: str, node: Node | None) -> None:
        if self.nodes.get(name) == node:
            return  # most of what happens to a quota is its status
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        self.used.clear()
        for one in self.held.values():
            self._count(one, 1)

    def _binding(self, name: str, after: Holding | None) -> None:
        self.versions += 1
        before = self.held.pop(name, None)
        if after is not None and after.leaf not in self.nodes:
            after = None
        had = {subject: dict(self.used.get(subject, {})) for subject in (self.subjects(after) if after else ())}
        if before is not None:
            self._count(before, -1)
        if after is None:
            return
        self.held[name] = after
        self._count(after, 1)
        for subject, were in had.items():
            self._judge(name, subject, were)

    def _judge(self, binding: str, subject: Subject, were: Amounts) -> None:
        has = self.used.get(subject, {})
        for resource, most in self.most(subject).items():
            amount = has.get(resource, _NONE)
            if amount <= were.get(resource, _NONE):
                continue
            if amount == most:
                self.reached[subject] += 1
            if amount > most:
                whose = f"{subject.kind.removesuffix('s')} {subject.name} on {subject.node or 'the tree'}"
                self.breaches.append(f"{binding}: {whose} has {float(amount):g} {resource} of {float(most):g}")

    def _count(self, one: Holding, sign: int) -> None:
        for subject in self.subjects(one):
            here = self.used.setdefault(subject, {})
            for resource, amount in one.amounts.items():
                here[resource] = here.get(resource, _NONE) + sign * amount


def holding(binding: Object) -> Holding | None:
    """What a stored binding is to limits; None where it is nothing."""
    text = (binding["metadata"].get("annotations") or {}).get(STAMP, "{}")
    stamp = json.loads(text)
    owner = stamp.get("owner")
    if not owner or not stamp.get("leaf"):
        return None
    amounts = charge.charge(binding)
    amounts[APPLICATIONS] = Fraction(int(amounts["pods"] > 0))
    return Holding(stamp["leaf"], owner["user"], frozenset(owner.get("groups") or ()), amounts)


def check(history: Iterable[tuple[int, str, Object]], tree: str) -> Allowances:
    """All that was stored, in order."""
    found = Allowances(tree)
    for _, kind, item in history:
        found.take(kind, item)
    return found


def _limits(item: Object) -> tuple[Object, ...]:
    return tuple((item.get("spec") or {}).get("limits") or ())
