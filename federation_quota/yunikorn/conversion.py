"""A configuration as our objects: a QuotaTree for each partition, and a quota for each queue below its root.

- A queue with others below it, or that says so, is a CompositeElasticQuota without namespaces. Where a placement rule
  finds queues by namespace, a queue of that name is its namespace's ElasticQuota. Every other one is for whoever names
  it, as there.
- guaranteed is min, max is max, vcore is cpu. Where a parent does not say what is guaranteed to it, it is what is
  guaranteed below.
- Limits stand where they stood. Where YuniKorn lets one through that allows more than one above, it is written as low
  as it is in effect, because our rules want it so.

What has no place here is said, each with where it stood.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from federation_quota.elastic.imported import TREE, Imported, Note, checked
from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.elastic.tree import DEFAULT
from federation_quota.quantity import Format, Quantity
from federation_quota.resource_name import COUNT, canonical
from federation_quota.validation import is_subdomain, name_fault
from federation_quota.yunikorn import amount, lowering, placement
from federation_quota.yunikorn.amount import VCORE, Written
from federation_quota.yunikorn.config import ROOT, Config, Partition, Queue
from federation_quota.yunikorn.lowering import Bounds
from federation_quota.yunikorn.naming import Names

CPU: Final = "cpu"
PARTITION_LABEL: Final = "partition"

_LONGEST_NAMESPACE: Final = 63


def convert(config: Config) -> Imported:
    """Our objects for a configuration that was checked, and what could not be carried over."""
    return checked(Conversion(config).run())


@dataclass(frozen=True, slots=True)
class _Place:
    """What is above a queue."""

    path: str
    tree: str
    parent: str | None = None
    namespaces_at: frozenset[str] = frozenset()
    """Below which queues a queue is found by namespace."""


class Conversion:
    """One configuration on its way."""

    def __init__(self, config: Config) -> None:
        self.imported = Imported()
        self._config = config
        queues = [one for partition in config.partitions for one in _walk(partition.root, ROOT)]
        self._names = Names(path for path, _ in queues if path != ROOT)
        self._trees = Names((one.title for one in config.partitions), DEFAULT)
        self._namespaces: set[str] = set()  # that have a quota already
        self._has_vcore = any(VCORE in (written or {}) for _, queue in queues for written in _amounts(queue))

    def run(self) -> Imported:
        """All of it, not yet held against our own rules."""
        if self._config.has_more:
            self._note("the file", "has more than one document, of which YuniKorn reads the first: so did we")
        for partition in self._config.partitions:
            self._partition(partition)
        return self.imported

    def _partition(self, partition: Partition) -> None:
        root = partition.root
        tree = DEFAULT if partition.title == DEFAULT else self._trees.give(partition.title)
        about = f"partition {partition.title}"
        spec: dict[str, Any] = {}
        if tree != DEFAULT:
            spec["clusterSelector"] = {"matchLabels": {PARTITION_LABEL: tree}}
            self._note(about, f"has the clusters that are labelled {PARTITION_LABEL}={tree}: say which they are")
        for name in partition.others:
            self._note(about, f"{name} was left out: which nodes are taken is the members' schedulers' business")
        bounds = Bounds()
        limits = self._limits(root, ROOT, bounds)
        if limits:
            spec["limits"] = limits
        self._note_the_rest(root, ROOT)
        place = _Place(ROOT, tree, None, frozenset(self._namespace_rules(partition)))
        self.imported.add(TREE, tree, None, spec)
        tree_spec = self.imported.objects[-1]["spec"]
        names: dict[str, str] = {}
        for child in root.queues:
            names |= self._queue(child, place, bounds)
        self._fixed_rules(partition, names, tree, tree_spec)

    def _queue(self, queue: Queue, above: _Place, bounds: Bounds) -> dict[str, str]:
        """One queue and those below; the CompositeElasticQuotas that were made, by path."""
        path = f"{above.path}.{queue.name}"
        most = self._resources(queue.most, path, "max")
        spec: dict[str, Any] = {} if above.tree == DEFAULT else {"tree": above.tree}
        if above.parent is not None:
            spec["parent"] = above.parent
        spec["min"] = _json(self._least(queue, path))
        if most:
            spec["max"] = _json(most)
        bounds = bounds.below(most)
        limits = self._limits(queue, path, bounds)
        if limits:
            spec["limits"] = limits
        self._note_the_rest(queue, path)
        if self._is_of_a_namespace(queue, above):
            self._namespaces.add(queue.name)
            self.imported.add(ELASTIC, queue.name, queue.name, spec)
            return {}
        name = self._names.give(path)
        if name != queue.name:
            self._note(f"queue {path}", f"is called {name} here")
        if not _is_parent(queue):
            spec["offeredTo"] = {"namespaceSelector": {}}
            self._note(f"queue {path}", "is for whoever names it, as there: narrow spec.offeredTo to those who should")
        self.imported.add(COMPOSITE, name, None, spec)
        found = {path.lower(): name}
        for child in queue.queues:
            found |= self._queue(child, _Place(path, above.tree, name, above.namespaces_at), bounds)
        return found

    def _is_of_a_namespace(self, queue: Queue, above: _Place) -> bool:
        is_name = is_subdomain(queue.name) and len(queue.name) <= _LONGEST_NAMESPACE
        is_free = queue.name not in self._namespaces
        return not _is_parent(queue) and above.path.lower() in above.namespaces_at and is_name and is_free

    def _least(self, queue: Queue, path: str, *, is_said: bool = True) -> dict[str, Quantity]:
        """What is guaranteed to a queue; what it does not name itself is what is guaranteed below."""
        own = self._resources(queue.guaranteed, path, "guaranteed" if is_said else "")
        below: dict[str, int] = {}
        for child in queue.queues:
            for name, least in self._least(child, f"{path}.{child.name}", is_said=False).items():
                below[name] = below.get(name, 0) + least.nano
        return {**{name: Quantity(nano, _format(name, nano)) for name, nano in sorted(below.items())}, **own}

    def _limits(self, queue: Queue, path: str, bounds: Bounds) -> list[dict[str, Any]]:
        found = []
        for number, limit in enumerate(queue.limits):
            place = f"limit {limit.label or number + 1}"
            resources = self._resources(limit.resources, path, place)
            if resources.keys() != (limit.resources or {}).keys() and all(one.is_zero for one in resources.values()):
                banned = f", and nobody is kept from {', '.join(resources)} by it" if resources else ""
                self._note(f"queue {path}", f"{place} has no resource left that it limits{banned}")
            found += lowering.entries(limit, resources, bounds)
        for told in bounds.told:
            self._note(f"queue {path}", told)
        return [one.to_json() for one in found]

    def _resources(self, written: Written, path: str, place: str) -> dict[str, Quantity]:
        """By our names; what has none is said, where it is read for the first time."""
        given, found = amount.read(written), {}
        for theirs, value in given.items():
            fault = self._fault(theirs)
            if fault and place:
                self._note(f"queue {path}", f"{place} of {theirs} was left out: {fault}")
            if not fault:
                name = CPU if theirs == VCORE else theirs
                nano = value * (10**6 if theirs == VCORE else 10**9)
                found[name] = Quantity(nano, _format(name, nano))
        return found

    def _fault(self, theirs: str) -> str:
        if theirs == CPU and self._has_vcore:
            return "YuniKorn calls it vcore, and so does this configuration elsewhere: cpu limits nothing there"
        if theirs != VCORE and (canonical(theirs) != theirs or theirs.startswith(COUNT)):
            return "it is no resource that YuniKorn knows of pods"
        return "" if theirs == VCORE else name_fault(theirs) or ""

    def _note_the_rest(self, queue: Queue, path: str) -> None:
        about = f"queue {path}"
        if queue.applications:
            text = "how many workloads there are is limited for users and groups here, and by a KarmadaQuota's counts"
            self._note(about, f"maxapplications {queue.applications} was left out: {text}")
        for name in sorted(queue.properties):
            self._note(about, f"property {name} was left out: its order and preemption follow priorities here")
        if queue.template:
            self._note(about, "childtemplate was left out: no quota is made by itself here")
        for name, given in (("adminacl", queue.admins), ("submitacl", queue.submitters)):
            if given.strip() not in ("", "*"):
                text = "who may create workloads is RBAC's to say here, and of whom a quota is, its namespaces'"
                self._note(about, f"{name} {given.strip()!r} was left out: {text}")

    def _namespace_rules(self, partition: Partition) -> Iterator[str]:
        """The queues below which a queue is found by namespace; all other rules but those for fixed ones are said."""
        for rule in partition.rules:
            path, is_whole = placement.static_path(rule)
            about = f"partition {partition.title}"
            names = "->".join(one.name for one in rule.chain)
            if is_whole:
                continue
            is_static = all(one.name == placement.FIXED for one in rule.chain[:-1])
            is_narrowed = any(one.users or one.groups for one in rule.chain)
            if (rule.name, rule.value) == (placement.TAG, placement.NAMESPACE) and is_static and not is_narrowed:
                yield path.lower() if rule.parent else ROOT
                if rule.creates:
                    text = "makes a queue for every namespace: here make an ElasticQuota in each that should have one"
                    self._note(about, f"placement rule {names} {text}")
            elif rule.name == placement.PROVIDED:
                text = "a workload chooses with the label quota.karmada.io/quota-name, among what it is offered"
                self._note(about, f"placement rule {names}: {text}")
            else:
                self._note(about, f"placement rule {names} was left out: a quota is of namespaces, or is chosen")

    def _fixed_rules(self, partition: Partition, names: dict[str, str], tree: str, spec: dict[str, Any]) -> None:
        """A rule that leads to one queue, always: that is the default group's, in the default tree."""
        for rule in partition.rules:
            path, is_whole = placement.static_path(rule)
            if not is_whole:
                continue
            name = names.get(path.lower())
            about = f"partition {partition.title}"
            if tree == DEFAULT and name and "defaultGroup" not in spec and not (rule.users or rule.groups):
                spec["defaultGroup"] = name
                self._note(about, f"what the placement rule to {path} takes falls to the default group, {name}")
            else:
                text = "the default tree has one default group, and it is of no namespace"
                self._note(about, f"the placement rule to {path} was left out: {text}")

    def _note(self, about: str, what: str) -> None:
        self.imported.notes.append(Note(about, what))


def _walk(queue: Queue, path: str) -> Iterator[tuple[str, Queue]]:
    yield path, queue
    for child in queue.queues:
        yield from _walk(child, f"{path}.{child.name}")


def _amounts(queue: Queue) -> tuple[Written, ...]:
    return queue.guaranteed, queue.most, *(limit.resources for limit in queue.limits)


def _is_parent(queue: Queue) -> bool:
    return queue.is_parent or bool(queue.queues)


def _format(name: str, nano: int) -> Format:
    """As people would write it: in powers of two where it is one of those and not of tens."""
    whole, rest = divmod(nano, 10**9)
    is_binary = name != CPU and not rest and whole and not whole % 1024 and whole % 1000
    return Format.BINARY_SI if is_binary else Format.DECIMAL_SI


def _json(amounts: dict[str, Quantity]) -> dict[str, str]:
    return {name: one.to_json() for name, one in amounts.items()}
