"""The accountant and its committers in simulated time, against a store that does exactly what each test says."""

import asyncio
from dataclasses import replace

import pytest

from federation_quota.accounting import settler
from federation_quota.accounting.answer import Allowed, Answer, Denied, Exists, Later
from federation_quota.accounting.committer import MOST_IN_ONE_WRITE, PATIENCE_SECONDS, SUSPICION_SECONDS
from federation_quota.ledger import account as account_module
from federation_quota.ledger import settling
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.judging import Ask, Books
from federation_quota.ledger.reservation import Reservation
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from federation_quota.scope import EVERYTHING, Selector
from tests.conformance.bookstore import HERE, NAMESPACE, Bookstore, Replica, active, at_work, in_simulated_time

THERE = "there"


def claim(cpu: int, priority_class: str = "") -> Claim:
    return Claim(Resources({"cpu": parse(cpu)}), priority_class)


def quota(name: str = "quota", cpu: int = 10, selector: Selector = EVERYTHING) -> Account:
    return Account(NAMESPACE, name, {"cpu": parse(cpu)}, selector)


def of_class(name: str) -> Selector:
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
    return Selector.from_spec({"scopeSelector": {"matchExpressions": [expression]}})


def elsewhere(identifier: str, cpu: int, binding: str = "") -> Reservation:
    """What another replica admitted."""
    return Reservation(identifier, binding or identifier, claim(cpu), uid=f"uid-{binding or identifier}")


def holding(account: Account, *reservations: Reservation) -> Account:
    return account.with_reservations((*account.reservations, *reservations))


def reserved(store: Bookstore, name: str = "quota") -> list[str]:
    return [one.binding for one in store.accounts[name].reservations]


def used(replica: Replica, name: str = "quota") -> str:
    return str(Books(replica.store.accounts[name], replica.observation.view).used["cpu"])


def now() -> float:
    return asyncio.get_running_loop().time()


async def together(replica: Replica, *asks: Ask, within_seconds: float = 8.0) -> list[Answer]:
    return await asyncio.gather(*(replica.answer(ask, within_seconds=within_seconds) for ask in asks))


def kinds(answers: list[Answer]) -> list[str]:
    return [type(answer).__name__ for answer in answers]


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
    store.put(active(quota(cpu=5)))
    store.put_binding("web", claim(8))
    async with at_work(store) as replica:
        memory = Claim(Resources({"memory": parse("1Gi")}))
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
    store.put(active(quota(cpu=500)))
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
    store.put(active(quota(cpu=7)))
    async with at_work(store) as replica:
        answers = await together(replica, *(replica.create(f"b{number}", claim(2)) for number in range(9)))
        assert kinds(answers).count("Allowed") == 3
        assert kinds(answers).count("Later") == 6
        assert used(replica) == "6"


@in_simulated_time
async def test_more_asks_than_one_write_takes_are_all_answered() -> None:
    store = Bookstore()
    store.put(active(quota(cpu=10**6)))
    async with at_work(store) as replica:
        asks = [replica.create(f"b{number}", claim(1)) for number in range(2 * MOST_IN_ONE_WRITE + 1)]
        assert kinds(await together(replica, *asks)) == ["Allowed"] * len(asks)
        assert len(store.writes) == 3


@in_simulated_time
async def test_asks_that_must_wait_keep_nobody_behind_them_from_an_answer() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), elsewhere("other", 10)))
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
    store.put(holding(active(quota()), elsewhere("other", 8)))
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
    store.put(holding(active(quota()), elsewhere("other", 8)))
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


# A store that others write too, and that does not always answer


@in_simulated_time
async def test_a_conflict_is_read_and_judged_again() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        store.disturb("quota", lambda account: holding(account, elsewhere("other", 4)))
        assert await replica.answer(replica.create("web", claim(6))) == Allowed()
        assert reserved(store) == ["other", "web"]
        assert store.attempts == ["quota"] * 2


@in_simulated_time
async def test_a_conflict_that_takes_the_room_away_is_never_an_admission() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        store.disturb("quota", lambda account: holding(account, elsewhere("other", 5)))
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
    store.put(holding(replace(active(quota()), observed=10**6), elsewhere("never", 10)))
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
    store.put(holding(active(quota()), elsewhere("dead", 8)))
    async with at_work(store) as replica:
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Later)
        await asyncio.sleep(settling.EXPIRY_SECONDS)
        assert await replica.answer(replica.create("web", claim(3))) == Allowed()
        assert reserved(store) == ["web"]
        assert store.looks == ["dead"]


@in_simulated_time
async def test_an_old_reservation_whose_binding_is_there_is_not_forgotten_before_the_view_has_it() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), elsewhere("other", 8)))
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
    stored = store.put(holding(active(quota()), elsewhere("dead", 8), elsewhere("seen", 1), elsewhere("there", 1)))
    async with at_work(store) as replica:
        expiry = settling.Expiry(60)
        store.put_binding("seen", claim(1), uid="uid-seen")
        replica.see("seen")
        settled = await settler.settle(stored, replica.observation, expiry, store)
        assert [one.id for one in settled.reservations] == ["dead", "there"]
        assert settled.observed == store.bindings["seen"].version
        entry = store.put_binding("there", claim(1), uid="another")
        await asyncio.sleep(61)
        settled = await settler.settle(stored, replica.observation, expiry, store)
        assert settled.reservations == ()
        assert settled.observed == entry.version
        assert store.attempts == []


# New accounts


@in_simulated_time
async def test_a_new_account_is_joined_and_activated_without_being_asked() -> None:
    store = Bookstore()
    store.put(quota())
    async with at_work(store) as replica:
        await asyncio.sleep(0.1)
        assert store.accounts["quota"].is_active
        assert store.accounts["quota"].joined == {(HERE, store.accounts["quota"].lens.shape)}
        assert await replica.answer(replica.create("web", claim(3))) == Allowed()


@in_simulated_time
async def test_a_new_account_answers_later_until_every_live_replica_has_joined() -> None:
    store = Bookstore()
    store.put(quota())
    store.live = [HERE, THERE]
    async with at_work(store) as replica:
        answer = await replica.answer(replica.create("web", claim(3)), within_seconds=3)
        assert isinstance(answer, Later)
        assert "taken up" in answer.reason
        assert not store.accounts["quota"].is_active
        waiting = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.1)
        async with at_work(store, THERE):
            await asyncio.sleep(0.1)
            replica.accountant.learn(store.accounts["quota"])
            assert await waiting == Allowed()
        assert len(store.accounts["quota"].joined) == 2


@in_simulated_time
async def test_a_replica_that_left_silently_is_not_waited_for_for_ever() -> None:
    store = Bookstore()
    store.put(quota())
    store.live = [HERE, THERE]
    async with at_work(store) as replica:
        waiting = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(2)
        store.live = [HERE]
        assert await waiting == Allowed()


@in_simulated_time
async def test_while_an_account_is_being_taken_up_the_store_is_not_hammered() -> None:
    store = Bookstore(latency_seconds=0.001)
    store.put(quota())
    store.live = [HERE, THERE]
    store.put_binding("old", claim(1))
    async with at_work(store) as replica:
        replica.see("old")
        assert isinstance(await replica.answer(replica.create("web", claim(3)), within_seconds=5), Later)
        assert store.roll_calls < 20


@in_simulated_time
async def test_what_was_admitted_before_the_account_was_there_is_brought_along() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("early", claim(8))) == Allowed()
        replica.accountant.learn(store.put(quota()))
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Later)
        assert reserved(store) == ["early"]
        store.put_binding("early", claim(8))
        replica.see("early")
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Denied)
        assert await replica.answer(replica.create("web", claim(2))) == Allowed()


@in_simulated_time
async def test_what_one_replica_admitted_and_saw_stored_is_not_missed_by_another_that_has_not() -> None:
    store = Bookstore()
    store.live = [HERE, THERE]
    async with at_work(store) as replica, at_work(store, THERE) as behind:
        assert await replica.answer(replica.create("early", claim(8))) == Allowed()
        store.put_binding("early", claim(8))
        replica.see("early")
        account = store.put(quota())
        replica.accountant.learn(account)
        behind.accountant.learn(account)
        await asyncio.sleep(3)
        assert store.accounts["quota"].is_active
        assert isinstance(await behind.answer(behind.create("web", claim(3)), within_seconds=3), Later)
        behind.see("early")
        assert isinstance(await behind.answer(behind.create("web", claim(3)), within_seconds=3), Denied)


@in_simulated_time
async def test_an_account_that_selects_something_else_is_a_new_account() -> None:
    store = Bookstore()
    store.put(active(quota(selector=of_class("gold"))))
    async with at_work(store) as replica:
        # Not selected: admitted without the account's knowledge.
        assert await replica.answer(replica.create("early", claim(8, "silver"))) == Allowed()
        assert reserved(store) == []
        replica.accountant.learn(store.put(replace(store.accounts["quota"], selector=of_class("silver"))))
        assert isinstance(await replica.answer(replica.create("web", claim(3, "silver"))), Later)
        assert reserved(store) == ["early"]
        assert await replica.answer(replica.create("web", claim(2, "silver"))) == Allowed()


@in_simulated_time
async def test_an_account_that_changes_while_an_ask_passes_the_others_is_asked_again() -> None:
    store = Bookstore(latency_seconds=0.05)
    store.put(active(quota("a", selector=of_class("gold"))))
    store.put(active(quota("b")))
    async with at_work(store) as replica:
        passing = asyncio.ensure_future(replica.answer(replica.create("web", claim(3, "silver"))))
        await asyncio.sleep(0.06)
        replica.accountant.learn(store.put(replace(store.accounts["a"], selector=of_class("silver"))))
        assert await passing == Allowed()
        assert reserved(store, "a") == reserved(store, "b") == ["web"]


@in_simulated_time
async def test_an_account_that_turns_up_while_an_ask_waits_is_asked_too() -> None:
    store = Bookstore(latency_seconds=0.05)
    store.put(active(quota("b")))
    async with at_work(store) as replica:
        passing = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.06)
        replica.accountant.learn(store.put(quota("a", cpu=2)))
        assert isinstance(await passing, Denied)
        await asyncio.sleep(0.5)
        assert reserved(store, "b") == []


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
    store.put(active(quota("b", cpu=2)))
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
    store.put(holding(active(quota("a")), elsewhere("other", 1)))
    store.put(active(quota("b", cpu=2)))
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
    store.put(active(quota("b", cpu=2)))
    async with at_work(store) as replica:
        deny = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        while not store.writes:
            await asyncio.sleep(0.001)
        store.disturb("a", lambda account: holding(account, elsewhere("other", 1)))
        assert isinstance(await deny, Denied)
        store.lost_answers = 1
        await asyncio.sleep(0.5)
        assert reserved(store, "a") == ["other"]


@in_simulated_time
async def test_later_takes_back_too() -> None:
    store = Bookstore()
    store.put(active(quota("a")))
    store.put(holding(active(quota("b")), elsewhere("other", 9)))
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


# Accounts that go


@in_simulated_time
async def test_an_account_that_is_deleted_while_asks_wait_stands_in_nobodys_way() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), elsewhere("other", 9)))
    async with at_work(store) as replica:
        waiting = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        gone = store.accounts.pop("quota")
        replica.accountant.forget(NAMESPACE, "quota", int(gone.version) + 1)
        assert await waiting == Allowed()
        assert replica.accountant.accounts(NAMESPACE) == []


@in_simulated_time
async def test_an_account_found_gone_on_writing_stands_in_nobodys_way() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        store.disturb("quota", lambda _account: None)
        assert await replica.answer(replica.create("web", claim(3))) == Allowed()
        # The watch catches up, and a new one is served.
        replica.accountant.forget(NAMESPACE, "quota", store.version_now)
        replica.accountant.learn(store.put(replace(quota(), uid="second")))
        assert isinstance(await replica.answer(replica.create("more", claim(8))), Later)
        assert reserved(store) == ["web"]


@in_simulated_time
async def test_an_account_found_gone_before_a_denial_denies_nothing() -> None:
    store = Bookstore()
    store.put(active(quota()))
    store.put_binding("old", claim(9))
    async with at_work(store) as replica:
        store.accounts.clear()
        assert await replica.answer(replica.create("web", claim(3))) == Allowed()


@in_simulated_time
async def test_an_account_recreated_while_asks_wait_is_the_one_that_answers() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), elsewhere("other", 9)))
    async with at_work(store) as replica:
        waiting = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.5)
        replica.accountant.learn(store.put(replace(quota(cpu=3), uid="second")))
        assert await waiting == Allowed()
        assert store.accounts["quota"].uid == "second"
        assert reserved(store) == ["web"]


@in_simulated_time
async def test_news_of_a_deletion_before_the_recreation_changes_nothing() -> None:
    store = Bookstore()
    before = store.put(active(quota()))
    async with at_work(store) as replica:
        replica.accountant.learn(store.put(replace(active(quota(cpu=2)), uid="second")))
        replica.accountant.forget(NAMESPACE, "quota", int(before.version))
        assert [account.uid for account in replica.accountant.accounts(NAMESPACE)] == ["second"]
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Denied)


@in_simulated_time
async def test_news_of_accounts_that_are_not_known_change_nothing() -> None:
    async with at_work(Bookstore()) as replica:
        replica.accountant.forget(NAMESPACE, "quota", 5)
        assert replica.accountant.accounts(NAMESPACE) == []


@in_simulated_time
async def test_older_news_than_what_is_known_are_ignored() -> None:
    store = Bookstore()
    older = store.put(active(quota()))
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("web", claim(8))) == Allowed()
        replica.accountant.learn(older)
        assert [one.binding for one in replica.accountant.accounts(NAMESPACE)[0].reservations] == ["web"]
        assert isinstance(await replica.answer(replica.create("more", claim(3))), Later)


@in_simulated_time
async def test_shutting_down_answers_everybody() -> None:
    store = Bookstore(latency_seconds=0.1)
    store.put(holding(active(quota("a")), elsewhere("other", 9)))
    store.put(active(quota("b", selector=of_class("gold"))))
    async with at_work(store) as replica:
        waiting = asyncio.ensure_future(replica.answer(replica.create("waiting", claim(3))))
        writing = asyncio.ensure_future(replica.answer(replica.create("writing", claim(1))))
        passing = asyncio.ensure_future(replica.answer(replica.create("passing", claim(0, "gold"))))
        await asyncio.sleep(0.05)
        assert not waiting.done()
    async with asyncio.timeout(10):
        assert kinds([await waiting, await writing]) == ["Later", "Later"]
        await passing
        # Whoever comes now is told as much.
        assert isinstance(await replica.answer(replica.create("late", claim(1))), Later)


@in_simulated_time
async def test_an_ask_that_nobody_waits_for_any_more_harms_nobody() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), elsewhere("other", 9)))
    async with at_work(store) as replica:
        waiting = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.1)
        waiting.cancel()
        assert await replica.answer(replica.create("more", claim(1))) == Allowed()
        assert reserved(store) == ["other", "more"]


@in_simulated_time
async def test_an_ask_with_nothing_old_and_nothing_new_passes() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        assert await replica.answer(Ask("id", "web", NO_CLAIM, base=7)) == Allowed()
        assert store.attempts == []
