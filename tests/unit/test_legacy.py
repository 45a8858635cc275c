"""What a replica leaves behind: new accounts need not wait for one that went in good order, and miss nothing of it."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.accounting.answer import Allowed, Denied, Later
from federation_quota.kube import legacies
from federation_quota.ledger import account as ledger_account
from federation_quota.ledger.joining import has_joined, join
from federation_quota.ledger.legacy import Legacy, execute
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import Entry, View
from tests.conformance.bookstore import HERE, NAMESPACE, Bookstore, at_work, in_simulated_time, reserved
from tests.unit.accounts import CLAIMS, claim, creation, quota

THERE = "there"


def test_whoever_left_something_has_joined_and_nobody_else() -> None:
    left = Legacy(7, {NAMESPACE: (creation("early", 8),), "elsewhere": (creation("other", 1),)})
    account = execute(quota(), {"gone": left, "live": None}, View())
    assert has_joined(account, "gone")
    assert not has_joined(account, "live")
    assert [one.id for one in account.reservations] == ["early"]
    assert account.observed == 7


def test_an_account_that_cannot_note_it_all_is_not_joined() -> None:
    many = [creation(f"c{number}", 1) for number in range(ledger_account.MOST_RESERVATIONS)]
    assert has_joined(join(quota(), "one", many), "one")
    account = quota()
    assert join(account, "one", [*many, creation("one more", 1)]) is account
    assert execute(account, {"gone": Legacy(0, {NAMESPACE: (*many, creation("one more", 1))})}, View()) is account


def test_what_was_seen_stored_since_is_not_brought_but_must_have_been_seen() -> None:
    left = Legacy(7, {NAMESPACE: (creation("late", 2), creation("stored", 3))})
    view = View()
    view.upsert(NAMESPACE, "stored", Entry(creation("stored", 3).uid or "", 9, claim(3)))
    account = execute(quota(), {"gone": left}, view)
    assert has_joined(account, "gone")
    assert [one.id for one in account.reservations] == ["late"]
    assert account.observed == 9


RESERVATIONS = st.builds(Reservation, st.text(), st.text(), CLAIMS, base=st.integers(1, 2**60)) | st.builds(
    Reservation, st.text(), st.text(), CLAIMS, uid=st.text(min_size=1)
)


@given(st.integers(0, 2**60), st.dictionaries(st.text(), st.lists(RESERVATIONS, max_size=3).map(tuple), max_size=3))
def test_a_legacy_is_read_as_it_was_written(observed: int, admissions: dict[str, tuple[Reservation, ...]]) -> None:
    legacy = Legacy(observed, admissions)
    assert legacies.decode(legacies.encode(legacy)) == legacy


def test_what_is_too_long_or_cannot_be_read_is_no_legacy() -> None:
    huge = Legacy(1, {NAMESPACE: tuple(creation(f"creation-{number:0200}", 1) for number in range(1000))})
    assert legacies.encode(huge) == ""
    for text in (
        "",
        "{",
        "[]",
        "{}",
        '{"observed": "x", "admissions": {}}',
        '{"observed": "1", "admissions": {"a": [{}]}}',
    ):
        assert legacies.decode(text) is None


@in_simulated_time
async def test_a_new_account_counts_what_one_that_left_has_let_through() -> None:
    store = Bookstore()
    async with at_work(store) as replica, at_work(store, THERE) as leaving:
        assert await leaving.answer(leaving.create("early", claim(8))) == Allowed()
        store.left[THERE] = leaving.accountant.legacy()
        replica.accountant.learn(store.put(quota()))
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Later)
        assert reserved(store) == ["early"]
        assert await replica.answer(replica.create("small", claim(2))) == Allowed()


@in_simulated_time
async def test_a_new_account_waits_for_what_one_that_left_has_seen() -> None:
    store = Bookstore()
    async with at_work(store) as replica, at_work(store, THERE) as leaving:
        assert await leaving.answer(leaving.create("early", claim(8))) == Allowed()
        store.put_binding("early", claim(8))
        leaving.see("early")
        store.left[THERE] = left = leaving.accountant.legacy()
        assert left.admissions == {}
        replica.accountant.learn(store.put(quota()))
        assert isinstance(await replica.answer(replica.create("web", claim(3)), within_seconds=3), Later)
        replica.see("early")
        assert isinstance(await replica.answer(replica.create("web", claim(3)), within_seconds=3), Denied)


@in_simulated_time
async def test_one_that_left_without_a_word_is_waited_for() -> None:
    store = Bookstore()
    store.left[THERE] = None
    async with at_work(store) as replica:
        replica.accountant.learn(store.put(quota()))
        await asyncio.sleep(5)
        assert not store.accounts["quota"].is_active
        store.left.clear()
        store.live = [HERE]
        await asyncio.sleep(2)
        assert store.accounts["quota"].is_active
