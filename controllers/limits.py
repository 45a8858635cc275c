"""The limits of users and groups as this replica knows them, their accounts, and whom they keep waiting.

Limits stand on the nodes of trees, accounts are objects of their own, and what is used follows from the bindings: three
watches, brought together here whenever one of them has news. What is written of it is `controllers.subjects`'; standbys
know the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from controllers.auditing import AuditedQuotas
from federation_quota import waiting
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube.mirrors import BindingMirror, claim
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.audit import Audit
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Ask
from federation_quota.ledger.view import View
from federation_quota.limits import usage
from federation_quota.limits.scheme import NO_LIMITS, Schemes
from federation_quota.limits.subject import Subject
from federation_quota.resources import Resources
from federation_quota.room import Obstacle, Room
from federation_quota.stamp import Owner


class UsageMirror(AuditedQuotas):
    """Every account of a user or group, by the limits that are known now: the sink of a reflector."""

    def __init__(
        self, on_stored: Callable[[Account], None], on_deleted: Callable[[Subject], None], audit: Audit
    ) -> None:
        super().__init__(on_stored, lambda place, _name, _version: on_deleted(self._whose.pop(place)), audit)
        self._schemes = NO_LIMITS
        self._whose: dict[str, Subject] = {}  # by domain

    def upsert(self, item: Account) -> None:
        """An account was stored."""
        self._whose[item.namespace] = usage.kept(item).subject
        super().upsert(usage.fitted(item, self._schemes))

    def delete(self, item: Account) -> None:
        """An account was deleted."""
        self._whose[item.namespace] = usage.kept(item).subject
        super().delete(item)

    def fit(self, schemes: Schemes, since: int) -> None:
        """The limits are these, since that version at most."""
        self._schemes = schemes
        for key, account in list(self.accounts.items()):
            fitted = self.accounts[key] = usage.fitted(account, schemes)
            if fitted is not account:
                self._audit.account_stored(fitted, since)


class Limits:
    """Who is limited, and where their accounts stand. Told of every change of a tree, a quota and a binding."""

    def __init__(
        self,
        observation: Observation,
        bindings: BindingMirror,
        audit: Audit,
        on_stored: Callable[[Account], None] = lambda _account: None,
        on_deleted: Callable[[Subject], None] = lambda _subject: None,
        *,
        is_warning_only: bool = False,
    ) -> None:
        self._is_warning_only = is_warning_only
        self._observation = observation
        self._bindings = bindings
        self.accounts = UsageMirror(on_stored, on_deleted, audit)
        self.schemes = NO_LIMITS
        self._named: frozenset[Subject] = frozenset()

    def limit(self, schemes: Schemes) -> bool:
        """The limits are these from now on, and what is stored is charged to them anew; whether that changes them."""
        is_same = schemes.by_tree == self.schemes.by_tree
        self.schemes = schemes
        if is_same:
            return False
        self._named = frozenset(one for scheme in schemes.by_tree.values() for one in scheme.named())
        self._observation.charge_to(schemes.domains if schemes.by_tree else None)
        self.accounts.fit(schemes, self._observation.view.version)
        return True

    def subjects(self, *bindings: Binding | None) -> set[Subject]:
        """Whose accounts these are charged to."""
        if not self.schemes.by_tree:
            return set()
        return {one for binding in bindings if binding is not None for one in self.schemes.subjects(claim(binding))}

    def everybody(self) -> set[Subject]:
        """All whom a limit names, who have anything of what is limited, or an account."""
        present = (usage.kept(one).subject for one in self.accounts.accounts.values())
        return {*self._named, *self.subjects(*self._bindings.bindings.values()), *present}

    def is_limited(self, subject: Subject) -> bool:
        """Whether any limit is about them."""
        scheme = self.schemes.by_tree.get(subject.tree)
        return scheme is not None and bool(scheme.limits_of(subject))

    def is_needed(self, subject: Subject, account: Account | None) -> bool:
        """Whether they are to have an account: a limit names them, or they have, or wait for, something limited."""
        if not self.is_limited(subject):
            return False
        has_any = subject in self._named or bool(self._observation.view.entries(subject.domain))
        return has_any or (account is not None and bool(waiting.entries(account)))

    def hindered(self, tree: str, held: Iterable[Binding]) -> dict[str, str]:
        """Who of a tree has to wait for a limit of theirs, and for which: of those held, and of those refused by one.

        Each for itself, as if it were the only one that waits: who comes first, and has room elsewhere, is not said.
        """
        if self._is_warning_only or tree not in self.schemes.by_tree:
            return {}
        rooms = self._rooms()
        found: dict[str, str] = {}
        for binding, ask in (*self._released(held), *self._refused(tree)):
            if reason := rooms.why_not(ask, self.schemes.subjects(ask.new)):
                found[str(binding.key)] = reason
        return found

    def fitting(self, tree: str, releases: Sequence[Binding]) -> list[Binding]:
        """Of those who could be released one by one, who can together, in their order."""
        if self._is_warning_only or tree not in self.schemes.by_tree:
            return list(releases)
        rooms = self._rooms()
        found = []
        for binding, ask in self._released(releases):
            subjects = self.schemes.subjects(ask.new)
            if not rooms.why_not(ask, subjects):
                rooms.take(ask, subjects)
                found.append(binding)
        return found

    def _rooms(self) -> "_Rooms":
        return _Rooms(self._observation.view, self.accounts.accounts, self.schemes)

    def _released(self, held: Iterable[Binding]) -> Iterator[tuple[Binding, Ask]]:
        """What each would ask for if it were released."""
        for binding in held:
            yield binding, self._ask(binding, replace(claim(binding), charge=binding.demand.maximum(binding.assigned)))

    def _refused(self, tree: str) -> Iterator[tuple[Binding, Ask]]:
        """What those ask for whom the scheduler could give no clusters, because an account has them on its list."""
        for account in self.accounts.accounts.values():
            if usage.kept(account).subject.tree != tree:
                continue
            for one in waiting.listed(account):
                binding = self._bindings.bindings.get(domain.binding_in(account.namespace, one.binding))
                # Of a change that was refused, what is stored stands: only who gets no clusters keeps room for nothing.
                if binding is not None and binding.scheduled_reason == waiting.QUOTA_EXCEEDED and not binding.is_held:
                    whose = claim(binding)
                    yield binding, self._ask(binding, replace(one.claim, leaf=whose.leaf, owner=whose.owner))

    def _ask(self, binding: Binding, wanted: Claim) -> Ask:
        entry = self._observation.view.get(*binding.key)
        old = entry.claim if entry else NO_CLAIM
        return Ask(f"limits {binding.key}", str(binding.key), wanted, old, base=binding.version)


class _Rooms:
    """What there is room for in the accounts of everybody who is asked about, on a running sum."""

    def __init__(self, view: View, accounts: Mapping[ObjectKey, Account], schemes: Schemes) -> None:
        self._view = view
        self._accounts = accounts
        self._schemes = schemes
        self._rooms: dict[Subject, Room] = {}
        self._said: dict[tuple[Owner | None, str, Resources], str] = {}

    def why_not(self, ask: Ask, subjects: Sequence[Subject]) -> str:
        """What stands in the way of it, for people; empty where nothing does."""
        if not subjects:
            return ""
        rooms = [self._room(subject) for subject in subjects]
        if ask.old.charge or any(room.is_special(ask.binding) for room in rooms):
            return _words(rooms, ask)
        # Thousands of the same may wait.
        key = ask.new.owner, ask.new.leaf, ask.new.charge
        if key not in self._said:
            self._said[key] = _words(rooms, ask)
        return self._said[key]

    def take(self, ask: Ask, subjects: Iterable[Subject]) -> None:
        """Count it as if it had been admitted."""
        for subject in subjects:
            self._room(subject).take(ask)
        self._said.clear()

    def _room(self, subject: Subject) -> Room:
        if (room := self._rooms.get(subject)) is None:
            account = self._accounts.get(ObjectKey(subject.domain, subject.account))
            # One that nobody has opened yet is opened when somebody asks.
            account = account or usage.fitted(usage.unopened(subject), self._schemes)
            room = self._rooms[subject] = Room([account], self._view)
        return room


def _words(rooms: Iterable[Room], ask: Ask) -> str:
    return "; ".join(_describe(one) for room in rooms for one in room.obstacles(ask))


def _describe(obstacle: Obstacle) -> str:
    account = obstacle.account
    if not obstacle.exceeded:
        return str(obstacle)
    return Denial(account.name, obstacle.exceeded, account.namespace, account.title).message
