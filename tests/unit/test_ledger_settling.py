"""How reservations end: by a view that has seen the binding past them, or by a live look when they are old."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.ledger.account import Account
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import EXPIRY_SECONDS, Expiry, LiveLook, proved, settle
from federation_quota.ledger.view import Entry, View
from tests.conformance.bookstore import NAMESPACE
from tests.unit.accounts import change, claim, creation, holding, quota


def store(view: View, version: int, uid: str = "uid-web", binding: str = "web") -> None:
    view.upsert(NAMESPACE, binding, Entry(uid, version, claim(1)))


def delete(view: View, version: int, uid: str = "uid-web") -> None:
    view.delete(NAMESPACE, "web", uid, version)


def proof(reservation: Reservation, view: View) -> int | None:
    return proved(NAMESPACE, reservation, view)


CREATION = creation("create", 1, "web")
UPDATE = change("update", 1, "web", base=10)


# What proves an end


def test_nothing_is_proved_by_a_view_that_has_not_seen_the_binding() -> None:
    view = View()
    view.reach(1000)
    store(view, 1001, binding="other")
    view.upsert("elsewhere", "web", Entry("uid-web", 1002, claim(1)))
    assert proof(CREATION, view) is None
    assert proof(UPDATE, view) is None


def test_a_creation_is_proved_by_its_uid() -> None:
    view = View()
    store(view, 5, uid="another")
    assert proof(CREATION, view) is None
    delete(view, 6, uid="another")
    store(view, 7)
    assert proof(CREATION, view) == 7
    store(view, 9)  # changed since
    assert proof(CREATION, view) == 9


def test_a_creation_is_proved_by_the_deletion_of_what_it_stored() -> None:
    view = View()
    delete(view, 8)
    assert proof(CREATION, view) == 8
    # Also where the name was taken again meanwhile.
    store(view, 9, uid="another")
    assert proof(CREATION, view) == 8


def test_a_creation_is_not_proved_by_another_of_the_same_name() -> None:
    view = View()
    delete(view, 8)
    delete(view, 12, uid="another")  # the tombstone of the one that was stored is gone
    store(view, 15, uid="third")
    assert proof(CREATION, view) is None


@pytest.mark.parametrize(("version", "expected"), [(9, None), (10, None), (11, 11)])
def test_an_update_is_proved_by_any_newer_version(version: int, expected: int | None) -> None:
    view = View()
    store(view, version)
    assert proof(UPDATE, view) == expected


def test_an_update_is_proved_by_the_deletion() -> None:
    view = View()
    store(view, 10)
    delete(view, 14)
    assert proof(UPDATE, view) == 14
    older = View()
    delete(older, 8)
    assert proof(UPDATE, older) is None


def test_an_update_is_proved_by_a_recreation() -> None:
    view = View()
    delete(view, 14)
    store(view, 17, uid="another")
    assert proof(UPDATE, view) == 17


# Ending


def settled(account: Account, view: View, **looks: int | None) -> Account:
    return settle(account, view, {identifier: LiveLook(version) for identifier, version in looks.items()})


def ids(account: Account) -> list[str]:
    return [one.id for one in account.reservations]


def test_what_has_not_ended_leaves_the_account_as_it_is() -> None:
    account = holding(quota(), CREATION, UPDATE)
    view = View()
    view.reach(1000)
    assert settled(account, view) is account
    assert settled(quota(), view, create=5) == quota()


def test_what_is_proved_ends_and_raises_what_must_have_been_seen_to_that_event() -> None:
    view = View()
    store(view, 20)
    store(view, 30, binding="other")
    view.reach(1000)  # a bookmark, which other watches may not reach for minutes
    account = settled(holding(quota(), CREATION, UPDATE, creation("late", 1)), view)
    assert ids(account) == ["late"]
    assert account.observed == 20


def test_the_version_that_must_have_been_seen_never_falls() -> None:
    view = View()
    store(view, 20)
    assert settled(replace(holding(quota(), CREATION), observed=25), view).observed == 25


def test_a_live_look_ends_what_it_was_for() -> None:
    account = holding(quota(), CREATION, creation("other", 1), creation("third", 1))
    there = settled(account, View(), create=42)
    assert (ids(there), there.observed) == (["other", "third"], 42)
    gone = settled(account, View(), create=None, third=7)
    assert (ids(gone), gone.observed) == (["other"], 7)
    assert settled(replace(account, observed=50), View(), create=42).observed == 50


def test_a_proof_counts_more_than_a_look() -> None:
    view = View()
    store(view, 20)
    account = settled(holding(quota(), CREATION), view, create=None)
    assert (ids(account), account.observed) == ([], 20)


EVENTS = st.lists(st.tuples(st.sampled_from(["store", "delete"]), st.sampled_from("abc")), max_size=8)
RESERVED = st.one_of(
    st.sampled_from("abc").map(lambda uid: Reservation(f"create {uid}", "web", claim(1), uid=uid)),
    st.integers(0, 10).map(lambda base: Reservation(f"update {base}", "web", claim(1), base=base)),
)


@given(EVENTS, st.lists(RESERVED, unique_by=lambda one: one.id), st.integers(0, 10))
def test_only_binding_events_that_were_seen_raise_the_version(
    events: list[tuple[str, str]], reservations: list[Reservation], observed: int
) -> None:
    view = View()
    for version, (what, uid) in enumerate(events, 1):
        if what == "store":
            store(view, version, uid)
        else:
            delete(view, version, uid)
    view.reach(100)
    before = replace(holding(quota(), *reservations), observed=observed)
    after = settle(before, view, {})
    assert set(after.reservations) <= set(reservations)
    assert after.observed == observed or after.observed in range(observed + 1, len(events) + 1)
    # Whatever ended is visible to everybody who has reached that version.
    for ended in set(reservations) - set(after.reservations):
        shown = proof(ended, view)
        assert shown is not None
        assert shown <= after.observed
    # And nothing is left to end.
    assert settle(after, view, {}) is after


# Expiry


def expired(expiry: Expiry, account: Account, now: float) -> list[str]:
    return [one.id for one in expiry.expired(account, now)]


def test_a_reservation_is_old_so_long_after_it_was_first_seen() -> None:
    expiry = Expiry()
    account = holding(quota(), CREATION)
    assert expired(expiry, account, 1000.0) == []
    later = holding(account, UPDATE)
    assert expired(expiry, later, 1000.0 + EXPIRY_SECONDS) == []
    assert expired(expiry, later, 1000.1 + EXPIRY_SECONDS) == ["create"]
    assert expired(expiry, later, 1000.1 + 2 * EXPIRY_SECONDS) == ["create", "update"]


def test_what_the_reservation_says_of_its_time_does_not_matter() -> None:
    ancient = replace(CREATION, time="1970-01-01T00:00:00Z")
    assert expired(Expiry(), holding(quota(), ancient), 10.0**9) == []


def test_an_observer_that_starts_anew_only_waits_longer() -> None:
    account = holding(quota(), CREATION)
    expiry = Expiry(5)
    expired(expiry, account, 0.0)
    expiry.forget(NAMESPACE, "quota")
    assert expired(expiry, account, 6.0) == []
    assert expired(expiry, account, 11.1) == ["create"]
    expiry.forget(NAMESPACE, "unknown")


def test_one_that_was_gone_meanwhile_is_seen_for_the_first_time_again() -> None:
    account = holding(quota(), CREATION)
    expiry = Expiry(5)
    expired(expiry, account, 0.0)
    expired(expiry, quota(), 3.0)
    assert expired(expiry, account, 6.0) == []


def test_accounts_are_kept_apart() -> None:
    expiry = Expiry(5)
    expired(expiry, holding(quota("a"), CREATION), 0.0)
    assert expired(expiry, holding(quota("b"), CREATION), 6.0) == []
    assert expired(expiry, replace(holding(quota("a"), CREATION), namespace="elsewhere"), 6.0) == []
    assert expired(expiry, holding(quota("a"), CREATION), 6.0) == ["create"]
