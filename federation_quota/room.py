"""What there is room for in a namespace, by all of its quotas together.

A look ahead, without admitting anything: would this fit now, and that beside it? The webhook asks before it decides to
hold a binding, the controller before it wakes or releases one. Whoever acts on the answer is judged again by the ledger
when it comes: room that was there a moment ago is no promise.

Pure. Quotas that only warn stand in nobody's way, and are left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from federation_quota import karmadaquota
from federation_quota.ledger import settling
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Ask, Books, Exceeded, Refused, Unproven
from federation_quota.ledger.view import View
from federation_quota.limits import usage
from federation_quota.quantity import Quantity
from federation_quota.resource_name import canonical


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A quota that has no room for an ask."""

    account: Account
    exceeded: tuple[Exceeded, ...] = ()
    """What it would exceed; empty where that cannot be told for now."""
    is_certain: bool = False
    """It does not fit beside what is stored: otherwise reservations stand in the way, which may yet go."""

    @property
    def on_exceeded(self) -> str:
        """What the quota does about it."""
        return karmadaquota.DENY if usage.is_usage(self.account) else karmadaquota.quota(self.account).on_exceeded

    def __str__(self) -> str:
        if not self.exceeded:
            return f"{self.account.title} cannot say yet whether it has room"
        parts = (f"{one.name}: {one.requested} asked, {one.left} left" for one in self.exceeded)
        return f"{self.account.title} has no room ({', '.join(parts)})"


class Room:
    """The quotas of one namespace beside one view, on a running sum. The view must not change meanwhile."""

    def __init__(self, accounts: Iterable[Account], view: View, *, is_warning_only: bool = False) -> None:
        self._view = view
        self._books: list[Books] = []
        self._unknown: list[Account] = []
        self._special: set[str] = set()  # bindings that are judged by more than what they claim
        self._hindered: dict[tuple[Claim, Claim], list[Obstacle]] = {}
        for account in () if is_warning_only else accounts:
            if Obstacle(account).on_exceeded == karmadaquota.WARN:
                continue
            # A user's or group's account is taken up when somebody asks: it would be waited for in vain.
            if (account.is_active or usage.is_usage(account)) and view.version >= account.observed:
                # What has ended has ended, whether or not somebody has written so; and what is advanced is given back
                # to whoever needs it.
                settled = replace(settling.settle(account, view, {}), advances=())
                self._books.append(Books(settled, view))
            else:
                self._unknown.append(account)
            self._special.update(reservation.binding for reservation in account.reservations)
            self._special.update(view.faults(account.namespace))

    def obstacles(self, ask: Ask) -> list[Obstacle]:
        """Every quota that stands in the way, by name."""
        # Thousands may wait for the same. Room only ever becomes less: what did not fit once does not fit again.
        wish = (ask.new, ask.old)
        if not self.is_special(ask.binding) and wish in self._hindered:
            return self._hindered[wish]
        found = self._judge(ask)
        if found and not self.is_special(ask.binding):
            self._hindered[wish] = found
        return found

    def is_special(self, binding: str) -> bool:
        """Whether it is judged by more than what it claims: others of the same claim are judged otherwise."""
        return binding in self._special

    def _judge(self, ask: Ask) -> list[Obstacle]:
        found = [Obstacle(account) for account in self._unknown if _grows(account, ask)]
        for books in self._books:
            verdict = books.judge(ask)
            if self._view.faults(books.account.namespace).keys() - {ask.binding}:
                # Of a binding that nobody knows the cost of, the ledger admits nothing beside it.
                found += [Obstacle(books.account)] if _grows(books.account, ask) else []
            elif isinstance(verdict, Refused | Unproven):
                found.append(Obstacle(books.account, verdict.exceeded, isinstance(verdict, Refused)))
        return sorted(found, key=lambda obstacle: obstacle.account.name)

    def describe(self, ask: Ask) -> str:
        """Where there is room for it, what it asks for, and what is left, for people; empty where nothing limits it."""
        told = []
        for books in self._books:
            account = books.account
            new, old = account.lens.cost(ask.new), account.lens.cost(ask.old)
            parts = [
                f"{name}: {new[resource] - old[resource]} asked, {_left(limit, books.used[resource])} left"
                for name, limit in sorted(account.limits.items())
                if new[resource := canonical(name)] > old[resource]
            ]
            if parts:
                told.append(f"{account.title} has room ({', '.join(parts)})")
        return "; ".join(told)

    def take(self, ask: Ask) -> None:
        """Count it as if it had been admitted."""
        self._special.add(ask.binding)
        for books in self._books:
            books.admit(ask.reservation)


def _grows(account: Account, ask: Ask) -> bool:
    new, old = account.lens.cost(ask.new), account.lens.cost(ask.old)
    return any(new[canonical(name)] > old[canonical(name)] for name in account.limits)


def _left(limit: Quantity, used: Quantity) -> Quantity:
    return Quantity(max(limit.nano - used.nano, 0), limit.format)
