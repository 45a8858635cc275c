"""New accounts: joined by every live replica, each with what it admitted lately, before they are used."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.ledger.account import Account
from federation_quota.ledger.joining import Journal, activate, has_joined, initialise, join
from federation_quota.ledger.view import Entry, View
from federation_quota.quantity import parse
from federation_quota.scope import Selector
from tests.conformance.bookstore import NAMESPACE
from tests.unit.accounts import SELECTORS, change, claim, creation, holding, of_class, quota


def ids(account: Account) -> list[str]:
    return [one.id for one in account.reservations]


def test_a_new_account_is_not_active_and_nobody_has_joined_it() -> None:
    assert not quota().is_active
    assert not has_joined(quota(), "one")


def test_it_becomes_active_when_every_live_replica_has_joined() -> None:
    account = join(quota(), "one", [])
    assert has_joined(account, "one")
    assert not has_joined(account, "two")
    assert activate(account, ["one", "two"]) is account
    assert not activate(account, ["one", "two"]).is_active
    assert activate(account, ["one"]).is_active
    both = activate(join(account, "two", []), ["one", "two"])
    assert both.is_active
    assert {replica for replica, _ in both.joined} == {"one", "two"}


def test_joining_twice_is_joining_once() -> None:
    account = join(quota(), "one", [creation("a", 1)])
    assert join(account, "one", [creation("a", 1)]) == account


def test_a_replica_brings_what_it_admitted_and_the_account_sees() -> None:
    account = holding(quota(selector=of_class("gold")), creation("known", claim(1, "gold")))
    brought = [
        creation("known", claim(1, "gold")),
        creation("gold", claim(2, "gold")),
        creation("silver", claim(3, "silver")),
        creation("memory", claim({"memory": 1}, "gold")),
        change("changed", claim(4, "gold"), "web", base=3),
    ]
    assert ids(join(account, "one", brought)) == ["known", "gold", "changed"]


def test_a_replica_brings_how_far_it_has_seen() -> None:
    account = join(replace(quota(), observed=5), "one", [], observed=9)
    assert account.observed == 9
    assert join(account, "two", [], observed=7).observed == 9
    assert join(account, "two", []).observed == 9


def test_an_account_that_selects_or_limits_something_else_must_be_joined_again() -> None:
    account = activate(join(quota(), "one", []), ["one"])
    for changed in (
        replace(account, selector=of_class("gold")),
        replace(account, limits={"cpu": parse(10), "memory": parse(1)}),
    ):
        assert not changed.is_active
        assert not has_joined(changed, "one")
        again = join(changed, "one", [])
        assert not again.is_active
        assert again.joined == {("one", changed.lens.shape)}
        assert activate(again, ["one"]).is_active


def test_another_amount_or_another_name_for_the_same_is_no_other_account() -> None:
    account = activate(join(quota(), "one", []), ["one"])
    assert replace(account, limits={"cpu": parse(1)}).is_active
    assert replace(account, limits={"requests.cpu": parse(10)}).is_active


def test_those_who_joined_an_earlier_shape_have_yet_to_join_this_one() -> None:
    account = join(join(quota(), "one", []), "two", [])
    changed = join(replace(account, selector=of_class("gold")), "one", [])
    assert activate(changed, ["one", "two"]) is changed
    # Nor does what they joined before help when the account becomes what it was.
    back = replace(changed, selector=account.selector)
    assert not has_joined(back, "one")
    assert not has_joined(back, "two")


def test_an_account_that_never_became_another_stays_active() -> None:
    account = activate(join(quota(), "one", []), ["one"])
    changed = join(replace(account, selector=of_class("gold")), "one", [])
    assert replace(changed, selector=account.selector).is_active


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd"), min_size=1), SELECTORS)
def test_it_is_active_exactly_when_all_live_ones_have_joined(
    joiners: list[str], live: list[str], selector: Selector
) -> None:
    account = quota(selector=selector)
    for replica in joiners:
        account = join(account, replica, [])
    assert activate(account, live).is_active is (set(live) <= set(joiners))


def test_an_account_of_a_store_that_went_back_starts_anew() -> None:
    account = activate(
        join(holding(replace(quota(), observed=9, version="7", uid="u"), creation("a", 1)), "one", []), ["one"]
    )
    assert initialise(account) == replace(quota(), version="7", uid="u")


# The journal


def test_a_journal_remembers_admissions_by_namespace_until_they_can_matter_no_more() -> None:
    journal, view = Journal(60), View()
    first, second = creation("first", 1), change("second", 2, "web", base=4)
    journal.note(NAMESPACE, first, 0.0)
    journal.note("elsewhere", creation("other", 1), 1.0)
    journal.note(NAMESPACE, second, 2.0)
    assert journal.recent(NAMESPACE, view, 3.0) == [first, second]
    assert journal.recent(NAMESPACE, view, 60.0) == [first, second]
    assert journal.recent(NAMESPACE, view, 60.1) == [second]
    assert journal.recent(NAMESPACE, view, 62.1) == []
    assert journal.recent("nowhere", view, 3.0) == []


def test_a_journal_does_not_bring_what_the_view_shows_already() -> None:
    journal, view = Journal(), View()
    journal.note(NAMESPACE, creation("first", 1), 0.0)
    journal.note(NAMESPACE, change("second", 2, "web", base=4), 0.0)
    view.upsert(NAMESPACE, "first", Entry("uid-first", 7, claim(1)))
    view.upsert(NAMESPACE, "web", Entry("uid-web", 4, claim(1)))
    assert [one.id for one in journal.recent(NAMESPACE, view, 1.0)] == ["second"]
    view.delete(NAMESPACE, "web", "uid-web", 8)
    assert journal.recent(NAMESPACE, view, 1.0) == []


def test_a_journal_forgets_as_it_goes() -> None:
    journal = Journal(60)
    for second in range(1000):
        journal.note(NAMESPACE, creation(f"id{second}", 1), float(second))
    assert len(journal.recent(NAMESPACE, View(), 999.0)) == 61
