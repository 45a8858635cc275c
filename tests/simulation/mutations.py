"""The protocol with one of its parts taken out. Each must be caught by the simulation: else that part is not tested.

These are the parts that DESIGN names as the ones without which over-admission follows at once.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.treasurer import Treasurer
from federation_quota.binding import Binding
from federation_quota.ledger import advance, domain, joining
from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.advance import Purse, Terms
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Ask, Books, Proof, Unaffected, Verdict
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import Expiry, LiveLook
from federation_quota.ledger.view import View, _Namespace
from federation_quota.limits.lens import UsageLens
from federation_quota.resources import NOTHING, Resources
from tests.simulation import scenario
from tests.simulation.scenario import Scenario
from tests.simulation.world import NAMESPACE, SimulatedStore, World
from webhook import bindings

GREEDY = [Terms(1, 1, 1, 2.0, 2.0)]


def no_wait_for_what_others_have_seen(patch: pytest.MonkeyPatch) -> None:
    """Whoever ends a reservation does not raise the version that everybody else must have seen."""

    def with_reservations(self: Account, reservations: object, observed: int = 0) -> Account:
        return replace(self, reservations=tuple(reservations))  # type: ignore[arg-type]

    patch.setattr(Account, "with_reservations", with_reservations)


def expiry_without_a_live_look(patch: pytest.MonkeyPatch) -> None:
    """A reservation that is old enough ends, without anybody looking how it went."""

    async def look(self: SimulatedStore, namespace: str, binding: str) -> LiveLook:
        return LiveLook(None)

    patch.setattr(SimulatedStore, "look", look)
    # It takes views that all stall at once, or somebody else proves the reservation's end before it is old.
    patch.setattr(World, "STALL_CHANCE", 0.3)


def one_id_per_binding(patch: pytest.MonkeyPatch) -> None:
    """Calls for the same binding share one reservation: whoever takes it back takes it from the others too."""
    original = Ask.__init__

    def init(self: Ask, id: str, binding: str, *arguments: object, **named: object) -> None:  # noqa: A002
        original(self, f"shared-{binding}", binding, *arguments, **named)  # type: ignore[arg-type]

    patch.setattr(Ask, "__init__", init)


def no_reservation_where_another_covers(patch: pytest.MonkeyPatch) -> None:
    """An increase that an earlier call has reserved already gets no reservation of its own."""
    original = Books.judge

    def judge(self: Books, ask: Ask) -> Verdict:
        for known in self.account.reservations:
            if known.binding == ask.binding and known.claim.priority_class == ask.new.priority_class:
                covered = known.claim.charge
                if all(covered[name] >= amount for name, amount in ask.new.charge.items()):
                    return Unaffected()
        return original(self, ask)

    patch.setattr(Books, "judge", judge)


def charge_as_if_every_account_saw_it(patch: pytest.MonkeyPatch) -> None:
    """A binding that changes its class counts as no increase where it arrives."""
    original = Books.judge

    def judge(self: Books, ask: Ask) -> Verdict:
        moved = replace(ask.old, priority_class=ask.new.priority_class)
        return original(self, replace(ask, old=moved))

    patch.setattr(Books, "judge", judge)


def what_is_unbound_left_out(patch: pytest.MonkeyPatch) -> None:
    """What members use beyond what is bound stands in the account, and nobody counts it."""
    original = Books.__init__

    def init(self: Books, account: Account, view: View) -> None:
        original(self, account, view)
        self._spent -= account.unbound
        self.used -= account.unbound

    patch.setattr(Books, "__init__", init)


def no_joining(patch: pytest.MonkeyPatch) -> None:
    """A new account is used at once, by whoever sees it."""
    patch.setattr(Account, "is_active", True)


def joining_with_empty_hands(patch: pytest.MonkeyPatch) -> None:
    """A replica that joins does not bring what it admitted before."""
    patch.setattr(joining.Journal, "recent", lambda self, namespace, view, now: [])


def legacies_that_forget(patch: pytest.MonkeyPatch) -> None:
    """Who leaves writes down neither what is on its way nor how far it has seen."""
    patch.setattr(Accountant, "legacy", lambda self: Legacy(0, {}))
    patch.setattr(Scenario, "UNREST", (12.0,))  # or too few quotas are new while somebody leaves
    patch.setattr(Scenario, "CRASH_CHANCE", 0.0)


def activation_without_the_lately_departed(patch: pytest.MonkeyPatch) -> None:
    """Who died a moment ago, with admissions under way, is not waited for."""

    async def replicas(self: SimulatedStore) -> dict[str, Legacy | None]:
        return dict.fromkeys(self._world.replicas)

    patch.setattr(SimulatedStore, "replicas", replicas)
    patch.setattr(Scenario, "UNREST", (12.0,))


def refusals_on_a_view_that_is_behind(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether what stands in the way is still stored."""
    patch.setattr(Proof, "stands", lambda self, ask, refusal: True)


def advances_that_nobody_counts(patch: pytest.MonkeyPatch) -> None:
    """What other replicas have been advanced is taken for free."""
    original = Books.__init__

    def init(self: Books, account: Account, view: View) -> None:
        original(self, account, view)
        self.advanced = NOTHING

    patch.setattr(Books, "__init__", init)
    patch.setattr(World, "TERMS", GREEDY)


def what_is_stored_is_spent_again(patch: pytest.MonkeyPatch) -> None:
    """Room is free again as soon as its replica has seen the binding, before anybody else was told."""

    def prove(self: Purse, identifier: str, version: int | None) -> None:
        self._drop(identifier)

    patch.setattr(Purse, "prove", prove)
    patch.setattr(World, "TERMS", GREEDY)


def advances_that_die_with_their_replica(patch: pytest.MonkeyPatch) -> None:
    """Who died a moment ago, with admissions under way, has nothing any more."""
    patch.setattr(Expiry, "doubtful", lambda self, account, now: list(account.advances))

    async def replicas(self: SimulatedStore) -> dict[str, Legacy | None]:
        return dict.fromkeys(self._world.replicas)

    patch.setattr(SimulatedStore, "replicas", replicas)
    patch.setattr(World, "TERMS", GREEDY)
    patch.setattr(Scenario, "UNREST", (12.0,))
    patch.setattr(Scenario, "CRASH_CHANCE", 1.0)


def what_is_taken_for_others_is_taken_blindly(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes an advance gives the others as much as if nothing were used."""

    def grants(self: Treasurer, books: Books, lately: Resources, peers: Collection[str]) -> Iterator[Advance]:
        known = {self._replica(), *(one.replica for one in books.account.advances)}
        for replica in sorted(set(peers) - known):
            free = advance.free(Books(books.account, View()), lately, NOTHING, self._terms)
            yield Advance(f"{replica}{books.account.version}", replica, free, is_granted=True)

    patch.setattr(Treasurer, "_grants", grants)
    patch.setattr(World, "TERMS", [Terms(2, 1, 1, 1.0, 2.0, for_all=True)])
    _owned(patch)


def a_leaf_that_counts_what_was_under_another(patch: pytest.MonkeyPatch) -> None:
    """A binding that comes under another leaf counts as no increase of what it had under the first."""

    def asks_of(new: Binding, old: Binding | None, *, identifier: str) -> dict[str, Ask]:
        moved = replace(old, stamp=replace(old.stamp, leaf=new.stamp.leaf)) if old else None
        return bindings.asks_of(new, moved, identifier=identifier)

    patch.setattr(scenario, "asks_of", asks_of)
    patch.setattr(Scenario, "LEAFY", 1.0)


def a_leaf_that_nobody_leaves(patch: pytest.MonkeyPatch) -> None:
    """What has come under another leaf is still counted under the first."""
    original = Observation.delete

    def delete(self: Observation, namespace: str, name: str, uid: str, version: int) -> None:
        if not domain.is_leaf(namespace):
            original(self, namespace, name, uid, version)

    patch.setattr(Observation, "delete", delete)
    patch.setattr(Scenario, "LEAFY", 1.0)


def a_leaf_that_does_not_tell_namespaces_apart(patch: pytest.MonkeyPatch) -> None:
    """Bindings of one name in two namespaces are taken for one."""
    patch.setattr(domain, "name_in", lambda _place, key: f"{NAMESPACE}/{key.name}")
    patch.setattr(Scenario, "LEAFY", 1.0)


def _owned(patch: pytest.MonkeyPatch) -> None:
    """Every world has limits of users and groups, and they change fast."""
    patch.setattr(Scenario, "LEAFY", 1.0)
    patch.setattr(Scenario, "OWNED", 1.0)


def limits_that_nobody_has_to_join(patch: pytest.MonkeyPatch) -> None:
    """Each replica admits by the limits that it knows, whatever others know."""
    patch.setattr(UsageLens, "shape", "the same")
    _owned(patch)


def limits_that_know_nothing_of_what_came_before(patch: pytest.MonkeyPatch) -> None:
    """What a replica let through before somebody was limited is not brought to their account."""

    def charged(place: str, namespace: str, reservation: Reservation, view: View) -> Reservation | None:
        return reservation if place == namespace else None

    patch.setattr(joining, "charged", charged)
    _owned(patch)


def an_account_that_is_missing_limits_nobody(patch: pytest.MonkeyPatch) -> None:
    """Where nobody has come before, there is nothing to be asked."""
    original = Accountant._places

    def places(self: Accountant, asks: Mapping[str, Ask]) -> list[Any]:
        return [one for one in original(self, asks) if one.subject is None or self.accounts(one.domain)]

    patch.setattr(Accountant, "_places", places)
    _owned(patch)


def limits_that_are_left_behind_at_once(patch: pytest.MonkeyPatch) -> None:
    """Who is not limited any more is let through, although the limits may come back, or others not know that yet."""
    patch.setattr(Accountant, "_outdated", lambda _self, _ask: ())
    _owned(patch)
    patch.setattr(Scenario, "SLOW", (0.5,))  # or little is on its way when they do
    patch.setattr(Scenario, "RESTLESS", (4.0,))


def what_runs_counts_as_it_did_when_it_came(patch: pytest.MonkeyPatch) -> None:
    """A change of limits is not about what is stored already."""
    original = View.charge_to

    def charge_to(self: View, domains_of: Callable[[Claim], Iterable[str]] | None) -> None:
        owned = self._owned
        original(self, domains_of)
        self._owned = defaultdict(lambda: _Namespace({}), owned or self._owned)

    patch.setattr(View, "charge_to", charge_to)
    _owned(patch)


ALL = (
    no_wait_for_what_others_have_seen,
    expiry_without_a_live_look,
    one_id_per_binding,
    no_reservation_where_another_covers,
    charge_as_if_every_account_saw_it,
    what_is_unbound_left_out,
    no_joining,
    joining_with_empty_hands,
    legacies_that_forget,
    activation_without_the_lately_departed,
    refusals_on_a_view_that_is_behind,
    advances_that_nobody_counts,
    what_is_stored_is_spent_again,
    advances_that_die_with_their_replica,
    what_is_taken_for_others_is_taken_blindly,
    a_leaf_that_counts_what_was_under_another,
    a_leaf_that_nobody_leaves,
    a_leaf_that_does_not_tell_namespaces_apart,
    limits_that_nobody_has_to_join,
    limits_that_know_nothing_of_what_came_before,
    an_account_that_is_missing_limits_nobody,
    limits_that_are_left_behind_at_once,
    what_runs_counts_as_it_did_when_it_came,
)
