"""Everything that is watched of elastic trees, gathered into the situation of one tree at a time.

Leaves come from two watches: what they are from the forest, what is charged to them from their accounts. An account
that was just written here may be newer than what the watch has brought; the newest counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic import leaf as leaves
from federation_quota.elastic.capacity import Holding, share_out
from federation_quota.elastic.forest import Forest, Root
from federation_quota.elastic.plan import Leaf, Situation
from federation_quota.elastic.tree import DEFAULT
from federation_quota.elastic.unit import Steps
from federation_quota.kube import codec
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.settling import EXPIRY_SECONDS
from federation_quota.resources import NOTHING, Resources

DOUBT_SECONDS: Final = EXPIRY_SECONDS


def decode(kind: str) -> Callable[[bytes], Account]:
    """The account of a stored quota of that kind; QuotaError where it cannot be used."""
    return lambda body: leaves.read({**codec.decode_object(body), "kind": kind})


class LeafMirror:
    """The accounts of all quotas of one kind, parents too: the sink of a reflector."""

    def __init__(self, accounts: dict[str, Account], on_change: Callable[[str], None]) -> None:
        self._accounts = accounts
        self._own: set[str] = set()
        self._on_change = on_change

    def replace(self, items: Sequence[Account], version: int) -> None:
        """Everything was listed anew."""
        listed = {item.name: item for item in items}
        gone, self._own = self._own - listed.keys(), set(listed)
        for name in gone:
            self._accounts.pop(name, None)
        self._accounts.update(listed)
        for name in gone | listed.keys():
            self._on_change(name)

    def upsert(self, item: Account) -> None:
        """A quota was stored."""
        known = self._accounts.get(item.name)
        if known is None or known.uid != item.uid or int(known.version) < int(item.version):
            self._accounts[item.name] = item
        self._own.add(item.name)
        self._on_change(item.name)

    def delete(self, item: Account) -> None:
        """A quota was deleted."""
        self._accounts.pop(item.name, None)
        self._own.discard(item.name)
        self._on_change(item.name)

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A write of which nothing was heard. It cannot come any more once the leaf has another version."""

    version: str
    amounts: Steps
    until: float


@dataclass(frozen=True, slots=True)
class Estate:
    """What a tree has."""

    root: Root
    holding: Holding
    total: Steps
    system_used: Resources


@dataclass
class Watching:
    """What is known of all trees."""

    observation: Observation
    mirror: BindingMirror
    accounts: dict[str, Account] = field(default_factory=dict)
    """By the name of the quota, parents too."""
    by_leaf: dict[str, dict[ObjectKey, Binding]] = field(default_factory=dict)
    doubts: dict[str, Doubt] = field(default_factory=dict)
    over_since: dict[str, Mapping[str, float]] = field(default_factory=dict)
    counts_system: bool = False
    """Whether some tree has less to share by what a system group uses, so that every binding matters."""

    def binding_changed(self, before: Binding | None, after: Binding | None) -> set[str]:
        """A binding is other than it was; the leaves that this is about."""
        touched = {one.stamp.leaf for one in (before, after) if one is not None and one.stamp.leaf}
        if before is not None and before.stamp.leaf:
            here = self.by_leaf.get(before.stamp.leaf, {})
            here.pop(before.key, None)
            if not here:
                self.by_leaf.pop(before.stamp.leaf, None)
        if after is not None and after.stamp.leaf:
            self.by_leaf.setdefault(after.stamp.leaf, {})[after.key] = after
        return touched

    def written(self, account: Account) -> None:
        """An account as it was just stored."""
        known = self.accounts.get(account.name)
        if known is not None and known.uid == account.uid and int(known.version) < int(account.version):
            self.accounts[account.name] = account
        self.doubts.pop(account.name, None)

    def estate(self, tree: str, forest: Forest) -> Estate:
        """What there is to share in a tree."""
        root = forest.root(tree) or Root(tree)
        roots = {DEFAULT: Root(), **forest.roots}
        holding = share_out((one.claim for one in roots.values()), forest.clusters).get(tree, Holding())
        self.counts_system = any(not one.system.is_empty for one in roots.values())
        system = self._used_by_system(root, forest)
        return Estate(root, holding, forest.total(tree, holding.allocatable, system), system)

    def situation(
        self, tree: str, forest: Forest, estate: Estate, *, clock: float, resting: Iterable[str]
    ) -> Situation | None:
        """A tree as it stands; None while some view knows too little."""
        nodes = forest.tree(tree, estate.total)
        found: dict[str, Leaf] = {}
        for name in nodes.leaves():
            account = self.accounts.get(name)
            if account is None:
                continue  # about to come, or to go: it has nothing, and gets nothing yet
            if self.observation.view.version < account.observed:
                return None
            found[name] = self._leaf(name, account, clock)
        return Situation(
            nodes,
            found,
            estate.root,
            datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            clock,
            self.over_since.get(tree, {}),
            frozenset(resting),
        )

    def _leaf(self, name: str, account: Account, clock: float) -> Leaf:
        books = Books(account, self.observation.view)
        bindings = tuple(self.by_leaf.get(name, {}).values())
        given = Resources.sum(one.assigned for one in bindings)
        doubt = self.doubts.get(name)
        if doubt is not None and (doubt.version != account.version or doubt.until < clock):
            del self.doubts[name]
            doubt = None
        return Leaf(
            published=leaves.published(account),
            # Of what its spec has named only now, its books know nothing yet.
            used=books.used.maximum(given),
            advanced=books.advanced,
            in_doubt=doubt.amounts if doubt else {},
            asks=leaves.asks(account),
            bindings=bindings,
        )

    def _used_by_system(self, root: Root, forest: Forest) -> Resources:
        if root.system.is_empty:
            return NOTHING
        namespaces = {name for name, labels in forest.namespaces.items() if root.system.covers(name, labels)}
        return Resources.sum(one.assigned for one in self.mirror.bindings.values() if one.key.namespace in namespaces)


def doubt(account: Account, amounts: Steps, clock: float) -> Doubt:
    """That a leaf may have been published so."""
    return Doubt(account.version, amounts, clock + DOUBT_SECONDS)
