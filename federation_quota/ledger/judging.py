"""Does it fit? The one place where an increase is admitted or refused.

Only increases are judged, relative to the old object that was reviewed, and only on the resources that increase; equal
to the limit is allowed; a decrease, or no change, is always allowed, even while over. What is refused is refused on
stored bindings alone: where only reservations stand in the way, whose writes may never come, the answer is `Unproven`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import View
from federation_quota.quantity import ZERO, Quantity
from federation_quota.resource_name import canonical
from federation_quota.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Ask:
    """One admission call, as the ledger sees it: a CREATE has a `uid` and nothing old, an UPDATE a `base`."""

    id: str  # random per call
    binding: str
    new: Claim
    old: Claim = NO_CLAIM
    uid: str | None = None
    base: int | None = None
    time: str = ""

    @property
    def increases(self) -> bool:
        """Whether any account could have to grow for it: more of anything, or arriving where it was not."""
        if not self.new.is_beside(self.old):
            return bool(self.new.charge)
        return any(amount > self.old.charge[name] for name, amount in self.new.charge.items())

    @property
    def reservation(self) -> Reservation:
        """What admitting it leaves in the account."""
        return Reservation(self.id, self.binding, self.new, uid=self.uid, base=self.base, time=self.time)


@dataclass(frozen=True, slots=True)
class Exceeded:
    """One limit that an ask would exceed, under the name that the user wrote."""

    name: str
    requested: Quantity
    used: Quantity
    limit: Quantity
    unbound: Quantity = ZERO  # of what is used: what no binding accounts for

    @property
    def left(self) -> Quantity:
        """What there would have been room for."""
        return Quantity(max(self.limit.nano - self.used.nano, 0), self.limit.format)


@dataclass(frozen=True, slots=True)
class Unaffected:
    """The account has nothing to say: nothing that it limits increases."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """It fits, once this reservation is written."""

    reservation: Reservation


@dataclass(frozen=True, slots=True)
class Refused:
    """It does not fit beside what is stored."""

    exceeded: tuple[Exceeded, ...]


@dataclass(frozen=True, slots=True)
class Unproven:
    """It does not fit beside what is reserved, but might beside what is stored: nobody knows yet."""

    exceeded: tuple[Exceeded, ...]
    is_advanced: bool = False  # it would fit, but for what other replicas have been advanced


Verdict = Unaffected | Admitted | Refused | Unproven


class Books:
    """The sums of one account beside one view, kept while a batch of asks is judged.

    accounted(b) is the elementwise maximum of the binding's stored charge and of every reservation for its name; what
    is used is the sum of that over all bindings, and what the account has to pay for without any. What is advanced to
    replicas is nobody's use, and nobody else's to take. The view must not change meanwhile.
    """

    def __init__(self, account: Account, view: View) -> None:
        self.account = account
        self._view = view
        # Durable, both: one in the view, the other in the account as it was read.
        self._spent = view.spent(account.namespace, account.lens) + account.unbound
        self._accounted: dict[str, Resources] = {}  # of bindings with reservations; of all others it is what is stored
        self.used = self._spent
        self.advanced = NOTHING
        for one in account.advances:
            self.advanced = self.advanced + one.amounts
        for reservation in account.reservations:
            self._count(reservation)

    def judge(self, ask: Ask) -> Verdict:
        """Judge one ask. The caller has made sure that the account is active and that the view has reached it."""
        account, lens = self.account, self.account.lens
        new, old = lens.cost(ask.new), lens.cost(ask.old)
        grown = (resource for resource, amount in new.items() if amount > old[resource])
        increased = [name for resource in grown for name in account.names.get(resource, ())]
        if not increased:
            return Unaffected()
        requested = new - old
        own = self._stored(ask.binding)
        accounted = self._accounted.get(ask.binding, own)
        after = self.used - accounted + accounted.maximum(new)
        taken = after + self.advanced
        exceeded = _exceeding(account, increased, requested=requested, used=self.used + self.advanced, after=taken)
        if not exceeded:
            return Admitted(ask.reservation)
        is_advanced = not _exceeding(account, increased, requested=requested, used=self.used, after=after)
        # On what is stored alone: a reservation's write may never come, and is no reason to refuse anybody.
        names = [one.name for one in exceeded]
        after = self._spent - own + own.maximum(new)
        certain = _exceeding(account, names, requested=requested, used=self._spent, after=after)
        return Refused(certain) if certain else Unproven(exceeded, is_advanced)

    def admit(self, reservation: Reservation) -> None:
        """Take an admitted reservation into the books, before the next ask of the batch is judged.

        One that is there already is the same call's, whose first write was not known to have been taken.
        """
        if any(known.id == reservation.id for known in self.account.reservations):
            return
        self.account = self.account.with_reservations((*self.account.reservations, reservation))
        self._count(reservation)

    def _count(self, reservation: Reservation) -> None:
        binding = reservation.binding
        before = self._accounted.get(binding)
        if before is None:
            before = self._stored(binding)
        accounted = before.maximum(self.account.lens.cost(reservation.claim))
        self._accounted[binding] = accounted
        self.used = self.used - before + accounted

    def _stored(self, binding: str) -> Resources:
        entry = self._view.get(self.account.namespace, binding)
        return self.account.lens.cost(entry.claim) if entry else NOTHING


class Proof:
    """Whether refusals stand on what is stored, whatever the view has missed.

    `stored` are the versions of the account's bindings, just read past all caches. What the view knows in that very
    version is surely there; of anything else nobody here can tell what it costs, and it counts for nothing.
    """

    def __init__(self, account: Account, view: View, stored: Mapping[str, int]) -> None:
        self._account = account
        entries = view.entries(account.namespace)
        self._certain = {name: entry for name, entry in entries.items() if stored.get(name) == entry.version}
        self._spent = account.unbound
        for entry in self._certain.values():
            self._spent = self._spent + account.lens.cost(entry.claim)

    def stands(self, ask: Ask, refusal: Refused) -> bool:
        """Whether the ask is too much beside what is surely there."""
        lens = self._account.lens
        entry = self._certain.get(ask.binding)
        own = lens.cost(entry.claim) if entry else NOTHING
        new = lens.cost(ask.new)
        after = self._spent - own + own.maximum(new)
        names = [one.name for one in refusal.exceeded]
        return bool(_exceeding(self._account, names, requested=new, used=self._spent, after=after))


def judge_all(account: Account, view: View, asks: Sequence[Ask]) -> tuple[Account, list[Verdict]]:
    """Judge a batch in order, each beside what was admitted before it; and the account as it is to be written."""
    books = Books(account, view)
    verdicts = []
    for ask in asks:
        verdict = books.judge(ask)
        verdicts.append(verdict)
        if isinstance(verdict, Admitted):
            books.admit(verdict.reservation)
    return books.account, verdicts


def _exceeding(
    account: Account, names: Iterable[str], *, requested: Resources, used: Resources, after: Resources
) -> tuple[Exceeded, ...]:
    found = []
    for name in sorted(names):
        limit, resource = account.limits[name], canonical(name)
        if after[resource] > limit:
            # In the limit's own format, so that the two can be compared by eye.
            shown = Quantity(used[resource].nano, limit.format)
            unbound = Quantity(account.unbound[resource].nano, limit.format)
            found.append(Exceeded(name, requested[resource], shown, limit, unbound))
    return tuple(found)
