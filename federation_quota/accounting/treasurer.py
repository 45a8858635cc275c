"""One account's advance, as one replica deals with it: when to take one, what to spend it on, when to give it back.

The committer asks here first, and writes what is said here with its own writes. What an advance is, and how spent room
becomes free again, is `ledger.advance`'s.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from federation_quota.accounting.meter import Meter
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import Store
from federation_quota.ledger import advance, domain
from federation_quota.ledger.account import MOST_RESERVATIONS, Account, Advance
from federation_quota.ledger.advance import Purse, Terms
from federation_quota.ledger.judging import Books
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import LiveLook
from federation_quota.resources import NOTHING, Resources


class Treasurer:
    """One per account and replica."""

    def __init__(
        self,
        *,
        namespace: str,
        replica: Callable[[], str],
        observation: Observation,
        terms: Terms,
        expiry_seconds: float,
        meter: Meter,
        recent: deque[float],  # when this replica's last admissions were, of all accounts together
    ) -> None:
        self._namespace = namespace
        self._replica = replica
        self._observation = observation
        self._terms = terms
        self._expiry_seconds = expiry_seconds
        self._meter = meter
        self._purse = Purse()
        self._basis: object = None  # what the purse was filled on: where that changes, it is no good
        self._recent = recent
        self._sober_until = 0.0  # somebody else needed the room: no advance is taken before
        self._adopted = ""  # the last one that another replica took for this one
        self._doubted = 0  # the version of the account under which a write failed last
        self.is_leaving = False

    # What is spent

    def spend(self, account: Account, reservation: Reservation, growth: Resources) -> bool:
        """Admit it from the advance; False where that takes a write. Nothing is awaited, and no view judged by."""
        if self._basis != self._basis_of(account) or self._observation.view.faults(self._namespace):
            return False
        now = self._now()
        if not self._purse.spend(reservation, growth, now):
            return False
        self._meter.spent(account, reservation)
        self._recent.append(now)
        self._purse.collapse(self._namespace, self._observation.view)
        return True

    def carry(self, account: Account, recent: list[Reservation]) -> None:
        """An advance of ours stands in an account that is new here: what was admitted from it may be on its way."""
        if advance.of(account, self._replica()):
            self._purse.carry(recent, account, self._now())
            # What was admitted from it before those is stored, and others may not have been told.
            self._purse.proof = self._observation.view.newest(self._namespace)

    def take_back(self, identifier: str) -> bool:
        """What was spent on that is not needed; False where nothing was."""
        return self._purse.take_back(identifier)

    def expects(self, binding: str) -> bool:
        """Whether something of that binding was admitted from here, and not seen stored."""
        return self._purse.expects(binding)

    def under_way(self) -> list[Reservation]:
        """All that was admitted from here, and not seen stored."""
        return self._purse.reservations()

    def note(self, admissions: int) -> None:
        """So many are admitted with a write."""
        self._recent.extend([self._now()] * min(admissions, self._terms.busy_admissions))

    # What is due

    def see(self, account: Account, *, is_open: bool) -> None:
        """This is the account now, and can be judged by or not: what of the purse still stands in it?"""
        mine = advance.of(account, self._replica())
        if mine is not None and mine.is_recalled:
            self._sober_until = self._now() + self._terms.rest_seconds
        if self._purse.is_empty:
            if mine is not None and is_open:
                self._adopt(account, mine)
            return
        if not account.is_active or self._basis != self._basis_of(account):
            self._purse.close()
        self._purse.shrink(mine.amounts if mine else NOTHING)

    def _adopt(self, account: Account, mine: Advance) -> None:
        """Take up what another replica has taken for this one. Once: where it cannot be spent any more, it is given
        back; and never on a version that a write of ours, whose fate is not known, may still follow."""
        is_certain = not self._purse.is_being_written and int(account.version) > self._doubted
        if mine.is_granted and not mine.is_recalled and mine.id != self._adopted and is_certain and not self.is_leaving:
            self._adopted = mine.id
            self._purse.adopt(mine.amounts, self._now())
            self._basis = self._basis_of(account)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was advanced, or spent."""
        return self._purse.is_empty

    @property
    def is_low(self) -> bool:
        """Whether less is left than was spent since the last write."""
        left = self._purse.left
        return any(amount > left[name] for name, amount in self._purse.spent_since.items())

    @property
    def is_resting(self) -> bool:
        """Whether nothing was spent for a while: then it is given back as its spending is proved."""
        return self._now() >= self.rests_at

    @property
    def rests_at(self) -> float:
        """When that will be, or was."""
        return self._purse.spent_at + self._terms.rest_seconds

    @property
    def is_busy(self) -> bool:
        """Whether this is a time to take more than what is asked for."""
        now, recent = self._now(), self._recent
        is_often = len(recent) == self._terms.busy_admissions and now - recent[0] <= self._terms.busy_seconds
        return is_often and now >= self._sober_until and not self.is_leaving

    @property
    def is_generous(self) -> bool:
        """Whether others are given of what is taken, too."""
        return self._terms.for_all

    def is_due(self, account: Account) -> bool:
        """Whether the advance is to be written anew without anybody asking."""
        purse = self._purse
        mine = advance.of(account, self._replica())
        held = mine.amounts if mine else NOTHING
        if purse.is_empty:
            return bool(held)  # nothing of it is needed
        if self.expired() or self.is_leaving or (mine is not None and mine.is_recalled):
            return True
        if self.is_resting:
            if not held and not purse.open:
                self._purse = Purse()  # nothing stands in the store, and nothing is under way
            return held != account.storable(purse.open)
        return self.is_low and self._now() >= self._sober_until

    def next_look(self) -> float:
        """When to ask `is_due` again without news; infinity where only a binding is news."""
        if self._purse.is_empty:
            return float("inf")
        if not self.is_resting:
            return self.rests_at
        first = self._purse.oldest_at()
        return float("inf") if first is None else first + self._expiry_seconds + self._terms.busy_seconds

    def expired(self) -> list[Reservation]:
        """What was spent so long ago that a live look tells how it went, and was not seen stored."""
        self._purse.collapse(self._namespace, self._observation.view, at_once=True)
        return self._purse.expired(self._now(), self._expiry_seconds)

    # What is written

    def settle(self, looks: Mapping[str, LiveLook], reached: int) -> None:
        """How things went by a live look. What was found and has yet to reach this view is looked at again, later."""
        for one in self._purse.reservations():
            look = looks.get(one.id)
            if look is not None and (look.version or 0) <= reached:
                self._purse.prove(one.id, look.version)
        self._purse.looked_at(looks, self._now())

    def open_books(self, account: Account) -> Books:
        """The books beside others' advances, and of this replica's own only what is under way."""
        others = advance.without(account, {self._replica()}, self._purse.proof)
        books = Books(others, self._observation.view)
        books.advanced = books.advanced + self._purse.open
        return books

    def note_one_by_one(self, books: Books) -> bool:
        """Put what is under way into the books as reservations, where there is space for all of it."""
        under_way = self._purse.reservations()
        if len(books.account.reservations) + len(under_way) > MOST_RESERVATIONS:
            return False
        for one in under_way:
            books.admit(one)
        books.advanced = books.advanced - self._purse.open
        return True

    def take(self, books: Books, asked: Resources, peers: Collection[str] = ()) -> tuple[Resources, list[Advance]]:
        """What this replica is to hold from the coming write on: what is under way, and more where that pays. And what
        is taken for those of its peers who have nothing, as much for each, where the terms say so."""
        needed, grants = self._purse.open, []
        # A leaf's limit falls as a matter of course, and then nothing is given beyond it: not even from an advance.
        if self.is_busy and not domain.is_leaf(self._namespace):
            lately = asked + self._purse.spent_since
            free = advance.free(books, lately, self._purse.durable, self._terms)
            if free:
                self._purse.spent_at = self._now()  # it has its time, whether or not it is spent
                needed = needed.maximum(free)
                books.advanced = books.advanced + (needed - self._purse.open)
                grants = list(self._grants(books, lately, peers))
        return needed, grants

    def _grants(self, books: Books, lately: Resources, peers: Collection[str]) -> Iterator[Advance]:
        account = books.account
        known = {self._replica(), *(one.replica for one in account.advances)}
        for replica in sorted(set(peers) - known):
            free = advance.free(books, lately, NOTHING, self._terms)
            if free and account.storable(free) == free:  # it is spent as it is stored
                books.advanced = books.advanced + free
                yield Advance(secrets.token_hex(8), replica, free, is_granted=True)

    async def write(
        self, store: Store, account: Account, needed: Resources = NOTHING, grants: Iterable[Advance] = ()
    ) -> Account:
        """Write the account with what replicas are to hold in it. Meanwhile the old one is spent from, with care."""
        basis = self._basis_of(account)
        mine = [Advance(secrets.token_hex(8), self._replica(), account.storable(needed))] if needed else []
        self._purse.begin(needed)
        try:
            written = await store.write(replace(account, advances=(*account.advances, *mine, *grants)))
        except BaseException:
            self._doubted = int(account.version)
            self._purse.fail()
            raise
        self._purse.land()
        self._basis = basis
        return written

    def close(self) -> None:
        """Spend no more for now; what is under way stays."""
        self._purse.close()

    def clear(self) -> None:
        """All that is under way stands in the account, one by one."""
        self._purse = Purse()

    def _basis_of(self, account: Account) -> object:
        """What must not change while an advance is spent. A limit that falls is obeyed as soon as it is known."""
        return account.uid, account.shape, self._replica(), account.limits, account.unbound

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
