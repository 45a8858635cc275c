"""What reflectors feed: the federation's bindings, quotas and priority classes, as both deployables need them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic import leaf
from federation_quota.kube.resource import Resource
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.view import Entry

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)


def claim(binding: Binding) -> Claim:
    """What a binding claims of the quotas of its namespace, and of whose it is."""
    stamp = binding.stamp
    if stamp.owner is None:
        return Claim(binding.charge, stamp.priority_class)
    return Claim(binding.charge, stamp.priority_class, stamp.leaf, stamp.owner)


class BindingMirror:
    """Every binding, for whoever asks by name; and what they cost, in the observation: in the namespace of each, and in
    the domain of the leaf that it is under. One that comes under another leaf leaves the first by the same event."""

    def __init__(
        self,
        observation: Observation,
        on_change: Callable[[Binding | None, Binding | None], None] = lambda _before, _after: None,
    ) -> None:
        self.bindings: dict[ObjectKey, Binding] = {}
        self._observation = observation
        self._on_change = on_change

    def replace(self, items: Sequence[Binding], version: int) -> None:
        """Everything was listed anew."""
        before, self.bindings = self.bindings, {}
        for item in items:
            known = before.get(item.key)
            self.bindings[item.key] = item.at_least(known) if known else item
        self._observation.replace(_entries(self.bindings.values()), version)
        for key in before.keys() | self.bindings.keys():
            if before.get(key) != self.bindings.get(key):
                self._on_change(before.get(key), self.bindings.get(key))

    def upsert(self, item: Binding) -> None:
        """A binding was stored."""
        before = self.bindings.get(item.key)
        after = item.at_least(before) if before else item
        self.bindings[item.key] = after
        self._observation.upsert(*item.key, _entry(after))
        if before is not None and before.stamp.leaf not in ("", after.stamp.leaf):
            self._observation.delete(*_place(before), before.uid, after.version)
        if after.stamp.leaf:
            self._observation.upsert(*_place(after), _leaf_entry(after))
        self._on_change(before, after)

    def delete(self, item: Binding) -> None:
        """A binding was deleted."""
        before = self.bindings.pop(item.key, None)
        self._observation.delete(*item.key, item.uid, item.version)
        for last in (before, item):  # a last state that cannot be read may not say under which leaf it was
            if last is not None and last.stamp.leaf:
                self._observation.delete(*_place(last), item.uid, item.version)
        self._on_change(before, None)

    def bookmark(self, version: int) -> None:
        """Everything up to there has been seen."""
        self._observation.reach(version)


def _entry(binding: Binding) -> Entry:
    return Entry(binding.uid, binding.version, claim(binding), binding.fault or binding.stamp.fault)


def _leaf_entry(binding: Binding) -> Entry:
    return Entry(binding.uid, binding.version, leaf.claim(binding), binding.fault or binding.stamp.fault)


def _entries(bindings: Iterable[Binding]) -> Iterator[tuple[str, str, Entry]]:
    for binding in bindings:
        yield *binding.key, _entry(binding)
        if binding.stamp.leaf:
            yield *_place(binding), _leaf_entry(binding)


def _place(binding: Binding) -> tuple[str, str]:
    """The domain of the leaf that a binding is under, and what it is called there."""
    place = domain.of_leaf(binding.stamp.leaf)
    return place, domain.name_in(place, binding.key)


class QuotaMirror:
    """Every quota that can be used, and word of each change."""

    def __init__(self, on_stored: Callable[[Account], None], on_deleted: Callable[[str, str, int], None]) -> None:
        self.accounts: dict[ObjectKey, Account] = {}
        self._names: dict[str, set[str]] = {}  # by namespace
        self._on_stored = on_stored
        self._on_deleted = on_deleted

    def replace(self, items: Sequence[Account], version: int) -> None:
        """Everything was listed anew."""
        listed = {ObjectKey(item.namespace, item.name) for item in items}
        for key in [one for one in self.accounts if one not in listed]:
            self._drop(key)
            self._on_deleted(*key, version)
        for item in items:
            self.upsert(item)

    def upsert(self, item: Account) -> None:
        """A quota was stored."""
        self.accounts[ObjectKey(item.namespace, item.name)] = item
        self._names.setdefault(item.namespace, set()).add(item.name)
        self._on_stored(item)

    def delete(self, item: Account) -> None:
        """A quota was deleted."""
        self._drop(ObjectKey(item.namespace, item.name))
        self._on_deleted(item.namespace, item.name, int(item.version))

    def names(self, namespace: str) -> list[str]:
        """The quotas of a namespace."""
        return list(self._names.get(namespace, ()))

    def _drop(self, key: ObjectKey) -> None:
        self.accounts.pop(key, None)
        here = self._names.get(key.namespace, set())
        here.discard(key.name)
        if not here:
            self._names.pop(key.namespace, None)

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""


class PriorityClass(msgspec.Struct, frozen=True):
    """A priority class, reduced to its value."""

    name: str
    value: int


class _Metadata(msgspec.Struct):
    name: str


class _PriorityClass(msgspec.Struct):
    metadata: _Metadata
    value: int = 0


_PRIORITY_CLASS = msgspec.json.Decoder(_PriorityClass)


class PriorityMirror:
    """The value of each priority class on the federation."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    @staticmethod
    def decode(body: bytes) -> PriorityClass:
        """The class in an object's bytes."""
        found = _PRIORITY_CLASS.decode(body)
        return PriorityClass(found.metadata.name, found.value)

    def replace(self, items: Sequence[PriorityClass], version: int) -> None:
        """Everything was listed anew."""
        self.values.clear()  # in place: others look at this very table
        self.values.update((item.name, item.value) for item in items)

    def upsert(self, item: PriorityClass) -> None:
        """A class was stored."""
        self.values[item.name] = item.value

    def delete(self, item: PriorityClass) -> None:
        """A class was deleted."""
        self.values.pop(item.name, None)

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""


class ObjectMirror:
    """Objects of one kind as they are, by name: for a handful of them, such as webhook configurations."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.objects: dict[str, Mapping[str, object]] = {}
        self._on_change = on_change

    @staticmethod
    def decode(body: bytes) -> Mapping[str, object]:
        """The object in its bytes, whole."""
        found: Mapping[str, object] = msgspec.json.decode(body)
        return found

    def replace(self, items: Sequence[Mapping[str, object]], version: int) -> None:
        """Everything was listed anew."""
        self.objects = {_name(item): item for item in items}
        self._on_change()

    def upsert(self, item: Mapping[str, object]) -> None:
        """An object was stored."""
        self.objects[_name(item)] = item
        self._on_change()

    def delete(self, item: Mapping[str, object]) -> None:
        """An object was deleted."""
        self.objects.pop(_name(item), None)
        self._on_change()

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""


def _name(item: Mapping[str, object]) -> str:
    metadata = item["metadata"]
    assert isinstance(metadata, dict)  # noqa: S101 - the API server stores no other
    return str(metadata["name"])
