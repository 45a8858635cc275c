"""Who waits for quota: the list in a quota's status, and who of it is to be tried again now.

A workload that was refused has nobody to speak for it: Karmada tries again later and later, up to a quarter of an hour.
So the webhook that refuses notes it in the quota's status, and the controller wakes it when there is room: highest
priority first, among equals the oldest, and only what fits beside everybody woken before it. What does not fit keeps
nobody smaller from being woken: like Kubernetes' own quota, nothing is set aside for those who wait.

Pure. How one is woken is the controller's business, and that it is judged anew when it comes is the ledger's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from federation_quota import karmadaquota
from federation_quota.binding import Binding
from federation_quota.bounds import LONGEST_MESSAGE, MOST_WAITING
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.judging import Ask
from federation_quota.ledger.view import Entry, View
from federation_quota.limits import usage
from federation_quota.quantity import QuantityError
from federation_quota.resources import Resources
from federation_quota.room import Obstacle, Room

WOKEN_ANNOTATION: Final = "federation-quota/woken-at"
"""On a template: when it was last tried again. Not of karmada.io: under a policy with lazy activation Karmada takes a
change of nothing but annotations whose names have `.karmada.io` in them for its own, and does not act on it."""

QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""Why Karmada's scheduler says that a binding is not scheduled, when the webhook refused its clusters."""


class Way(Enum):
    """How one is woken."""

    TEMPLATE = "template"
    """By an annotation on the template: Karmada then brings the binding in line with it, and schedules it anew."""
    SCHEDULE = "schedule"
    """By `spec.rescheduleTriggeredAt`. Only while it has no clusters: what runs would be shuffled."""
    RELEASE = "release"
    """By ending its suspension."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A workload that does not fit: refused, or held."""

    binding: str
    api_version: str
    kind: str
    name: str
    claim: Claim
    """All that it would cost."""
    priority: int
    since: str
    message: str = ""

    @property
    def place(self) -> tuple[int, str, str]:
        """By which they are tried: the smallest first."""
        # Whole seconds have no fraction: without the Z, «05» stands before «05.5», as it should.
        return -self.priority, self.since.rstrip("Z"), self.binding

    def has_terms_of(self, other: "Waiter") -> bool:
        """Whether it is the same wish, whenever and with whatever words it was refused."""
        return self._terms == other._terms

    @property
    def _terms(self) -> object:
        return self.binding, self.api_version, self.kind, self.name, self.claim, self.priority

    def ask(self, entry: Entry | None) -> Ask:
        """What it would ask the ledger for, with that stored of its binding by now."""
        return Ask(
            id=f"wake {self.binding}",
            binding=self.binding,
            new=self.claim,
            old=entry.claim if entry else NO_CLAIM,
            uid=None if entry else "",
            base=entry.version if entry else None,
        )


def refused(binding: Binding, message: str, since: str) -> Waiter:
    """The waiter that a refused binding becomes."""
    return _waiter(binding, binding.charge, since, message)


def refused_by(account: Account, binding: Binding, message: str, since: str) -> Waiter:
    """The same on the list of a certain account: on that of a user or group, with where in the tree it would stand."""
    waiter = refused(binding, message, since)
    if not usage.is_usage(account):
        return waiter
    owner = usage.anybody(usage.kept(account).subject)
    claim = replace(waiter.claim, leaf=binding.stamp.leaf, owner=owner)
    return replace(waiter, binding=str(binding.key), claim=claim)


def entries(account: Account) -> object:
    """The list as it is stored: to see whether it has changed."""
    kept = usage.kept(account).status if usage.is_usage(account) else karmadaquota.quota(account).status
    return kept.get("waiting")


def listed(account: Account) -> tuple[Waiter, ...]:
    """Who waits for an account."""
    if not usage.is_usage(account):
        return read(karmadaquota.quota(account).status)
    kept = usage.kept(account)
    owner = usage.anybody(kept.subject)
    return tuple(replace(one, claim=replace(one.claim, owner=owner)) for one in read(kept.status))


def relisted(account: Account, waiters: Iterable[Waiter]) -> Account:
    """The account with these on its list; to be written under its version."""
    if usage.is_usage(account):
        return usage.stored_as(account, {**usage.kept(account).status, "waiting": write(waiters)})
    return karmadaquota.stored_as(account, {**karmadaquota.quota(account).status, "waiting": write(waiters)})


def held(binding: Binding) -> Waiter:
    """The waiter that a held binding is: it costs what it asks for as soon as it is released."""
    return _waiter(binding, binding.demand.maximum(binding.assigned), binding.created, "")


def pending(binding: Binding) -> Waiter:
    """The waiter that a binding is of which a validator refused something."""
    note = binding.pending
    return (
        refused(binding, "", binding.created)
        if note is None
        else _waiter(binding, note.charge, note.since, note.message)
    )


def is_granted(waiter: Waiter, stored: Claim) -> bool:
    """Whether the binding has what the waiter waits for."""
    wanted = waiter.claim
    return stored.priority_class == wanted.priority_class and all(
        stored.charge[name] >= amount for name, amount in wanted.charge.items()
    )


def read(status: Mapping[str, Any]) -> tuple[Waiter, ...]:
    """The waiters in a quota's status. One that cannot be read is left out: it is noted again when it is refused."""
    given = status.get("waiting")
    found = []
    for stored in given if isinstance(given, list) else ():
        try:
            texts = [stored[name] for name in ("binding", "apiVersion", "kind", "name", "class", "since", "message")]
            claim = Claim(Resources.parse(stored["charge"]), stored["class"], _leaf(stored))
            priority = stored["priority"]
        except (KeyError, TypeError, AttributeError, QuantityError):
            continue
        if all(isinstance(text, str) for text in texts) and isinstance(priority, int):
            binding, api_version, kind, name, _, since, message = texts
            found.append(Waiter(binding, api_version, kind, name, claim, priority, since, message))
    return tuple(found)


def write(waiters: Iterable[Waiter]) -> list[dict[str, Any]]:
    """The waiters as a status has them."""
    return [
        {
            "binding": one.binding,
            "apiVersion": one.api_version,
            "kind": one.kind,
            "name": one.name,
            "class": one.claim.priority_class,
            "priority": one.priority,
            "charge": one.claim.charge.to_json(),
            "since": one.since,
            "message": one.message[:LONGEST_MESSAGE],
            **({"leaf": one.claim.leaf} if one.claim.leaf else {}),
        }
        for one in waiters
    ]


def _leaf(stored: Mapping[str, Any]) -> str:
    leaf = stored.get("leaf", "")
    if not isinstance(leaf, str):
        raise TypeError("leaf is not text")
    return leaf


def merge(known: Sequence[Waiter], noted: Iterable[Waiter], most: int = MOST_WAITING) -> tuple[Waiter, ...]:
    """The list with those noted in it, one per binding, in their order; the last are dropped where it is full.

    Who is listed already keeps the place it had in time, and stays as it is where it wants no other.
    """
    merged = {one.binding: one for one in known}
    for one in noted:
        there = merged.get(one.binding)
        if there is None:
            merged[one.binding] = one
        elif not there.has_terms_of(one):
            merged[one.binding] = replace(one, since=there.since)
    return tuple(sorted(merged.values(), key=lambda one: one.place)[:most])


@dataclass(frozen=True, slots=True)
class Chosen:
    """Somebody to be woken, and the words for why."""

    waiter: Waiter
    reason: str


def choose(
    waiters: Iterable[Waiter], woken: Iterable[Waiter], room: Room, namespace: str, view: View
) -> tuple[list[Chosen], dict[str, list[Obstacle]]]:
    """Who is to be woken now, in order; and for everybody else, by binding, what stands in the way.

    `woken` are those who were woken just now and may be on their way: their room is taken.
    """
    for one in woken:
        room.take(one.ask(view.get(namespace, one.binding)))
    chosen: list[Chosen] = []
    hindered: dict[str, list[Obstacle]] = {}
    for one in sorted(waiters, key=lambda one: one.place):
        ask = one.ask(view.get(namespace, one.binding))
        obstacles = room.obstacles(ask)
        if obstacles:
            hindered[one.binding] = obstacles
        else:
            chosen.append(Chosen(one, room.describe(ask)))
            room.take(ask)
    return chosen, hindered


def _waiter(binding: Binding, charge: Resources, since: str, message: str) -> Waiter:
    template, stamp = binding.template, binding.stamp
    claim = Claim(charge, stamp.priority_class)
    return Waiter(
        binding.key.name, template.api_version, template.kind, template.name, claim, stamp.priority, since, message
    )
