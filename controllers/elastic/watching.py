"""Everything that is watched of elastic trees, gathered into the situation of one tree at a time.

Leaves come from two watches: what they are from the forest, what is charged to them from their accounts. An account
that was just written here may be newer than what the watch has brought; the newest counts. A tree is remembered as it
was last looked at, and only the leaves that were touched since are gathered anew: one event costs one leaf.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from controllers.elastic.counting import Counting
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic import leaf as leaves
from federation_quota.elastic.capacity import Holding, share_out
from federation_quota.elastic.forest import Forest, Root
from federation_quota.elastic.situation import Leaf, Situation
from federation_quota.elastic.tree import DEFAULT, Tree
from federation_quota.elastic.unit import Steps
from federation_quota.kube import codec
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.settling import EXPIRY_SECONDS, settle
from federation_quota.resources import NOTHING, Resources

# Thousands who wait, each with a limit of its own, take a while to look through, and anything that happens may be news
# to them: where it takes longer than this, it is not done again at once, and for no more than a tenth of the time.
LONG_SECONDS: Final = 0.02
MOST_BUSY: Final = 0.1
MOST_REST_SECONDS: Final = 0.5


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


@dataclass(slots=True)
class SystemGroup:
    """What the system group of a tree uses, a binding at a time."""

    namespaces: frozenset[str] = frozenset()
    used: Resources = NOTHING

    def change(self, before: Binding | None, after: Binding | None) -> bool:
        """A binding is other than it was; whether that changes anything."""
        known = self.used
        for one, sign in ((before, -1), (after, 1)):
            if one is not None and one.key.namespace in self.namespaces:
                self.used = self.used + one.assigned * sign
        return self.used != known


@dataclass(slots=True)
class Scene:
    """One tree as it was last looked at, and what has been touched since."""

    tree: Tree
    forest: Forest | None = None
    estate: Estate | None = None
    system: SystemGroup = field(default_factory=SystemGroup)
    leaves: dict[str, Leaf] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    """Its quotas, parents too."""
    limited: Mapping[str, str] = field(default_factory=dict)
    """By binding, the limit of a user or group that it has to wait for."""
    limits_due: float = 0.0
    """When that is looked at again at the earliest."""
    touched: set[str] = field(default_factory=set)


class Watching:
    """What is known of all trees. Whoever changes something about a quota touches it: what is not, is not looked at."""

    def __init__(
        self,
        observation: Observation,
        mirror: BindingMirror,
        accounts: dict[str, Account] | None = None,
        counting: Counting | None = None,  # None where nobody looks at members
        # Who of a tree has to wait for a limit of a user or group, of those held, and for which.
        hindered: Callable[[str, Iterable[Binding]], Mapping[str, str]] = lambda _tree, _held: {},
        doubt_seconds: float = EXPIRY_SECONDS,  # how long a write without an answer may still be stored
    ) -> None:
        self._doubt_seconds = doubt_seconds
        self._hindered = hindered
        self.observation = observation
        self.mirror = mirror
        self._counting = counting
        self.accounts = {} if accounts is None else accounts  # by the name of the quota, parents too
        self.by_leaf: dict[str, dict[ObjectKey, Binding]] = {}
        self.over_since: dict[str, Mapping[str, float]] = {}
        self._doubts: dict[str, Doubt] = {}
        self._scenes: dict[str, Scene] = {}
        self._homes: dict[str, str] = {}  # by quota, the tree in whose scene it is touched
        self._shared: tuple[Forest, Mapping[str, Holding]] | None = None

    def begin(self) -> None:
        """What was known in an earlier term is old."""
        for table in (self.over_since, self._doubts, self._scenes, self._homes):
            table.clear()

    def keep(self, trees: Collection[str]) -> None:
        """There are no other trees any more."""
        for tree in self._scenes.keys() - set(trees):
            for name in self._scenes.pop(tree).names:
                if self._homes.get(name) == tree:
                    del self._homes[name]
            self.over_since.pop(tree, None)

    def binding_changed(self, before: Binding | None, after: Binding | None) -> set[str]:
        """A binding is other than it was; the trees that this is about, with an empty name where nobody knows."""
        names = {one.stamp.leaf for one in (before, after) if one is not None and one.stamp.leaf}
        if before is not None and before.stamp.leaf:
            here = self.by_leaf.get(before.stamp.leaf, {})
            here.pop(before.key, None)
            if not here:
                self.by_leaf.pop(before.stamp.leaf, None)
        if after is not None and after.stamp.leaf:
            self.by_leaf.setdefault(after.stamp.leaf, {})[after.key] = after
        if self._counting and (before is None or after is None or before.stamp.leaf != after.stamp.leaf):
            self._counting.changed(one.key.namespace for one in (before, after) if one is not None)
        resized = {tree for tree, scene in self._scenes.items() if scene.system.change(before, after)}
        return resized | {self.touch(name) for name in names}

    def touch(self, name: str) -> str:
        """A quota is other than it was, or may be; the tree that it is in, empty where that is not known."""
        tree = self._homes.get(name)
        if tree is not None:
            self._scenes[tree].touched.add(name)
            return tree
        account = self.accounts.get(name)
        return leaves.kept(account).quota.tree if account else ""

    def touch_all(self) -> None:
        """Nobody knows what is other than it was."""
        for scene in self._scenes.values():
            scene.touched |= scene.names

    def pods_changed(self, namespaces: Iterable[str]) -> None:
        """The pods of these namespaces use other amounts than before."""
        if self._counting:
            self._counting.changed(namespaces)

    @property
    def is_counted(self) -> bool:
        """Whether it is known for which leaves all pods run."""
        return self._counting is None or self._counting.is_done

    def count(self, forest: Forest) -> set[str]:
        """See for which leaves pods run that have changed; the trees that this is about."""
        changed = self._counting.count(forest, self.mirror.bindings) if self._counting else set()
        return {self.touch(name) for name in changed} - {""}

    def written(self, account: Account) -> None:
        """An account as it was just stored."""
        known = self.accounts.get(account.name)
        if known is not None and known.uid == account.uid and int(known.version) < int(account.version):
            self.accounts[account.name] = account
        self._doubts.pop(account.name, None)
        self.touch(account.name)

    def doubt(self, account: Account, amounts: Steps, clock: float) -> None:
        """A leaf may have been published so, or may yet."""
        self._doubts[account.name] = Doubt(account.version, amounts, clock + self._doubt_seconds)
        self.touch(account.name)

    def look(
        self, tree: str, forest: Forest, *, clock: float, resting: Iterable[str]
    ) -> tuple[Estate, Situation] | None:
        """A tree as it stands, and what has been touched since the last look; None while some view knows too little."""
        scene = self._scenes.setdefault(tree, Scene(Tree({}, name=tree)))
        estate = self._estate(scene, tree, forest)
        self._limit(scene, clock)
        # Whether something is still in doubt is a matter of time.
        scene.touched.update(name for name in self._doubts if self._homes.get(name) == tree)
        for name in scene.touched:
            account = self.accounts.get(name)
            if account is not None and self.observation.view.version < account.observed:
                return None
        touched, scene.touched = frozenset(scene.touched), set()
        for name in touched:
            account = self.accounts.get(name)
            if account is None or name not in scene.names:
                scene.leaves.pop(name, None)  # about to come, or to go: it has nothing, and gets nothing yet
            elif not scene.tree.nodes[name].is_parent:
                scene.leaves[name] = self._leaf(name, account, clock)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        over_since = self.over_since.get(tree, {})
        return estate, Situation(
            scene.tree,
            scene.leaves,
            estate.root,
            now,
            clock,
            over_since,
            frozenset(resting),
            touched,
            scene.limited,
        )

    def waits_for_limits(self, tree: str) -> bool:
        """Whether a limit of a user or group keeps anybody of a tree waiting, as it was last looked at."""
        scene = self._scenes.get(tree)
        return scene is not None and bool(scene.limited)

    def limits_due(self, tree: str) -> float:
        """When it is to be looked at again who has to wait for a limit, if that was put off."""
        scene = self._scenes.get(tree)
        return scene.limits_due if scene is not None else 0.0

    def _limit(self, scene: Scene, clock: float) -> None:
        """See who has to wait for a limit; the leaves of those for whom that is new are touched."""
        if clock < scene.limits_due:
            return
        began = time.perf_counter()
        held = (one for name in scene.names for one in self.by_leaf.get(name, {}).values() if one.is_held)
        before, scene.limited = scene.limited, self._hindered(scene.tree.name, held)
        took = time.perf_counter() - began
        rest = min(took * (1 / MOST_BUSY - 1), MOST_REST_SECONDS) if took > LONG_SECONDS else 0.0
        scene.limits_due = clock + took + rest if rest else 0.0
        for name in before.keys() ^ scene.limited.keys():
            binding = self.mirror.bindings.get(ObjectKey(*name.split("/", 1)))
            if binding is not None and binding.stamp.leaf in scene.names:
                scene.touched.add(binding.stamp.leaf)

    def _estate(self, scene: Scene, tree: str, forest: Forest) -> Estate:
        """What there is to share in a tree; worked out anew where that may be other than it was."""
        known = scene.estate
        if known is not None and scene.forest is forest and known.system_used == scene.system.used:
            return known
        root = forest.root(tree) or Root(tree)
        if scene.forest is not forest:
            self._survey(scene, tree, forest, root)
        holding = self._holdings(forest).get(tree, Holding())
        total = forest.total(tree, holding.allocatable, scene.system.used)
        if scene.tree.total != total:
            scene.tree = replace(scene.tree, total=total)
        scene.estate = Estate(root, holding, total, scene.system.used)
        return scene.estate

    def _survey(self, scene: Scene, tree: str, forest: Forest, root: Root) -> None:
        """See which quotas are in a tree, and which namespaces are its system's."""
        new = forest.tree(tree, scene.tree.total)
        if new != scene.tree:
            scene.tree = new
        scene.forest = forest
        names = frozenset(node.name for node in scene.tree.order if node is not None)
        for name in scene.names - names:
            if self._homes.get(name) == tree:
                del self._homes[name]
        there = set(scene.tree.leaves())
        for name in scene.leaves.keys() - there:
            del scene.leaves[name]
        # One that was at home elsewhere, if only for a moment, was touched there; and what was a parent is looked at.
        scene.touched |= {name for name in names if self._homes.get(name) != tree} | (there - scene.leaves.keys())
        scene.names = names
        self._homes.update(dict.fromkeys(names, tree))
        namespaces = frozenset(name for name, labels in forest.namespaces.items() if root.system.covers(name, labels))
        if namespaces != scene.system.namespaces:
            present = (one for one in self.mirror.bindings.values() if one.key.namespace in namespaces)
            scene.system = SystemGroup(namespaces, Resources.sum(one.assigned for one in present))

    def _holdings(self, forest: Forest) -> Mapping[str, Holding]:
        if self._shared is None or self._shared[0] is not forest:
            roots = {DEFAULT: Root(), **forest.roots}
            self._shared = forest, share_out((one.claim for one in roots.values()), forest.clusters)
        return self._shared[1]

    def _leaf(self, name: str, account: Account, clock: float) -> Leaf:
        # A reservation whose end this view has seen still stands in the account until somebody writes it.
        books = Books(settle(account, self.observation.view, {}), self.observation.view)
        bindings = tuple(self.by_leaf.get(name, {}).values())
        given = Resources.sum(one.assigned for one in bindings)
        doubt = self._doubts.get(name)
        if doubt is not None and (doubt.version != account.version or doubt.until < clock):
            del self._doubts[name]
            doubt = None
        return Leaf(
            published=leaves.published(account),
            # Of what its spec has named only now, its books know nothing yet.
            used=books.used.maximum(given),
            advanced=books.advanced,
            in_doubt=doubt.amounts if doubt else {},
            asks=leaves.asks(account),
            bindings=bindings,
            running=self._counting.of(name, leaves.kept(account).status) if self._counting else None,
        )
