"""Changes of quotas and trees that were let through, by whichever replica, and are not known to be stored yet.

Otherwise two quotas that come at once would each fit below a parent that has room for one. All replicas keep one list
of them, in one object, and write it under its version: so whoever lets a change through has judged it beside every
other that was let through before. A change may never arrive, because somebody else refused it. So the next is judged in
every world that there may be: with and without each of those that are under way.

- A change ends when a view has seen its object past it. Whoever strikes it off says how far their view was
  (`observed`): others, whose view may be behind, catch up with that before they judge anything.
- One that nobody ever sees ends when no write that was let through then can still be on its way.

Never here: clocks, reading and writing (`kube.underway`), what is allowed (`topology`).
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final, Generic, TypeVar

from federation_quota.elastic import quota as quotas
from federation_quota.elastic.forest import Root, read_root
from federation_quota.elastic.quota import COMPOSITE, ELASTIC, Quota

TREE: Final = "QuotaTree"
KINDS: Final = (ELASTIC, COMPOSITE, TREE)

WRITE_SECONDS: Final = 35.0
"""How long a write can be on its way: an API server cuts every one at 34 s."""
MOST_AT_ONCE: Final = 4
"""Beside how many that are under way a change is judged: every one more makes twice as many worlds."""
LONGEST: Final = 200_000
"""How many characters the list has at most: what an object's annotations may hold, and some to spare."""

T = TypeVar("T")


class UnderwayError(ValueError):
    """A list that cannot be read. Nobody but the system writes it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which object it is, and how often its specification has changed."""

    uid: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Stored(Generic[T]):
    """A stored object: its name, its identity, and what it says."""

    name: str
    identity: Identity
    value: T


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was let through."""

    id: str
    """Random, one for each review."""
    kind: str
    name: str
    """By which others find it: `namespace/name` of an ElasticQuota."""
    identity: Identity
    """The object as it will be stored; of a deletion, as it was."""
    spec: Mapping[str, Any] | None
    """What it will say; None for a deletion."""
    version: int = 0
    """Of a deletion, the version that the object had: a view from before it may not know the object yet."""

    def is_seen(self, stored: Identity | None, version: int) -> bool:
        """Whether a view has seen it. The view has read the kind up to `version`, and has `stored` under that name."""
        is_there = stored is not None and stored.uid == self.identity.uid
        if self.spec is None:
            return not is_there and version >= self.version
        # Another of the same name may be an earlier one, and this one yet to be seen.
        return stored is not None and is_there and stored.generation >= self.identity.generation


@dataclass(frozen=True, slots=True)
class Underway:
    """The list, at one version."""

    changes: tuple[Change, ...] = ()
    observed: Mapping[str, int] = field(default_factory=dict)
    """By kind: a view that has not reached this version of it may have missed what was struck off."""

    def with_change(self, new: Change) -> "Underway":
        """The list with one more."""
        return replace(self, changes=(*self.changes, new))

    def without(self, over: Collection[str], versions: Mapping[str, int]) -> "Underway":
        """The list without those, by whoever knows each kind up to that version, and everything that was observed.

        Where a version is below what was observed all the same, the store was restored.
        """
        struck = {one.kind for one in self.changes if one.id in over}
        observed = {kind: min(version, versions[kind]) for kind, version in self.observed.items()}
        kept = tuple(one for one in self.changes if one.id not in over)
        return Underway(kept, {**observed, **{kind: versions[kind] for kind in struck}})

    def write(self) -> str:
        """As its object has it."""
        changes = [
            {
                "id": one.id,
                "kind": one.kind,
                "name": one.name,
                "uid": one.identity.uid,
                "generation": one.identity.generation,
                "spec": one.spec,
                "version": one.version,
            }
            for one in self.changes
        ]
        return json.dumps({"changes": changes, "observed": dict(self.observed)}, separators=(",", ":"))


def read(text: str) -> Underway:
    """The list in its object's text; UnderwayError where it is none."""
    if not text:
        return Underway()
    try:
        found = json.loads(text)
        changes = tuple(_change(one) for one in found["changes"])
        return Underway(changes, {str(kind): int(version) for kind, version in found["observed"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnderwayError(f"the changes under way cannot be read: {error}") from error


def _change(one: Mapping[str, Any]) -> Change:
    identity = Identity(one["uid"], int(one["generation"]))
    # A replica of an earlier release does not say the version.
    return Change(one["id"], one["kind"], one["name"], identity, one["spec"], int(one.get("version", 0)))


def worlds(changes: Collection[Change]) -> Iterator[tuple[Change, ...]]:
    """All that there may be: with any of them, and first with none."""
    for count in range(len(changes) + 1):
        yield from combinations(changes, count)


def carry_out(
    changes: Collection[Change], found: Mapping[str, Quota], roots: Mapping[str, Root]
) -> tuple[dict[str, Quota], dict[str, Root]]:
    """The quotas and trees that there are once these have come. What a quota uses is as it was."""
    quotas_then, roots_then = dict(found), dict(roots)
    for one in changes:
        if one.kind == TREE:
            _put(roots_then, one.name, None if one.spec is None else _root(one))
        elif one.spec is None:
            quotas_then.pop(one.name, None)
        else:
            known, new = found.get(one.name), _quota(one)
            quotas_then[one.name] = new if known is None else _with_use(new, known)
    return quotas_then, roots_then


def _put(table: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value


def _with_use(new: Quota, known: Quota) -> Quota:
    return replace(new, used=known.used, request=known.request, is_occupied=known.is_occupied)


def _root(one: Change) -> Root:
    return read_root({"metadata": {"name": one.name}, "spec": one.spec})


def _quota(one: Change) -> Quota:
    namespace, _, name = one.name.rpartition("/")
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return quotas.read({"kind": one.kind, "metadata": metadata, "spec": one.spec})
