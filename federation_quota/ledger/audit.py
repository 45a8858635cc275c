"""Looking back: was every increase that is stored reserved before? Pure, and exact to the version.

A reservation, or an advance, is written before the increase that it stands for, and ended after it. So once the quotas
have been seen up to the version of a stored increase, its reservation has been seen too; if not, something went past
the quota. That is an alarm for people: what is stored is counted in any case.

Bindings and accounts come by two watches, either of which may be ahead. An increase waits until the accounts have come
as far; a reservation that has ended is remembered until the bindings have.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.resource_name import canonical

# Increases that wait for the accounts' watch; where it hangs for so long that there are more, the oldest go unjudged.
MOST_OPEN: Final = 10_000


@dataclass(frozen=True, slots=True)
class Increase:
    """A binding that was stored with more than before."""

    namespace: str
    binding: str
    version: int
    before: Claim
    after: Claim


@dataclass(frozen=True, slots=True)
class Unreserved:
    """An increase, and the account that never reserved it."""

    increase: Increase
    quota: str


@dataclass(slots=True)
class _Watched:
    account: Account
    since: int  # it has been active as it is now, and watched, since that version
    ended: dict[str, tuple[Reservation, int]] = field(default_factory=dict)  # and the version by which they had
    returned: dict[str, tuple[Advance, int]] = field(default_factory=dict)  # the same for advances
    _by_binding: dict[str, list[Reservation]] | None = None  # all of them; made when asked for

    def follow(self, account: Account) -> None:
        kept = {one.id for one in account.reservations}
        version = int(account.version)
        self.ended.update((one.id, (one, version)) for one in self.account.reservations if one.id not in kept)
        held = {one.id for one in account.advances}
        self.returned.update((one.id, (one, version)) for one in self.account.advances if one.id not in held)
        self.account = account
        self._by_binding = None

    def is_same(self, account: Account) -> bool:
        return self.account.uid == account.uid and self.account.active_shape == account.active_shape

    def has_reserved(self, increase: Increase) -> bool:
        lens = self.account.lens
        before, after = lens.cost(increase.before), lens.cost(increase.after)
        grown = {canonical(name) for name in self.account.limits if after[canonical(name)] > before[canonical(name)]}
        return (
            not grown
            or any(
                all(lens.cost(one.claim)[name] >= after[name] for name in grown)
                for one in self._reserved(increase.binding)
            )
            # Which of them it came from is not told: that one had so much is what can be seen.
            or any(
                all(one.amounts[name] >= after[name] - before[name] for name in grown)
                for one in self._advances(increase.version)
            )
        )

    def forget(self, seen: int) -> None:
        """The bindings have been seen up to that version: what ended by then is not asked for any more."""
        if self.ended:
            self.ended = {key: one for key, one in self.ended.items() if one[1] > seen}
            self._by_binding = None
        if self.returned:
            self.returned = {key: one for key, one in self.returned.items() if one[1] > seen}

    def _advances(self, version: int) -> Iterator[Advance]:
        """Those that there were then, or that have come since."""
        yield from self.account.advances
        yield from (one for one, until in self.returned.values() if until > version)

    def _reserved(self, binding: str) -> list[Reservation]:
        # Thousands of increases may have waited for the accounts, beside thousands of reservations.
        if self._by_binding is None:
            self._by_binding = {}
            for one in (*self.account.reservations, *(reservation for reservation, _ in self.ended.values())):
                self._by_binding.setdefault(one.binding, []).append(one)
        return self._by_binding.get(binding, [])


class Audit:
    """What one component has seen of accounts and increases."""

    def __init__(self) -> None:
        self._accounts: dict[str, dict[str, _Watched]] = {}  # by namespace and name
        self._open: deque[Increase] = deque(maxlen=MOST_OPEN)

    def restart(self) -> None:
        """The accounts are listed anew: what they were meanwhile is not known, and nothing before is judged."""
        self._accounts.clear()
        self._open.clear()

    def account_stored(self, account: Account, since: int = 0) -> None:
        """An account as the watch saw it: every version, in order. `since`: it limits what it does since then at most,
        whatever its own version."""
        here = self._accounts.setdefault(account.namespace, {})
        known = here.get(account.name)
        if not account.is_active:
            here.pop(account.name, None)
        elif known is not None and known.is_same(account):
            known.follow(account)
        else:
            here[account.name] = _Watched(account, since=max(since, int(account.version)))

    def account_deleted(self, namespace: str, name: str) -> None:
        """It is gone, and with it what it had to say."""
        self._accounts.get(namespace, {}).pop(name, None)

    def increased(self, increase: Increase) -> None:
        """A binding as the watch saw it, with more of something than before."""
        self._open.append(increase)

    def reached(self, *, accounts: int, bindings: int) -> list[Unreserved]:
        """The accounts have been seen up to that version, and the bindings up to that: what was never reserved."""
        found: list[Unreserved] = []
        still_open: list[Increase] = []
        for increase in self._open:
            if increase.version > accounts:
                still_open.append(increase)
            else:
                found += (Unreserved(increase, name) for name in self._lacking(increase))
        self._open = deque(still_open, MOST_OPEN)
        seen = min([bindings, *(one.version - 1 for one in still_open)])
        for here in self._accounts.values():
            for watched in here.values():
                watched.forget(seen)
        return found

    def _lacking(self, increase: Increase) -> Iterator[str]:
        """The accounts that should have reserved it and have not."""
        for name, watched in self._accounts.get(increase.namespace, {}).items():
            if watched.since < increase.version and not watched.has_reserved(increase):
                yield name
