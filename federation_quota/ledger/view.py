"""A component's own watch of all bindings, reduced to what they cost, with running totals.

Mutable, unlike the rest of the ledger: it is fed event by event, and one event costs the same whether a namespace has
ten bindings or ten thousand.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from federation_quota.ledger import domain
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.lens import Lens
from federation_quota.quantity import Quantity
from federation_quota.resources import NOTHING, Resources

# Deletions are remembered for as long as a reservation may still ask about them; that many are minutes of the fastest
# federation. A forgotten one costs a live look, nothing else.
MOST_TOMBSTONES = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored binding, as the ledger sees it."""

    uid: str
    version: int
    claim: Claim
    fault: str = ""  # why the claim is not known in full: it is then no more than a lower bound


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A binding that was deleted, at that version."""

    uid: str
    version: int


class View:
    """All bindings that one component has seen."""

    def __init__(self) -> None:
        self.version = 0  # everything up to here has been seen
        self._listed_at = 0  # the last list holds everything up to here: events that old are in it
        self._namespaces: dict[str, _Namespace] = {}
        self._tombstones: OrderedDict[tuple[str, str], Tombstone] = OrderedDict()
        # Whose accounts a claim is charged to, beside those of its namespace; None: there are no such accounts.
        self._domains_of: Callable[[Claim], Iterable[str]] | None = None
        self._owned: dict[str, _Namespace] = {}

    def upsert(self, namespace: str, name: str, entry: Entry) -> None:
        """A binding was stored. Events may come again: an older version never replaces a newer one."""
        if entry.version <= self._listed_at:
            return
        known = self.get(namespace, name)
        buried = self._tombstones.get((namespace, name))
        if (known is None or known.version < entry.version) and (buried is None or buried.version < entry.version):
            here = self._namespaces.get(namespace)
            if here is None:
                self._namespaces[namespace] = _Namespace({name: entry})
            else:
                here.put(name, entry)
            self._charge(namespace, name, known, entry)
        self.reach(entry.version)

    def delete(self, namespace: str, name: str, uid: str, version: int) -> None:
        """A binding was deleted, by the event of that version."""
        if version <= self._listed_at:
            return
        here = self._namespaces.get(namespace)
        known = here.entries.get(name) if here else None
        if here and known and known.version < version:
            here.put(name, None)
            if not here.entries:
                del self._namespaces[namespace]
            self._charge(namespace, name, known, None)
        buried = self._tombstones.get((namespace, name))
        if buried is None or buried.version < version:
            self._tombstones[namespace, name] = Tombstone(uid, version)
            self._tombstones.move_to_end((namespace, name))
        while len(self._tombstones) > MOST_TOMBSTONES:
            self._tombstones.popitem(last=False)
        self.reach(version)

    def replace(self, entries: Iterable[tuple[str, str, Entry]], version: int) -> None:
        """A list of everything there is, as of that version: what it does not name is gone, when is not known."""
        listed: dict[str, dict[str, Entry]] = {}
        for namespace, name, entry in entries:
            listed.setdefault(namespace, {})[name] = entry
        for namespace in self._namespaces.keys() - listed.keys():
            del self._namespaces[namespace]
        for namespace, found in listed.items():
            here = self._namespaces.get(namespace)
            if here is None:
                self._namespaces[namespace] = _Namespace(found)
            else:
                here.replace(found)
        # A list may be older than what was seen before only if the store itself went back: then this is what is true.
        self.version = self._listed_at = version
        self._tombstones = OrderedDict((key, dead) for key, dead in self._tombstones.items() if dead.version <= version)
        self.charge_to(self._domains_of)

    def charge_to(self, domains_of: Callable[[Claim], Iterable[str]] | None) -> None:
        """From now on claims are charged to these, too: every stored one, anew. None: to nobody."""
        self._domains_of = domains_of
        self._owned = {}
        for namespace, here in self._namespaces.items() if domains_of else ():
            if domain.is_namespace(namespace):
                for name, entry in here.entries.items():
                    self._charge(namespace, name, None, entry)

    @property
    def has_owners(self) -> bool:
        """Whether claims are charged to anybody beside the accounts of their namespaces."""
        return self._domains_of is not None

    def domains_of(self, claim: Claim) -> Iterable[str]:
        """Whose accounts a claim is charged to, beside those of its namespace."""
        return self._domains_of(claim) if self._domains_of else ()

    def reach(self, version: int) -> None:
        """Everything up to that version has been seen: the version of an event, or of a bookmark."""
        self.version = max(self.version, version)

    def get(self, namespace: str, name: str) -> Entry | None:
        """The binding of that name, if it is stored; in a user's or group's domain, whoever pays for it."""
        if domain.is_usage(namespace):
            namespace, name = domain.binding_in(namespace, name)
        here = self._namespaces.get(namespace)
        return here.entries.get(name) if here else None

    def tombstone(self, namespace: str, name: str) -> Tombstone | None:
        """The latest deletion of that name, if it is remembered."""
        if domain.is_usage(namespace):
            namespace, name = domain.binding_in(namespace, name)
        return self._tombstones.get((namespace, name))

    def entries(self, namespace: str) -> Mapping[str, Entry]:
        """All bindings of a namespace."""
        here = self._here(namespace)
        return here.entries if here else {}

    def newest(self, *namespaces: str) -> int:
        """The version of the latest event among the stored bindings of those namespaces; 0 where there are none."""
        return max((entry.version for one in namespaces for entry in self.entries(one).values()), default=0)

    def namespaces(self) -> list[str]:
        """The namespaces that have bindings."""
        return list(self._namespaces)

    def faults(self, namespace: str) -> Mapping[str, str]:
        """The bindings of a namespace whose cost is not known in full, and why. Nobody can judge beside them."""
        here = self._here(namespace)
        return here.faults if here else {}

    def spent(self, namespace: str, lens: Lens) -> Resources:
        """What the stored bindings of a namespace cost, as that lens sees them."""
        here = self._here(namespace)
        return here.total(lens) if here else NOTHING

    def _here(self, namespace: str) -> "_Namespace | None":
        return (self._owned if domain.is_usage(namespace) else self._namespaces).get(namespace)

    def _charge(self, namespace: str, name: str, before: Entry | None, after: Entry | None) -> None:
        """Bring the domains in line of those who pay for a binding as it was, and as it is."""
        if self._domains_of is None:
            return
        left = set(self._domains_of(before.claim)) if before else set()
        called = f"{namespace}/{name}"
        for place in self._domains_of(after.claim) if after else ():
            left.discard(place)
            if (here := self._owned.get(place)) is None:
                here = self._owned[place] = _Namespace({})
            here.put(called, after)
        for place in left:
            self._owned[place].put(called, None)
            if not self._owned[place].entries:
                del self._owned[place]


class _Namespace:
    """The bindings of one namespace, and a running total for every lens that was ever looked through."""

    __slots__ = ("_totals", "entries", "faults")

    # More lenses than this on one namespace are old shapes of its quotas: starting over is cheaper than keeping them.
    MOST_TOTALS = 64

    def __init__(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self.faults = {name: entry.fault for name, entry in entries.items() if entry.fault}
        self._totals: dict[Lens, dict[str, Quantity]] = {}

    def replace(self, entries: Mapping[str, Entry]) -> None:
        for name in self.entries.keys() - entries.keys():
            self.put(name, None)
        for name, entry in entries.items():
            self.put(name, entry)

    def put(self, name: str, entry: Entry | None) -> None:
        before = self.entries.get(name)
        if entry is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = entry  # in its place: taken out and put in again, the table would have to be made anew
        if entry is not None and entry.fault:
            self.faults[name] = entry.fault
        else:
            self.faults.pop(name, None)
        if before is not None and entry is not None and before.claim == entry.claim:
            return
        for lens, total in self._totals.items():
            if before is not None:
                for resource, amount in lens.cost(before.claim).items():
                    total[resource] = total[resource] - amount
            if entry is not None:
                _add(total, lens.cost(entry.claim))

    def total(self, lens: Lens) -> Resources:
        total = self._totals.get(lens)
        if total is None:
            total = {}
            for entry in self.entries.values():
                _add(total, lens.cost(entry.claim))
            if len(self._totals) >= self.MOST_TOTALS:
                self._totals.clear()
            self._totals[lens] = total
        return Resources(total)


def _add(total: dict[str, Quantity], cost: Resources) -> None:
    for resource, amount in cost.items():
        total[resource] = total[resource] + amount if resource in total else amount
