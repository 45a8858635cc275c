"""Advances of users and groups: on all of their nodes, for every replica, for as long as somebody may come again."""

import asyncio
from dataclasses import replace

import pytest

from federation_quota.accounting.answer import Allowed, Denied, Later
from federation_quota.accounting.settler import Settler
from federation_quota.ledger import advance, level
from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.advance import Terms
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Books
from federation_quota.ledger.settling import Expiry
from federation_quota.limits import usage
from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.scheme import Schemes
from federation_quota.limits.subject import USER, Subject
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from tests.conformance.bookstore import HERE, Bookstore, Replica, at_work, in_simulated_time
from tests.unit.limits import ANN, LEAF, TREE, account, limited, owned, schemes

OTHER = "team-b"
TERMS = Terms(share=4, worth=1, busy_admissions=1, busy_seconds=1.0, rest_seconds=advance.LASTING.rest_seconds)
HALF = Resources({"cpu": parse(4), "pods": parse(1)})
ANNS = Subject(TREE, USER, "ann").account


def limits(cpu: int) -> Schemes:
    """Ann has so much on every node, and may have as many applications."""
    entry = limited("ann", applications=cpu, cpu=cpu)
    return schemes({node: [entry] for node in (ROOT, "dept", LEAF, OTHER)}, (LEAF, OTHER))


def claim(leaf: str = LEAF) -> Claim:
    return owned(ANN, {"cpu": 1, "pods": 1}, leaf)


async def fill(here: Replica, store: Bookstore, prefix: str, count: int, leaf: str = LEAF) -> list[object]:
    """Ask for so many new ones, one after the other; those that are let through are stored and seen."""
    answers: list[object] = []
    for name in (f"{prefix}{number}" for number in range(count)):
        answers.append(await here.answer(here.create(name, claim(leaf))))
        if isinstance(answers[-1], Allowed):
            store.put_binding(name, claim(leaf))
            here.see(name)
    return answers


async def see_each_other(store: Bookstore, *replicas: Replica) -> None:
    """Each hears of what the others write, for a while."""
    for _ in range(20):
        await asyncio.sleep(0.1)
        for one in replicas:
            for known in store.accounts.values():
                one.accountant.learn(known)


def held(store: Bookstore) -> Resources:
    found = advance.of(store.accounts[ANNS], HERE)
    return found.amounts if found else Resources()


@in_simulated_time
async def test_who_comes_again_costs_no_write_wherever_they_ask() -> None:
    store = Bookstore()
    async with at_work(store, terms=TERMS) as here:
        here.accountant.limit(limits(1000))
        await fill(here, store, "a", 2)
        status = usage.status(usage.fitted(store.accounts[ANNS], limits(1000)), Resources())
        assert [one["amounts"] for one in status["advances"]] == [{"applications": "249", "cpu": "249"}]
        writes = len(store.writes)
        await asyncio.sleep(300)
        assert await fill(here, store, "b", 50) == [Allowed()] * 50
        assert await fill(here, store, "c", 50, OTHER) == [Allowed()] * 50
        assert len(store.writes) == writes, "after five minutes, and elsewhere"
        await asyncio.sleep(2 * TERMS.rest_seconds)
        assert not held(store), "nobody has come again"
        assert store.accounts[ANNS].observed >= store.bindings["c49"].version, "and what proves it was told"
        assert not any("/b" in one for one in store.looks), "what was spent was seen stored"


@in_simulated_time
async def test_one_write_takes_for_every_replica_and_each_spends_its_own() -> None:
    store = Bookstore()
    store.live = [HERE, "there"]
    for_all = replace(TERMS, for_all=True)
    async with at_work(store, terms=for_all) as here, at_work(store, "there", terms=for_all) as there:
        known = limits(1000)
        for one in (here, there):
            one.accountant.limit(known)
        first = asyncio.create_task(fill(here, store, "a", 1))
        await see_each_other(store, here, there)
        assert await first == [Allowed()]
        await fill(here, store, "b", 1)
        there.accountant.learn(store.accounts[ANNS])
        granted = advance.of(store.accounts[ANNS], "there")
        assert granted is not None
        assert granted.is_granted
        writes = len(store.writes)
        assert await fill(there, store, "c", 20) == [Allowed()] * 20
        assert len(store.writes) == writes
        assert len(there.advanced) == 20
        books = Books(usage.fitted(store.accounts[ANNS], known), there.observation.view)
        assert (books.used + books.advanced)["cpu@"] <= parse(1000)


@in_simulated_time
async def test_what_another_has_taken_for_one_is_given_back_where_it_cannot_be_spent() -> None:
    store = Bookstore()
    async with at_work(store, terms=TERMS) as here:
        here.accountant.limit(limits(1000))
        await fill(here, store, "a", 1)
        grant = Advance("g", HERE, Resources({"cpu": parse(100)}), is_granted=True)
        store.put(replace(store.accounts[ANNS], advances=(grant,)))
        here.accountant.learn(store.accounts[ANNS])
        await asyncio.sleep(1)
        assert held(store) == grant.amounts, "it has its time"
        store.put(replace(store.accounts[ANNS], advances=(replace(grant, is_recalled=True),)))
        here.accountant.learn(store.accounts[ANNS])
        await asyncio.sleep(1)
        assert not held(store)
        assert here.advanced == []


@in_simulated_time
async def test_near_a_limit_there_is_none_and_nobody_gets_more() -> None:
    store = Bookstore()
    async with at_work(store, terms=advance.LASTING) as here:
        here.accountant.limit(limits(20))
        answers = await fill(here, store, "a", 25)
        assert [type(one) for one in answers] == [Allowed] * 20 + [Denied] * 5
        assert here.advanced == []


@in_simulated_time
async def test_by_another_limit_nothing_is_spent_and_what_is_on_its_way_counts() -> None:
    store = Bookstore()
    async with at_work(store, terms=TERMS) as here:
        here.accountant.limit(limits(1000))
        await fill(here, store, "a", 2)
        assert await here.answer(here.create("late", claim())) == Allowed()
        assert here.advanced[-1].endswith("/late")
        here.accountant.limit(limits(4))
        assert await here.answer(here.create("fourth", claim())) == Allowed()
        assert not here.advanced[-1].endswith("/fourth")
        known = store.accounts[ANNS]
        assert sorted(one.binding for one in known.reservations) == ["test/fourth", "test/late"]
        for name in ("late", "fourth"):
            store.put_binding(name, claim())
            here.see(name)
        assert isinstance(await here.answer(here.create("fifth", claim())), Denied)


@in_simulated_time
async def test_what_never_came_is_free_again() -> None:
    store = Bookstore()
    async with at_work(store, terms=TERMS) as here:
        here.accountant.limit(limits(100))
        await fill(here, store, "a", 2)
        for number in range(20):
            assert await here.answer(here.create(f"dead{number}", claim())) == Allowed()
        await asyncio.sleep(61)
        assert await fill(here, store, "b", 98) == [Allowed()] * 98
        assert isinstance(await here.answer(here.create("one-more", claim())), Denied)


@in_simulated_time
async def test_who_leaves_gives_back_of_many_accounts_and_waits_for_none_that_has_other_limits_now() -> None:
    store = Bookstore()
    async with at_work(store, terms=TERMS) as here:
        here.accountant.limit(limits(1000))
        await fill(here, store, "a", 3)
        store.live.append("there")
        here.accountant.limit(limits(900))  # which the other one has yet to join
        began = asyncio.get_running_loop().time()
        await here.accountant.give_back(timeout_seconds=5.0)
        assert asyncio.get_running_loop().time() - began < 1
        here.accountant.limit(limits(1000))
        await asyncio.sleep(1)
        assert not held(store)


@in_simulated_time
async def test_of_a_replica_that_died_one_look_serves_everybody() -> None:
    store = Bookstore()
    store.live = [HERE, "dead"]
    known = limits(10)
    people = [account(known, name) for name in ("ann", "bob", "eve")]
    held = (Advance("a", "dead", Resources({"cpu@": parse(2)})),)
    stored = [store.put(replace(one, advances=held, active_shape=one.shape)) for one in people]
    entry = store.put_binding("b", claim())  # let through by the dead one, and not seen here
    async with at_work(store) as here:
        settler = Settler(here.observation, store, Expiry(60))

        async def settle() -> list[Account]:
            return [await settler.settle(one) for one in stored]

        await settle()
        await asyncio.sleep(61)
        assert all(one.advances for one in await settle()), "it is not known to be gone"
        assert store.roll_calls == 1
        store.live = [HERE]
        await asyncio.sleep(6)
        settled = await settle()
        assert [one.advances for one in settled] == [(), (), ()]
        assert {one.observed for one in settled} == {entry.version}
        assert (store.roll_calls, store.lists) == (2, 1)


@in_simulated_time
async def test_of_more_nodes_than_a_status_can_hold_no_more_is_spent_than_was_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is under way on many of them is stored as if it were on all: more than there may be room for."""
    monkeypatch.setattr(level, "MOST_NAMES", 16)
    *leaves, last = (f"team-{number}" for number in range(64))
    entries = {leaf: [limited("ann", cpu=8)] for leaf in (*leaves, last)}
    known = schemes({**entries, ROOT: [limited("ann", cpu=100_000)]}, (*leaves, last))
    store = Bookstore()
    async with at_work(store, terms=Terms(share=1, worth=1, busy_admissions=1)) as here:
        here.accountant.limit(known)
        for number, leaf in enumerate([*leaves, last]):
            for name in (f"a{number}", f"b{number}"):
                assert await here.answer(here.create(name, replace(claim(leaf), charge=HALF))) == Allowed()
        stored = usage.status(usage.fitted(store.accounts[ANNS], known), Resources())["advances"]
        assert [list(one["amounts"]) for one in stored] == [["cpu"]], "told once, for all of them"
        third = here.create("third", replace(claim(last), charge=HALF))
        assert isinstance(await here.answer(third, within_seconds=3), Later), "it may have 8 there, and both may come"
