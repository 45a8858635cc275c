"""Accounts that come, change and go while asks are under way."""

import asyncio
from dataclasses import replace

from federation_quota.accounting.answer import Allowed, Denied, Later
from federation_quota.ledger.claim import NO_CLAIM
from federation_quota.ledger.judging import Ask
from tests.conformance.bookstore import (
    HERE,
    NAMESPACE,
    Bookstore,
    active,
    at_work,
    in_simulated_time,
    kinds,
    reserved,
)
from tests.unit.accounts import claim, creation, holding, of_class, quota

THERE = "there"


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
async def test_what_was_admitted_a_while_ago_and_is_in_no_view_yet_is_brought_along() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        assert await replica.answer(replica.create("early", claim(8))) == Allowed()
        store.put_binding("early", claim(8))
        await asyncio.sleep(90)  # for so long the watch stalls
        replica.accountant.learn(store.put(quota()))
        assert isinstance(await replica.answer(replica.create("web", claim(3))), Later)
        assert reserved(store) == ["early"]


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
        replica.accountant.learn(store.put(quota("a", limits=2)))
        assert isinstance(await passing, Denied)
        await asyncio.sleep(0.5)
        assert reserved(store, "b") == []


# Accounts that go


@in_simulated_time
async def test_an_account_that_is_deleted_while_asks_wait_stands_in_nobodys_way() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), creation("other", 9)))
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
    store.put(holding(active(quota()), creation("other", 9)))
    async with at_work(store) as replica:
        waiting = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.5)
        replica.accountant.learn(store.put(replace(quota(limits=3), uid="second")))
        assert await waiting == Allowed()
        assert store.accounts["quota"].uid == "second"
        assert reserved(store) == ["web"]


@in_simulated_time
async def test_after_a_store_went_back_what_is_listed_then_is_the_account_however_old() -> None:
    store = Bookstore()
    store.put(holding(active(quota()), creation("other", 9)))
    store.put_binding("old", claim(1))
    async with at_work(store) as replica:
        waiting = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        restored = replace(store.accounts["quota"], version="50", reservations=(), limits=quota(limits=2).limits)
        store.accounts["quota"] = restored
        # As a reflector does it: at one moment, with the list.
        replica.accountant.rewind()
        replica.accountant.learn(restored)
        answer = await waiting
        assert isinstance(answer, Denied)
        assert answer.denial.message == "exceeded quota: quota, requested: cpu=3, used: cpu=1, limited: cpu=2"
        assert await replica.answer(replica.create("small", claim(1))) == Allowed()


@in_simulated_time
async def test_news_of_a_deletion_before_the_recreation_changes_nothing() -> None:
    store = Bookstore()
    before = store.put(active(quota()))
    async with at_work(store) as replica:
        replica.accountant.learn(store.put(replace(active(quota(limits=2)), uid="second")))
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
async def test_newer_news_that_come_while_a_write_is_answered_are_kept() -> None:
    store = Bookstore(latency_seconds=0.1)
    store.put(active(quota()))
    async with at_work(store) as replica:
        writing = asyncio.ensure_future(replica.answer(replica.create("web", claim(3))))
        await asyncio.sleep(0.15)
        assert reserved(store) == ["web"]
        # Stored, and not answered yet: somebody else writes, and the watch is faster than the answer.
        replica.accountant.learn(store.put(holding(store.accounts["quota"], creation("other", 1))))
        assert await writing == Allowed()
        assert await replica.answer(replica.create("more", claim(1))) == Allowed()
        assert store.attempts == ["quota", "quota"]  # without a conflict
        assert reserved(store) == ["web", "other", "more"]


@in_simulated_time
async def test_shutting_down_answers_everybody() -> None:
    store = Bookstore(latency_seconds=0.1)
    store.put(holding(active(quota("a")), creation("other", 9)))
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
    store.put(holding(active(quota()), creation("other", 9)))
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
