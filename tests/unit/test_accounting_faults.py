"""Views that are behind, stores that do not answer, requests that die, a replica that stops."""

import asyncio
from dataclasses import replace

import pytest

from federation_quota.accounting.answer import Allowed, Denied, Later
from federation_quota.accounting.committer import SUSPICION_SECONDS
from federation_quota.accounting.settler import Settler
from federation_quota.ledger import settling
from federation_quota.ledger.account import Account
from federation_quota.quantity import parse
from tests.conformance.bookstore import (
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
from tests.unit.accounts import claim, creation, holding, of_class, quota

# A store that others write too, and that does not always answer


@in_simulated_time
async def test_a_conflict_is_read_and_judged_again() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        store.disturb("quota", lambda account: holding(account, creation("other", 4)))
        assert await replica.answer(replica.create("web", claim(6))) == Allowed()
        assert reserved(store) == ["other", "web"]
        assert store.attempts == ["quota"] * 2


@in_simulated_time
async def test_a_conflict_that_takes_the_room_away_is_never_an_admission() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        store.disturb("quota", lambda account: holding(account, creation("other", 5)))
        assert isinstance(await replica.answer(replica.create("web", claim(6))), Later)
        assert reserved(store) == ["other"]


@in_simulated_time
async def test_a_limit_that_was_lowered_meanwhile_is_the_one_that_counts() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("old", claim(4))
    async with at_work(store) as replica:
        store.disturb("quota", lambda account: replace(account, limits={"cpu": parse(5)}))
        answer = await replica.answer(replica.create("web", claim(6)))
        assert isinstance(answer, Denied)
        assert answer.denial.message == "exceeded quota: quota, requested: cpu=6, used: cpu=4, limited: cpu=5"


@in_simulated_time
async def test_conflict_after_conflict_ends_by_the_deadline() -> None:
    store = Bookstore(latency_seconds=0.05)
    store.put(active(quota()))
    async with at_work(store) as replica:
        for _ in range(100):
            store.disturb("quota")
        began = now()
        assert isinstance(await replica.answer(replica.create("web", claim(6)), within_seconds=1), Later)
        assert now() - began == pytest.approx(1, abs=0.2)
        assert reserved(store) == []


@in_simulated_time
async def test_a_write_whose_answer_was_lost_counts_once() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        store.lost_answers = 2
        # More than half of the limit: counted twice, it could not fit.
        assert await replica.answer(replica.create("web", claim(6))) == Allowed()
        assert reserved(store) == ["web"]
        assert used(replica) == "6"
        assert await replica.answer(replica.create("more", claim(4))) == Allowed()


@in_simulated_time
async def test_a_store_that_does_not_answer_means_later_and_recovery_is_at_once() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        store.is_down = True
        began = now()
        answer = await replica.answer(replica.create("web", claim(1)), within_seconds=1)
        assert isinstance(answer, Later)
        assert "does not answer" in answer.reason
        assert now() - began == pytest.approx(1, abs=0.1)
        store.is_down = False
        assert await replica.answer(replica.create("web", claim(1)), within_seconds=1) == Allowed()


@in_simulated_time
async def test_a_store_that_refuses_writes_is_not_hammered() -> None:
    store = Bookstore(latency_seconds=0.001)
    store.put(active(quota()))
    async with at_work(store) as replica:
        store.refuses_writes = True
        assert isinstance(await replica.answer(replica.create("web", claim(1)), within_seconds=2), Later)
        assert 2 < len(store.attempts) < 100


@in_simulated_time
async def test_a_mistake_of_ours_costs_those_who_wait_an_answer_and_nobody_else() -> None:
    store = Bookstore()
    store.put(active(quota("a")))
    store.put(active(quota("b", selector=of_class("gold"))))
    async with at_work(store) as replica:

        def fail(_account: Account) -> Account:
            raise RuntimeError("nobody thought of this")

        store.disturb("a", fail)
        answers = await together(replica, replica.create("web", claim(1)), replica.create("more", claim(1)))
        assert kinds(answers) == ["Later", "Later"]
        assert await replica.answer(replica.create("web", claim(1, "gold"))) == Allowed()
        assert reserved(store, "a") == reserved(store, "b") == ["web"]


# Views


@in_simulated_time
async def test_a_view_behind_what_others_have_seen_waits_for_it() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        entry = store.put_binding("web", claim(8))
        replica.accountant.learn(store.put(replace(store.accounts["quota"], observed=entry.version)))
        waiting = asyncio.ensure_future(replica.answer(replica.create("late", claim(3))))
        await asyncio.sleep(1)
        assert not waiting.done()
        replica.see("web")
        assert isinstance(await waiting, Denied)
        assert store.attempts == []


@in_simulated_time
async def test_a_view_that_stays_behind_answers_later() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        entry = store.put_binding("web", claim(1))
        replica.accountant.learn(store.put(replace(store.accounts["quota"], observed=entry.version)))
        began = now()
        answer = await replica.answer(replica.create("late", claim(3)), within_seconds=1)
        assert isinstance(answer, Later)
        assert "yet to see" in answer.reason
        assert now() - began == pytest.approx(1, abs=0.1)
        assert store.attempts == []


@in_simulated_time
async def test_a_bookmark_is_enough_to_have_seen_everything() -> None:
    store = Bookstore()
    store.put(replace(active(quota()), observed=500))
    async with at_work(store) as replica:
        waiting = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.1)
        replica.observation.reach(500)
        assert await waiting == Allowed()


@in_simulated_time
async def test_a_store_that_went_back_in_time_is_noticed_although_asks_keep_coming() -> None:
    store = Bookstore()
    store.put(holding(replace(active(quota()), observed=10**6), creation("never", 10)))
    async with at_work(store) as replica:
        answers = []
        for number in range(int(SUSPICION_SECONDS) + 5):
            answers.append(await replica.answer(replica.create(f"b{number}", claim(1)), within_seconds=1))
            await asyncio.sleep(0.2)
        assert isinstance(answers[0], Later)
        assert answers[-1] == Allowed()
        assert store.accounts["quota"].observed < 10**6
        assert "never" not in reserved(store)


@in_simulated_time
async def test_a_view_that_is_slow_is_no_store_that_went_back() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        entry = store.put_binding("web", claim(8))
        replica.accountant.learn(store.put(replace(store.accounts["quota"], observed=entry.version)))
        for _ in range(4):
            assert isinstance(await replica.answer(replica.create("late", claim(3)), within_seconds=4), Later)
        assert store.accounts["quota"].observed == entry.version
        assert store.attempts == []


# Reservations that nobody hears of again


@in_simulated_time
async def test_an_old_reservation_of_a_request_that_died_ends_by_a_live_look() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), creation("dead", 8)))
    async with at_work(store) as replica:
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Later)
        await asyncio.sleep(settling.EXPIRY_SECONDS)
        assert await replica.answer(replica.create("web", claim(3))) == Allowed()
        assert reserved(store) == ["web"]
        assert store.looks == ["dead"]


@in_simulated_time
async def test_what_a_live_look_has_ended_is_written_down_although_nobody_is_admitted() -> None:
    store = Bookstore()
    store.put_binding("big", claim(9))
    store.put(holding(active(quota()), creation("dead", 1)))
    async with at_work(store) as replica:
        replica.see("big")
        await asyncio.sleep(settling.EXPIRY_SECONDS + 1)
        for _ in range(3):
            assert isinstance(await replica.answer(replica.create("web", claim(3))), Denied)
        assert reserved(store) == []
        assert store.looks == ["dead"]


@in_simulated_time
async def test_an_old_reservation_whose_binding_is_there_is_not_forgotten_before_the_view_has_it() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), creation("other", 8)))
    async with at_work(store) as replica:
        # It was stored, and this replica's watch stalls.
        entry = store.put_binding("other", claim(8), uid="uid-other")
        await asyncio.sleep(settling.EXPIRY_SECONDS + 1)
        assert isinstance(await replica.answer(replica.create("web", claim(3)), within_seconds=3), Later)
        assert "web" not in reserved(store)
        replica.see("other")
        assert isinstance(await replica.answer(replica.create("web", claim(3)), within_seconds=3), Denied)
        assert await replica.answer(replica.create("web", claim(2)), within_seconds=3) == Allowed()
        assert reserved(store) == ["web"]
        assert store.accounts["quota"].observed == entry.version


@in_simulated_time
async def test_an_idle_account_is_settled_by_whoever_looks_after_it() -> None:
    store = Bookstore()
    stored = store.put(holding(active(quota()), creation("dead", 8), creation("seen", 1), creation("there", 1)))
    async with at_work(store) as replica:
        settler = Settler(replica.observation, store, settling.Expiry(60))
        store.put_binding("seen", claim(1), uid="uid-seen")
        replica.see("seen")
        settled = await settler.settle(stored)
        assert [one.id for one in settled.reservations] == ["dead", "there"]
        assert settled.observed == store.bindings["seen"].version
        entry = store.put_binding("there", claim(1), uid="another")
        await asyncio.sleep(61)
        settled = await settler.settle(stored)
        assert settled.reservations == ()
        assert settled.observed == entry.version
        assert store.attempts == []
