"""What one replica answers: one account or several, one ask or many."""

import asyncio
from dataclasses import replace

import pytest

from federation_quota.accounting.answer import Allowed, Denied, Exists, Later
from federation_quota.accounting.committer import MOST_IN_ONE_WRITE, PATIENCE_SECONDS
from federation_quota.ledger import account as account_module
from federation_quota.quantity import parse
from tests.conformance.bookstore import (
    NAMESPACE,
    Bookstore,
    active,
    at_work,
    in_simulated_time,
    kinds,
    now,
    reserved,
    together,
    used,
)
from tests.unit.accounts import claim, creation, holding, quota

# One account


@in_simulated_time
async def test_what_fits_is_written_before_it_is_allowed() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        ask = replica.create("web", claim(4))
        assert await replica.answer(ask) == Allowed()
        assert store.accounts["quota"].reservations == (ask.reservation,)
        assert used(replica) == "4"
        assert len(store.writes) == 1


@in_simulated_time
async def test_what_does_not_fit_beside_what_is_stored_is_denied_without_a_write() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("old", claim(8))
    async with at_work(store) as replica:
        answer = await replica.answer(replica.create("web", claim(3)))
        assert isinstance(answer, Denied)
        assert answer.denial.message == "exceeded quota: quota, requested: cpu=3, used: cpu=8, limited: cpu=10"
        assert store.attempts == []


@in_simulated_time
async def test_what_is_not_limited_or_does_not_increase_costs_no_write() -> None:
    store = Bookstore()
    store.put(active(quota(limits=5)))
    store.put_binding("web", claim(8))
    async with at_work(store) as replica:
        memory = claim({"memory": "1Gi"})
        asks = [replica.create("other", memory), replica.update("web", claim(8)), replica.update("web", claim(7))]
        assert await together(replica, *asks) == [Allowed()] * 3
        assert store.attempts == []


@in_simulated_time
async def test_a_namespace_without_accounts_allows_everything() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("web", claim(10**6))) == Allowed()
        assert (store.attempts, store.reads) == ([], 0)


@in_simulated_time
async def test_a_dry_run_is_judged_alike_and_writes_nothing() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("old", claim(8))
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("web", claim(2)), dry_run=True) == Allowed()
        assert isinstance(await replica.answer(replica.create("web", claim(3)), dry_run=True), Denied)
        # It took nothing: the same fits once more.
        assert await replica.answer(replica.create("web", claim(2))) == Allowed()
        assert len(store.attempts) == 1


@in_simulated_time
async def test_a_dry_run_is_not_brought_to_accounts_that_come_later() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        await replica.answer(replica.create("web", claim(2)), dry_run=True)
        replica.accountant.learn(store.put(quota()))
        assert await replica.answer(replica.create("web", claim(10))) == Allowed()
        assert reserved(store) == ["web"]


@in_simulated_time
async def test_an_account_that_only_warns_lets_through_counts_and_says_so() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("old", claim(8))
    async with at_work(store) as replica:
        answer = await replica.answer(replica.create("web", claim(3)), may_exceed=True)
        assert isinstance(answer, Allowed)
        messages = [warning.message for warning in answer.warnings]
        assert messages == ["exceeded quota: quota, requested: cpu=3, used: cpu=8, limited: cpu=10"]
        assert reserved(store) == ["web"]
        assert used(replica) == "11"
        # Where only reservations are in the way it does not wait either.
        began = now()
        assert isinstance(await replica.answer(replica.create("more", claim(1)), may_exceed=True), Allowed)
        assert now() - began < 0.1
        assert used(replica) == "12"
        # And what still fits is no warning.
        assert await replica.answer(replica.update("old", claim(7)), may_exceed=True) == Allowed()


# Many asks at once


@in_simulated_time
async def test_asks_that_come_while_a_write_is_under_way_share_the_next_one() -> None:
    store = Bookstore(latency_seconds=0.05)
    store.put(active(quota(limits=500)))
    async with at_work(store) as replica:
        asks = [replica.create(f"b{number}", claim(1)) for number in range(200)]
        first = asyncio.ensure_future(replica.answer(asks[0]))
        await asyncio.sleep(0.01)
        rest = await together(replica, *asks[1:])
        assert kinds([await first, *rest]) == ["Allowed"] * 200
        assert len(store.writes) == 2
        assert len(store.accounts["quota"].reservations) == 200


@in_simulated_time
async def test_no_more_is_admitted_than_fits_however_many_ask_at_once() -> None:
    store = Bookstore()
    store.put(active(quota(limits=7)))
    async with at_work(store) as replica:
        answers = await together(replica, *(replica.create(f"b{number}", claim(2)) for number in range(9)))
        assert kinds(answers).count("Allowed") == 3
        assert kinds(answers).count("Later") == 6
        assert used(replica) == "6"


@in_simulated_time
async def test_more_asks_than_one_write_takes_are_all_answered() -> None:
    store = Bookstore()
    store.put(active(quota(limits=10**6)))
    async with at_work(store) as replica:
        asks = [replica.create(f"b{number}", claim(1)) for number in range(2 * MOST_IN_ONE_WRITE + 1)]
        assert kinds(await together(replica, *asks)) == ["Allowed"] * len(asks)
        assert len(store.writes) == 3
        assert replica.batches == [MOST_IN_ONE_WRITE, MOST_IN_ONE_WRITE, 1]


@in_simulated_time
async def test_asks_that_must_wait_keep_nobody_behind_them_from_an_answer() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), creation("other", 10)))
    store.put_binding("small", claim(1))
    async with at_work(store) as replica:
        waiting = [replica.create(f"b{number}", claim(1)) for number in range(MOST_IN_ONE_WRITE + 44)]
        stuck = asyncio.ensure_future(together(replica, *waiting))
        await asyncio.sleep(0)
        began = now()
        assert await replica.answer(replica.update("small", claim(0))) == Allowed()
        assert now() - began < PATIENCE_SECONDS / 2
        assert set(kinds(await stuck)) == {"Later"}


# Refusing only on what is certain


@in_simulated_time
async def test_where_only_reservations_are_in_the_way_it_waits_for_their_proof() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("web", claim(8))) == Allowed()
        waiting = asyncio.ensure_future(replica.answer(replica.create("late", claim(3))))
        await asyncio.sleep(PATIENCE_SECONDS / 2)
        assert not waiting.done()
        store.put_binding("web", claim(8))
        replica.see("web")
        answer = await waiting
        assert isinstance(answer, Denied)
        assert answer.denial.message == "exceeded quota: quota, requested: cpu=3, used: cpu=8, limited: cpu=10"


@in_simulated_time
async def test_what_was_in_the_way_may_go_and_then_it_fits() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("web", claim(1))
    async with at_work(store) as replica:
        assert await replica.answer(replica.update("web", claim(8))) == Allowed()
        waiting = asyncio.ensure_future(replica.answer(replica.create("late", claim(3))))
        await asyncio.sleep(0.5)
        # Another write came first: the admitted one can never be stored.
        store.put_binding("web", claim(2))
        replica.see("web")
        assert await waiting == Allowed()
        assert reserved(store) == ["late"]
        assert store.accounts["quota"].observed == store.bindings["web"].version


@in_simulated_time
async def test_patience_ends_in_later_never_in_a_denial() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), creation("other", 8)))
    async with at_work(store) as replica:
        began = now()
        answer = await replica.answer(replica.create("web", claim(3)), within_seconds=30)
        assert isinstance(answer, Later)
        assert "reservations" in answer.reason
        assert now() - began == pytest.approx(PATIENCE_SECONDS, abs=0.1)
        assert store.attempts == []


@in_simulated_time
async def test_a_deadline_before_patience_ends_is_kept() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), creation("other", 8)))
    async with at_work(store) as replica:
        began = now()
        assert isinstance(await replica.answer(replica.create("web", claim(3)), within_seconds=0.5), Later)
        assert now() - began == pytest.approx(0.5, abs=0.05)


@in_simulated_time
async def test_before_a_denial_the_account_is_read_again() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("old", claim(8))
    async with at_work(store) as replica:
        # The limit was raised; the watch has yet to say so.
        store.put(replace(store.accounts["quota"], limits={"cpu": parse(20)}))
        assert await replica.answer(replica.create("web", claim(3))) == Allowed()
        assert store.reads == 1


@in_simulated_time
async def test_what_is_too_much_by_itself_is_refused_without_a_list_of_what_is_stored() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("old", claim(8))
    async with at_work(store) as replica:
        assert isinstance(await replica.answer(replica.create("huge", claim(11))), Denied)
        assert (store.lists, store.reads) == (0, 0)
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Denied)
        assert store.lists == 1, "only beside something else: that is looked at"


# Bindings whose cost nobody knows


@in_simulated_time
async def test_beside_a_binding_whose_cost_is_not_known_nothing_more_is_admitted() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("odd", claim(1))
    store.put_binding("web", claim(2))
    async with at_work(store) as replica:
        broken = replace(store.put_binding("odd", claim(1)), fault="cpu: 'lots' is not a quantity")
        replica.observation.upsert(NAMESPACE, "odd", broken)
        answer = await replica.answer(replica.create("more", claim(1)))
        assert isinstance(answer, Later)
        assert "odd" in answer.reason
        assert "'lots'" in answer.reason
        assert store.attempts == []
        # What takes no more passes, and so does what may exceed; the binding itself can be mended.
        assert await replica.answer(replica.update("web", claim(1))) == Allowed()
        assert await replica.answer(replica.create("more", claim(1)), may_exceed=True) == Allowed()
        assert await replica.answer(replica.update("odd", claim(3))) == Allowed()
        store.put_binding("odd", claim(3))
        replica.see("odd")
        assert await replica.answer(replica.create("rest", claim(1))) == Allowed()


# Several accounts


@in_simulated_time
async def test_accounts_are_passed_in_the_order_of_their_names() -> None:
    store = Bookstore()
    for name in ("c", "a", "b"):
        store.put(active(quota(name)))
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("web", claim(3))) == Allowed()
        assert store.attempts == ["a", "b", "c"]
        assert [reserved(store, name) for name in "abc"] == [["web"]] * 3


@in_simulated_time
async def test_a_denial_takes_back_what_was_reserved_before_it() -> None:
    store = Bookstore()
    store.put(active(quota("a")))
    store.put(active(quota("b", limits=2)))
    async with at_work(store) as replica:
        answer = await replica.answer(replica.create("web", claim(3)))
        assert isinstance(answer, Denied)
        assert answer.denial.quota == "b"
        await asyncio.sleep(0.1)
        assert reserved(store, "a") == reserved(store, "b") == []
        assert used(replica, "a") == "0"
        assert await replica.answer(replica.create("big", claim(2))) == Allowed()


@in_simulated_time
async def test_taking_back_removes_nobody_elses() -> None:
    store = Bookstore()
    store.put(holding(active(quota("a")), creation("other", 1)))
    store.put(active(quota("b", limits=2)))
    async with at_work(store) as replica:
        mine = replica.create("web", claim(1))
        assert await replica.answer(mine) == Allowed()
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Denied)
        await asyncio.sleep(0.1)
        # Of the same binding even: what was allowed stays reserved.
        assert [one.id for one in store.accounts["a"].reservations] == ["other", mine.id]


@in_simulated_time
async def test_a_taken_back_reservation_outlives_conflicts_and_lost_answers_no_better() -> None:
    store = Bookstore()
    store.put(active(quota("a")))
    store.put(active(quota("b", limits=2)))
    async with at_work(store) as replica:
        deny = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.008)
        assert [account.name for account in store.writes] == ["a"]
        store.disturb("a", lambda account: holding(account, creation("other", 1)))
        assert isinstance(await deny, Denied)
        store.lost_answers = 1
        await asyncio.sleep(0.5)
        assert reserved(store, "a") == ["other"]


@in_simulated_time
async def test_later_takes_back_too() -> None:
    store = Bookstore()
    store.put(active(quota("a")))
    store.put(holding(active(quota("b")), creation("other", 9)))
    async with at_work(store) as replica:
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Later)
        await asyncio.sleep(0.1)
        assert reserved(store, "a") == []
        assert reserved(store, "b") == ["other"]


@in_simulated_time
async def test_an_allow_takes_nothing_back() -> None:
    store = Bookstore()
    store.put(active(quota("a")))
    store.put(active(quota("b")))
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("web", claim(3))) == Allowed()
        await asyncio.sleep(5)
        assert reserved(store, "a") == reserved(store, "b") == ["web"]


# The same binding again


@in_simulated_time
async def test_a_creation_of_what_exists_reserves_nothing() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("web", claim(3))
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("web", claim(3), uid="another")) == Exists()
        assert await replica.answer(replica.create("web", claim(300), uid="another"), dry_run=True) == Exists()
        assert (store.attempts, store.looks) == ([], ["web", "web"])


@in_simulated_time
async def test_a_creation_of_what_is_being_created_is_looked_up_and_gets_its_own_reservation() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        first, second = replica.create("web", claim(6)), replica.create("web", claim(6), uid="another")
        assert await replica.answer(first) == Allowed()
        # Not stored yet, and may never be: each answer stands on a reservation of its own, and both count once.
        assert await replica.answer(second) == Allowed()
        assert [one.id for one in store.accounts["quota"].reservations] == [first.id, second.id]
        assert used(replica) == "6"
        # Stored, although this view has not seen it.
        store.put_binding("web", claim(6))
        assert await replica.answer(replica.create("web", claim(6), uid="third")) == Exists()


@in_simulated_time
async def test_whether_it_exists_cannot_be_told_then_later() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("web", claim(3))
    async with at_work(store) as replica:
        store.is_down = True
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Later)


@in_simulated_time
async def test_a_name_that_was_deleted_and_is_still_in_the_view_may_be_created() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("web", claim(3))
    async with at_work(store) as replica:
        store.delete_binding("web")
        assert await replica.answer(replica.create("web", claim(3), uid="another")) == Allowed()


# Limits of its own


@in_simulated_time
async def test_an_account_that_is_full_answers_later_until_something_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_module, "MOST_RESERVATIONS", 2)
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        asks = [replica.create(name, claim(1)) for name in ("one", "two", "three")]
        assert kinds(await together(replica, *asks, within_seconds=1)) == ["Allowed", "Allowed", "Later"]
        assert reserved(store) == ["one", "two"]
        answer = await replica.answer(replica.create("three", claim(1)), within_seconds=1)
        assert answer == Later("quota quota: it has more admissions under way than it can note")
        # Denials and what does not increase need no room.
        assert isinstance(await replica.answer(replica.create("four", claim(11)), within_seconds=1), Denied)
        store.put_binding("one", claim(1))
        replica.see("one")
        assert await replica.answer(replica.create("three", claim(1)), within_seconds=1) == Allowed()
        assert reserved(store) == ["two", "three"]


@in_simulated_time
async def test_a_replica_that_others_may_have_given_up_on_admits_nothing() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        replica.is_present = False
        assert isinstance(await replica.answer(replica.create("web", claim(1))), Later)
        await asyncio.sleep(0.1)
        assert reserved(store) == []
        # It may still refuse: that harms nobody.
        assert isinstance(await replica.answer(replica.create("web", claim(11))), Denied)
