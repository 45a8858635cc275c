"""Who is there: replicas by the Leases that they keep renewing, judged by one's own clock. Pure; no I/O, no event loop.

Each incarnation of a replica has a Lease of its own, which outlives it: that is how somebody who starts later learns of
one that died with writes under way. A replica is gone once its Lease was seen unchanged for the Lease's own duration.
"Seen" is the point: a feed that is stuck looks like replicas that are silent, so silence counts only up to the last
`confirm`, a list that was surely read after a given moment. A replica that cannot renew its Lease stops by itself
(`kube.presence`), so from the end of that duration on it starts nothing new.

Feed it from a reflector (it is a sink) for promptness, and from `presence.take_roll` for certainty.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from federation_quota.kube.lease import Lease

# How long the departed are remembered; questions about a longer time cannot be answered.
MEMORY_SECONDS = 900.0
LEFT_ANNOTATION = "quota.karmada.io/left"
"""On the Lease of a replica that has left in good order: when, after its last answer."""
LEGACY_ANNOTATION = "quota.karmada.io/legacy"
"""On the same Lease: what it left for accounts that are new after it (`kube.legacies`)."""


@dataclass(slots=True)
class _Member:
    lease: Lease
    version: int
    changed_at: float
    is_deleted: bool = False
    left_at: float | None = None

    @property
    def runs_out_at(self) -> float:
        return self.changed_at + (self.lease.spec.duration_seconds or 0)


class Roster:
    """All incarnations that are, or lately were."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.as_of: float | None = None  # silence up to here is known to be silence
        self.version = 0  # the highest that was heard of
        self._members: dict[str, _Member] = {}  # by the name of their Lease

    def replace(self, items: Sequence[Lease], version: int) -> None:
        """These Leases exist, as of that version."""
        self.version = max(self.version, version)
        for item in items:
            self.upsert(item)
        named = {item.metadata.name for item in items}
        for name, member in self._members.items():
            if name not in named and member.version < version:
                member.is_deleted = True
                member.version = version
        self._forget()

    def upsert(self, item: Lease) -> None:
        """A Lease was created or renewed. Old news, which a second source may bring, changes nothing."""
        self.version = max(self.version, item.version)
        member = self._members.get(item.metadata.name)
        if member is None:
            member = self._members[item.metadata.name] = _Member(item, item.version, self.clock())
        elif item.version <= member.version:
            return
        else:
            if item.spec != member.lease.spec or member.is_deleted:
                member.changed_at = self.clock()
            member.lease, member.version, member.is_deleted = item, item.version, False
        if LEFT_ANNOTATION not in item.metadata.annotations:
            member.left_at = None
        elif member.left_at is None:
            member.left_at = self.clock()

    def delete(self, item: Lease) -> None:
        """A Lease was deleted. Its replica is not forgotten: it may have died a moment ago."""
        member = self._members.get(item.metadata.name)
        if member and item.version > member.version:
            member.is_deleted = True
            member.version = item.version
        self._forget()

    def bookmark(self, version: int) -> None:
        """Nothing follows from it: how long it was under way is not known."""

    def rewind(self) -> None:
        """The store went back in time: versions from before no longer compare with those to come."""
        self.version = 0
        for member in self._members.values():
            member.version = 0

    def confirm(self, items: Sequence[Lease], version: int, as_of: float) -> None:
        """A whole list that was read from the store itself after the moment `as_of`."""
        self.replace(items, version)
        self.as_of = max(as_of, self.as_of) if self.as_of is not None else as_of

    def live(self) -> frozenset[str]:
        """Incarnations that are not known to be gone."""
        return self._names(member for member in self._members.values() if self._gone_since(member) is None)

    def unsettled(self, seconds: float) -> frozenset[str]:
        """Incarnations that are live, or gone for less than that: those who may still have something under way."""
        if seconds > MEMORY_SECONDS:
            raise ValueError(f"a roster remembers {MEMORY_SECONDS:g} s, not {seconds:g}")
        return self._names(member for member in self._members.values() if not self._is_gone_for(member, seconds))

    def legacies(self) -> dict[str, str]:
        """What replicas wrote down when they left, by incarnation."""
        found = {}
        for member in self._members.values():
            text = member.lease.metadata.annotations.get(LEGACY_ANNOTATION)
            if text and member.left_at is not None:
                found[member.lease.spec.holder or member.lease.metadata.name] = text
        return found

    def gone_seconds(self, incarnation: str) -> float | None:
        """How long it has been gone; None where it is live, or was never heard of."""
        for member in self._members.values():
            if member.lease.spec.holder == incarnation:
                since = self._gone_since(member)
                return None if since is None else self.clock() - since
        return None

    def settles_in(self, seconds: float) -> float | None:
        """When to ask `unsettled` again, if nothing is heard: None where only a confirmed silence can change it."""
        times = [self._gone_since(member) for member in self._members.values()]
        left = [since + seconds - self.clock() for since in times if since is not None]
        return min((one for one in left if one > 0), default=None)

    def forgettable(self, seconds: float) -> list[Lease]:
        """Leases whose replicas have been gone that long: they may be deleted."""
        members = self._members.values()
        return [one.lease for one in members if not one.is_deleted and self._is_gone_for(one, seconds)]

    def _gone_since(self, member: _Member) -> float | None:
        now = self.clock()
        if member.left_at is not None:
            return member.left_at
        if member.is_deleted:  # nobody can renew it any more
            return member.runs_out_at if member.runs_out_at <= now else None
        return member.runs_out_at if self.as_of is not None and member.runs_out_at <= self.as_of else None

    def _is_gone_for(self, member: _Member, seconds: float) -> bool:
        since = self._gone_since(member)
        return since is not None and self.clock() - since >= seconds

    def _names(self, members: Iterable[_Member]) -> frozenset[str]:
        return frozenset(member.lease.spec.holder or member.lease.metadata.name for member in members)

    def _forget(self) -> None:
        over = [
            name
            for name, member in self._members.items()
            if member.is_deleted and self._is_gone_for(member, MEMORY_SECONDS)
        ]
        for name in over:
            del self._members[name]
