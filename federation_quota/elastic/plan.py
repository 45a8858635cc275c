"""What is to be done in a tree next: from what is watched to what is to be written.

What each leaf may use is worked out (`runtime`; `grant` in a tree that shares by giving way) and published: lowerings
alone as long as there are any, then raises (`publication`). What follows in each leaf is its `outlook`.

A `Planner` remembers the tree as it planned last, and works out anew what may have changed since: the leaves that were
touched and those in which something was left to do, what they ask for on the way up, and whoever gets more or less for
it. What comes out is the same as from scratch. A tree that shares by giving way compares everybody with everybody, and
is looked through as a whole.

Decided on what is stored alone, so that whoever carries it out may stop anywhere, and whoever comes next goes on. The
webhook judges every write again. Pure: the time comes from the caller, and since when a leaf has been over, which is in
no object, goes back to it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from federation_quota.binding import Binding
from federation_quota.elastic import labelling, occupant, outlook, publication, running, unit
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.fairshare import Workload
from federation_quota.elastic.forest import FAIR_SHARE
from federation_quota.elastic.grant import Grants, base, grant
from federation_quota.elastic.node import ROOT
from federation_quota.elastic.occupant import Occupant
from federation_quota.elastic.outlook import Displacement, Outlook
from federation_quota.elastic.publication import Stored
from federation_quota.elastic.release import Obstacle
from federation_quota.elastic.runtime import Runtimes, Standing
from federation_quota.elastic.situation import Leaf, Situation, demand
from federation_quota.elastic.sums import Part, Sums
from federation_quota.elastic.tree import Tree


@dataclass(frozen=True)
class Plan:
    """What to write. Tables of all quotas are the planner's own, and stand until it plans again."""

    lowerings: Mapping[str, dict[str, int]]
    raises: Mapping[str, dict[str, int]]
    """Planned only where there is nothing to lower."""
    standings: Mapping[str, Standing]
    """How each quota stands, parents too."""
    asks: Mapping[str, tuple[Ask, ...]]
    """The asks of each leaf that still count."""
    sums: Sums
    """What the leaves below each quota come to."""
    news: frozenset[str]
    """The quotas of which something is other than in the last plan."""
    releases: list[Binding]
    """In order."""
    wakes: list[Binding]
    """Released or running, refused, and with room now."""
    displacements: list[Displacement]
    labels: list[tuple[Binding, str]]
    """Who is to be labelled otherwise, and how."""
    hindered: Mapping[str, Obstacle]
    """Who waits, and what stands in the way."""
    over_since: dict[str, float]
    next_look: float | None
    """When something is to be done by time alone, on the clock that was given."""

    @property
    def published(self) -> Mapping[str, dict[str, int]]:
        """What to publish now."""
        return self.lowerings or self.raises


def plan(seen: Situation) -> Plan:
    """What to do next, from scratch."""
    return Planner().plan(seen)


class Planner:
    """Plans for one tree, again and again."""

    def __init__(self) -> None:
        self._workings: Workings | None = None

    def effort(self, seen: Situation) -> int:
        """How many leaves and bindings it will go through for a plan, about."""
        known = self._workings
        names = seen.leaves.keys() if known is None else known.concerned(seen)
        return len(names) + sum(len(seen.leaves[name].bindings) for name in names if name in seen.leaves)

    def plan(self, seen: Situation) -> Plan:
        """What to do next."""
        known, self._workings = self._workings, None  # where anything fails, nothing is left half done
        if known is None or seen.touched is None or not known.is_of(seen):
            known = Workings(seen)
            found = known.plan(seen, known.leaves)
        else:
            found = known.plan(seen, known.take(seen))
        self._workings = known
        return found


class Workings:
    """Everything that was worked out for a tree of the same quotas, shared in the same way."""

    def __init__(self, seen: Situation) -> None:
        self._seen = seen  # as it was planned last
        self._leaves: dict[str, Leaf] = {}  # with the asks that count
        self._asks: dict[str, tuple[Ask, ...]] = {}
        self._stored: dict[str, Stored] = {}
        self._sums = Sums(seen.tree)
        self._standings: dict[str, Standing] = {}
        self._lowerings: dict[str, dict[str, int]] = {}
        self._raises: dict[str, dict[str, int]] = {}
        self._behind: set[str] = set()  # those for which other than what they should have is published
        self._outlooks: dict[str, Outlook] = {}
        self._hindered: dict[str, Obstacle] = {}
        self._restless: set[str] = set()  # those that may be other by time alone, or had something left to do
        names = [name for name in seen.tree.leaves() if name in seen.leaves]
        figures = {name: self._figures(seen, name) for name in names}
        self._runtimes = Runtimes(
            seen.tree,
            {name: request for name, (request, _) in figures.items()},
            {name: used for name, (_, used) in figures.items()},
        )

    @property
    def leaves(self) -> set[str]:
        """All that are known."""
        return set(self._leaves)

    def is_of(self, seen: Situation) -> bool:
        """Whether they are of the tree that is seen."""
        last = self._seen
        return (
            seen.root.mode != FAIR_SHARE
            and seen.root == last.root
            and (seen.tree.nodes is last.tree.nodes or seen.tree.nodes == last.tree.nodes)
            and (seen.tree.scales_min, seen.tree.keeps_used) == (last.tree.scales_min, last.tree.keeps_used)
        )

    def concerned(self, seen: Situation) -> Collection[str]:
        """The leaves that are looked at for the next plan."""
        is_whole = seen.touched is None or not self.is_of(seen) or seen.tree.total != self._seen.tree.total
        return seen.leaves.keys() if is_whole else {*(seen.touched or ()), *self._restless}

    def take(self, seen: Situation) -> set[str]:
        """Take in the leaves that may be other than they were: what they ask for, and what they use; which they are."""
        touched = {name for name in {*(seen.touched or ()), *self._restless} if name in self._runtimes}
        for name in touched:
            request, used = self._figures(seen, name)
            self._runtimes.ask(name, request)
            self._runtimes.use(name, used)
        if seen.tree.total != self._seen.tree.total:
            self._runtimes.set_total(seen.tree.total)
        return touched

    def plan(self, seen: Situation, touched: set[str]) -> Plan:
        """What to do next; the leaves that were touched are taken in already."""
        news = self._settle(seen, touched)
        grants = None
        if seen.root.mode == FAIR_SHARE:
            grants = _grants(seen, self._leaves)
            self._standings |= {name: _granted(self._standings[name], grants, seen.tree, name) for name in self._leaves}
        changed = self._publish(seen, touched | news, grants)
        self._look(seen, touched | changed, {} if grants is None else _displaced(self._leaves, grants))
        self._seen = seen
        return self._found(frozenset(news | touched | _above(seen.tree, touched)))

    def _figures(self, seen: Situation, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """What a leaf asks for and uses now; the rest of it is noted."""
        leaf = seen.leaves.get(name)
        if leaf is None:
            for table in (self._leaves, self._asks, self._stored):
                table.pop(name, None)
            self._sums.put(name)
            return {}, {}
        asks = self._asks[name] = leaf.open_asks(seen.now)
        stored = self._stored[name] = leaf.stored
        self._leaves[name] = replace(leaf, asks=asks)
        runs = None if leaf.running is None else running.total(leaf.running)
        self._sums.put(name, Part(stored.ceilings, leaf.used, leaf.held, runs))
        return unit.asked(demand(leaf.bindings, asks, seen.limited)), unit.asked(leaf.used)

    def _settle(self, seen: Situation, touched: set[str]) -> set[str]:
        """Work out what everybody may use; whose standing is another for it."""
        tree = seen.tree
        if not self._standings:
            affected = {node.name for node in tree.order if node is not None}
        else:
            changed = self._runtimes.settle()
            affected = touched | _above(tree, touched) | changed
            # What of a min is kept depends on what its parent has, whether or not anything else comes of it.
            for name in (*changed, *([ROOT] if tree.total != self._seen.tree.total else ())):
                affected.update(tree.children(name))
        news = set()
        for name in affected:
            standing = self._runtimes.standing(name)
            if self._standings.get(name) != standing:
                self._standings[name] = standing
                news.add(name)
        return news

    def _publish(self, seen: Situation, concerned: Iterable[str], grants: Grants | None) -> set[str]:
        """Work out what is to be published; the leaves for which that is another than it was."""
        tree, before, were_published = seen.tree, dict(self._lowerings), self._published
        for name in concerned:
            self._lowerings.pop(name, None)
            self._behind.discard(name)
            stored = self._stored.get(name)
            if stored is None:
                continue  # a parent, or a leaf that has no account yet
            wanted = self._standings[name].runtime
            self._lowerings |= publication.lowerings({name: wanted}, {name: stored})
            if wanted != stored.published:
                self._behind.add(name)
        self._raises = {}
        if self._behind and not self._lowerings:
            if grants is not None:
                tree = replace(tree, total=base(tree))  # no more than was promised
            runtimes = {name: self._standings[name].runtime for name in self._behind | _above(tree, self._behind)}
            self._raises = publication.raises(tree, runtimes, self._stored, self._behind, self._sums)
        changed = {
            name for name in before.keys() | self._lowerings.keys() if before.get(name) != self._lowerings.get(name)
        }
        return changed | (were_published ^ self._published)

    @property
    def _published(self) -> set[str]:
        return set(self._lowerings or self._raises)

    def _look(self, seen: Situation, names: set[str], displaced: Mapping[str, list[Displacement]]) -> None:
        """See what follows in these leaves."""
        published = self._published
        for name in names:
            before = self._outlooks.pop(name, None)
            self._restless.discard(name)
            for key in before.hindered if before else ():
                self._hindered.pop(key, None)
        for name in names:
            leaf = self._leaves.get(name)
            if leaf is None:
                continue
            # What it is about to lose is not given away any more.
            leaf = replace(leaf, published=self._lowerings.get(name, leaf.published))
            found = self._outlooks[name] = outlook.look(
                seen, name, leaf, is_rising=name in published, displaced=displaced.get(name, ())
            )
            self._hindered |= found.hindered
            if not found.is_quiet:
                self._restless.add(name)

    def _found(self, news: frozenset[str]) -> Plan:
        active = [(name, self._outlooks[name]) for name in sorted(self._restless)]
        return Plan(
            lowerings=dict(self._lowerings),
            raises=self._raises,
            standings=self._standings,
            asks=self._asks,
            sums=self._sums,
            news=news,
            releases=[one for _, found in active for one in found.releases],
            wakes=[one for _, found in active for one in found.wakes],
            displacements=[one for _, found in active for one in found.displacements],
            labels=[one for _, found in active for one in found.labels],
            hindered=self._hindered,
            over_since={name: found.over_since for name, found in active if found.over_since is not None},
            next_look=min((found.next_look for _, found in active if found.next_look is not None), default=None),
        )


def _above(tree: Tree, names: Iterable[str]) -> set[str]:
    return {above for name in names for above in tree.ancestors(name)}


def _grants(seen: Situation, leaves: Mapping[str, Leaf]) -> Grants:
    waiting: list[Workload] = []
    present: list[Workload] = []
    for name, leaf in leaves.items():
        asked = {one.binding: one.charge for one in leaf.asks}
        there = [one for one in leaf.bindings if not one.is_deleting]
        open_to = [one for one in there if str(one.key) not in seen.limited]
        held = (one for one in outlook.waiting(open_to, asked) if one.name not in seen.resting)
        waiting += (_workload(one, name) for one in (*outlook.unfinished(open_to, asked), *held))
        labels = labelling.label(
            (occupant.occupying(one) for one in there if one.assigned), unit.quantities(seen.tree.nodes[name].min)
        )
        present += (
            _workload(occupant.occupying(one), name, labels[str(one.key)]) for one in there if str(one.key) in labels
        )
    return grant(seen.tree, {name: unit.asked(leaf.used) for name, leaf in leaves.items()}, waiting, present)


def _workload(one: Occupant, leaf: str, label: str = "") -> Workload:
    return Workload(
        one.name,
        leaf,
        unit.asked(one.charge),
        one.priority,
        is_over_quota=label == labelling.OVER_QUOTA,
        created=one.created,
        may_be_displaced=one.may_be_displaced,
    )


def _granted(standing: Standing, grants: Grants, tree: Tree, name: str) -> Standing:
    runtime, least = grants.runtimes[name], tree.nodes[name].min
    return replace(
        standing,
        runtime=runtime,
        guaranteed=grants.guaranteed[name],
        borrowed={resource: max(amount - least.get(resource, 0), 0) for resource, amount in runtime.items()},
        lent={resource: max(least.get(resource, 0) - amount, 0) for resource, amount in runtime.items()},
    )


def _displaced(leaves: Mapping[str, Leaf], grants: Grants) -> dict[str, list[Displacement]]:
    found: dict[str, list[Displacement]] = {}
    if grants.asking is None:
        return found
    by_name = {str(one.key): one for leaf in leaves.values() for one in leaf.bindings}
    reason = f"makes room for {grants.asking.name} of quota {grants.asking.quota}, which has a right to it"
    for one in grants.displaced:
        found.setdefault(str(one.quota), []).append(Displacement(by_name[one.name], str(one.quota), reason))
    return found
