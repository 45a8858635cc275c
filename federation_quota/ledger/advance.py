"""Part of an account's headroom in one replica's hands: what it admits from there costs no write.

An advance stands in the account and counts as taken for everybody, so whatever its replica lets through within it has
room, whatever others do meanwhile. What a binding grows by, against the very object that was reviewed, is spent once:
an API server stores it on that object or not at all.

Spent room is not free again when the binding is stored: others may not have seen that yet. It is free once a write of
the account has told them which version proves it, as with reservations. An advance ends by its replica's own write, or,
where that replica is gone, when everything it let through is stored or never will be: after the expiry, and a list of
the bindings that was read past all caches.

Pure: when to write, and for how long an advance lasts, is `accounting.treasurer`'s.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.judging import Ask, Books
from federation_quota.ledger.level import resource_of
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import proved
from federation_quota.ledger.view import View
from federation_quota.quantity import Format, Quantity
from federation_quota.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Terms:
    """How much of the headroom a replica takes, and when: in busy times, and never near the limit."""

    share: int = 8  # one part in so many of what is left
    worth: int = 4  # only where that is so many times what was asked for lately
    busy_admissions: int = 4  # when its replica admitted so many, of whatever account
    busy_seconds: float = 1.0  # within that time
    rest_seconds: float = 5.0  # given back when nothing was spent for that long
    for_all: bool = False  # and as much for every other replica: who has asked here may ask there next


LASTING: Final = Terms(rest_seconds=600.0, for_all=True)
"""For accounts of which there are thousands: each is seldom asked, and together they are asked all the time."""


def of(account: Account, replica: str) -> Advance | None:
    """The advance of that replica, if it has one."""
    return next((one for one in account.advances if one.replica == replica), None)


def without(account: Account, replicas: Collection[str], observed: int = 0) -> Account:
    """The account with the advances of these replicas ended; `observed` is the version that proves their spending."""
    kept = tuple(one for one in account.advances if one.replica not in replicas)
    if len(kept) == len(account.advances) and observed <= account.observed:
        return account  # every commit asks, and few accounts have advances; a copy would work out its lens anew
    return replace(account, advances=kept, observed=max(account.observed, observed))


def recalled(account: Account, but: str) -> Account:
    """The account with all advances called back, but for that replica's own."""
    called = tuple(one if one.replica == but else replace(one, is_recalled=True) for one in account.advances)
    return account if called == account.advances else replace(account, advances=called)


def increase(account: Account, ask: Ask) -> Resources:
    """What an account grows by if the ask is stored: of each limited resource, what is more than before."""
    new, old = account.lens.cost(ask.new), account.lens.cost(ask.old)
    return Resources({name: amount - old[name] for name, amount in new.items() if amount > old[name]})


def free(books: Books, asked: Resources, held: Resources, terms: Terms) -> Resources:
    """What a replica may take beside all that is in the books: of what was asked for lately, and of what it has.

    Of what is limited on several nodes (`ledger.level`) on each of them alike: who asks on one asks on another next.
    Where one of them is near its limit, only on those that it was asked for on; and nothing where it is one of these.
    """
    resources = {resource_of(name) for name in (*asked, *held)}
    parts = {name: _part(books, name, terms) for name in books.account.names if resource_of(name) in resources}
    least: dict[str, Quantity] = {}
    for name, part in parts.items():
        resource = resource_of(name)
        least[resource] = min(part, least.get(resource, part))
    alike = {name: least[resource_of(name)] for name in parts}
    if not _near(alike, asked, terms):
        return Resources(alike)
    near = _near(parts, asked, terms)
    if not near.isdisjoint(asked):
        return NOTHING
    return Resources(
        {name: part for name, part in parts.items() if name not in near and (name in asked or name in held)}
    )


def _part(books: Books, resource: str, terms: Terms) -> Quantity:
    """So much of what is left of it."""
    limit = min(books.account.limits[name] for name in books.account.names[resource])
    left = limit - books.used[resource] - books.advanced[resource]
    return _rounded(left.nano // terms.share, left.format)


def _near(parts: Mapping[str, Quantity], asked: Resources, terms: Terms) -> set[str]:
    """Whose limit is near: a part of what is left would not last."""
    return {name for name, part in parts.items() if part.nano < max(1, asked[name].nano * terms.worth)}


def _rounded(nano: int, form: Format) -> Quantity:
    """Down to whole units, or thousandths of one: it stands in a status that people read."""
    step = 10**9 if nano >= 10**9 else 10**6 if nano >= 10**6 else 1
    return Quantity(nano // step * step, form)


@dataclass(frozen=True, slots=True)
class _Spend:
    reservation: Reservation
    amounts: Resources
    at: float


class Purse:
    """What one replica has in hand of one account, and has spent of it.

    `durable` is what surely stands in the store. A write that is under way (`begin`) may or may not have taken effect
    at any moment until its answer: meanwhile only what fits both is spent.
    """

    # How many are spent before the proved ones among them are put together.
    _MANY = 64

    def __init__(self) -> None:
        self.durable = NOTHING
        self.open = NOTHING  # spent, and not seen stored
        self.proof = 0  # the latest binding event that proves what is proved
        self.spent_at = 0.0
        self.spent_since = NOTHING  # the last write
        self._proved = NOTHING  # spent and seen stored, and still part of what is durable
        self._spends: dict[str, _Spend] = {}
        self._names: Counter[str] = Counter()
        self._next: Resources | None = None
        self._told = NOTHING
        self._left: Resources | None = None  # as worked out last, until something changes

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to spend, and nothing spent."""
        return not self.durable and not self._spends and not self._proved

    @property
    def left(self) -> Resources:
        """What can still be spent."""
        if self._left is None:
            left = self.durable - self.open - self._proved
            if self._next is not None:
                # What was proved since the write began is told by a later one.
                coming = self._next - self.open - (self._proved - self._told)
                left = Resources({name: min(amount, coming[name]) for name, amount in left.items()})
            self._left = left
        return self._left

    def expects(self, binding: str) -> bool:
        """Whether something of that binding was let through and not seen stored."""
        return self._names[binding] > 0

    def spend(self, reservation: Reservation, amounts: Resources, now: float) -> bool:
        """Take so much for one admission; False where there is not enough."""
        left = self.left
        if any(amount > left[name] for name, amount in amounts.items()):
            return False
        self._put(_Spend(reservation, amounts, now))
        self._left = left - amounts
        self.spent_at = now
        self.spent_since = self.spent_since + amounts
        return True

    @property
    def is_being_written(self) -> bool:
        """Whether a write is under way."""
        return self._next is not None

    def adopt(self, amounts: Resources, now: float) -> None:
        """So much stands in the store for this replica, which had nothing and knew nothing of it."""
        self._left = None
        self.durable = amounts
        self.spent_at = now  # it has its time, whether or not it is spent

    def carry(self, reservations: Iterable[Reservation], account: Account, now: float) -> None:
        """What was admitted before this purse was: nobody knows by how much it grew, at most by all of it."""
        for one in reservations:
            self._put(_Spend(one, account.lens.cost(one.claim), now))

    def take_back(self, identifier: str) -> bool:
        """An admission that was refused elsewhere, and never sent; False where it was not made from here.

        What it took is free with the next write: by now there may be less room than when the advance was taken.
        """
        is_ours = identifier in self._spends
        self.prove(identifier, None)
        return is_ours

    def collapse(self, namespace: str, view: View, *, at_once: bool = False) -> None:
        """Put together what the view has seen stored; not each time."""
        if at_once or len(self._spends) % self._MANY == 0:
            for identifier, spend in list(self._spends.items()):
                proof = proved(namespace, spend.reservation, view)
                if proof is not None:
                    self.prove(identifier, proof)

    def prove(self, identifier: str, version: int | None) -> None:
        """That version shows how it went; None: it is not there, and never will be."""
        spend = self._drop(identifier)
        if spend is not None:
            self._left = None
            self._proved = self._proved + spend.amounts
            self.proof = max(self.proof, version or 0)

    def expired(self, now: float, expiry_seconds: float) -> list[Reservation]:
        """What is older than any write can be."""
        return [one.reservation for one in self._spends.values() if now - one.at > expiry_seconds]

    def looked_at(self, identifiers: Iterable[str], now: float) -> None:
        """Somebody has looked how these went. Where that could not be told, they are looked at again, later."""
        for one in identifiers:
            if one in self._spends:
                self._spends[one] = replace(self._spends[one], at=now)

    def oldest_at(self) -> float | None:
        """When the oldest was spent that was not seen stored."""
        return min((one.at for one in self._spends.values()), default=None)

    def reservations(self) -> list[Reservation]:
        """What is under way, one by one: for whoever goes, and leaves it to others."""
        return [one.reservation for one in self._spends.values()]

    def begin(self, amounts: Resources) -> None:
        """A write is on its way that makes it that much, and tells others of all that is proved."""
        self._left = None
        self._next = amounts
        self._told = self._proved

    def land(self) -> None:
        """It was stored."""
        if self._next is not None:
            self._left = None
            self.durable, self._next = self._next, None
            self._proved = self._proved - self._told
            self.spent_since = NOTHING

    def fail(self) -> None:
        """It was not stored, or nobody knows."""
        if self._next is not None:
            self.shrink(self._next)
            self._left = self._next = None

    def shrink(self, amounts: Resources) -> None:
        """No more than that stands in the store."""
        self._left = None
        self.durable = Resources({name: min(amount, amounts[name]) for name, amount in self.durable.items()})

    def close(self) -> None:
        """Spend no more; what is under way stays."""
        self.shrink(self.open + self._proved)

    def _put(self, spend: _Spend) -> None:
        self._left = None
        self._spends[spend.reservation.id] = spend
        self._names[spend.reservation.binding] += 1
        self.open = self.open + spend.amounts

    def _drop(self, identifier: str) -> _Spend | None:
        spend = self._spends.pop(identifier, None)
        if spend is not None:
            self._left = None
            self.open = self.open - spend.amounts
            self._names[spend.reservation.binding] -= 1
            if not self._names[spend.reservation.binding]:
                del self._names[spend.reservation.binding]
        return spend
