"""Advances: admissions without a write, and exact; given back when nobody asks, or when somebody needs them."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.accounting.answer import Allowed, Denied, Later
from federation_quota.accounting.settler import Settler
from federation_quota.ledger import advance
from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.advance import Purse, Terms
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Books
from federation_quota.ledger.level import MOST_NAMES, compact, spread
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.settling import Expiry
from federation_quota.ledger.view import View
from federation_quota.quantity import parse
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import Selector
from tests.conformance.bookstore import HERE, NAMESPACE, Bookstore, Replica, in_simulated_time

TERMS = Terms(share=4, worth=1, busy_admissions=2, busy_seconds=1.0, rest_seconds=1.0)


def cpu(amount: int) -> Resources:
    return Resources({"cpu": parse(amount)})


def claim(amount: int) -> Claim:
    return Claim(cpu(amount))


def quota(limit: int, name: str = "q") -> Account:
    account = Account(NAMESPACE, name, {"cpu": parse(limit)}, Selector())
    return replace(account, active_shape=account.lens.shape, joined=frozenset({(HERE, account.lens.shape)}))


async def fill(replica: Replica, store: Bookstore, *names: str, amount: int = 1) -> list[object]:
    """Ask for new bindings one after the other; those that are let through are stored and seen."""
    answers: list[object] = []
    for name in names:
        answer = await replica.answer(replica.create(name, claim(amount)))
        if isinstance(answer, Allowed):
            store.put_binding(name, claim(amount))
            replica.see(name)
        answers.append(answer)
    return answers


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@in_simulated_time
async def test_in_busy_times_most_admissions_cost_no_write() -> None:
    store = Bookstore()
    store.put(quota(1000))
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(store, tasks, terms=TERMS)
        replica.relist()
        answers = await fill(replica, store, *names("b", 100))
        assert answers == [Allowed()] * 100
        assert len(replica.advanced) == 98
        assert len(store.writes) == 2, "one to begin with, one that takes the advance"
        await asyncio.sleep(3)
        assert store.accounts["q"].advances == (), "nobody asks any more"
        assert store.accounts["q"].observed >= store.bindings["b99"].version, "and what proves it was told"
        store.accounts.clear()
        replica.accountant.forget(NAMESPACE, "q", 10**6)


@in_simulated_time
async def test_near_the_limit_every_admission_is_written_and_none_is_too_many() -> None:
    store = Bookstore()
    store.put(quota(20))
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(store, tasks, terms=Terms(share=8, worth=4, busy_admissions=1))
        replica.relist()
        answers = await fill(replica, store, *names("b", 25))
        assert [type(one) for one in answers] == [Allowed] * 20 + [Denied] * 5
        assert replica.advanced == []
        replica.accountant.forget(NAMESPACE, "q", 10**6)


@in_simulated_time
async def test_an_advance_is_called_back_by_whoever_needs_the_room_and_then_fits() -> None:
    store = Bookstore()
    store.live = [HERE, "there"]
    both = quota(100)
    both = replace(both, joined=frozenset({(HERE, both.lens.shape), ("there", both.lens.shape)}))
    store.put(both)
    async with asyncio.TaskGroup() as tasks:
        here, there = Replica(store, tasks, terms=TERMS), Replica(store, tasks, name="there", terms=TERMS)
        here.relist()
        await fill(here, store, *names("b", 4))
        there.relist()
        held = advance.of(store.accounts["q"], HERE)
        assert held is not None
        asking = asyncio.create_task(there.answer(there.create("large", claim(96))))
        await asyncio.sleep(0.1)
        assert any(one.is_recalled for one in store.accounts["q"].advances)
        here.accountant.learn(store.accounts["q"])  # its watch
        await asyncio.sleep(0.1)
        assert not store.accounts["q"].advances
        there.accountant.learn(store.accounts["q"])
        assert await asking == Allowed()
        for one in (here, there):
            one.accountant.forget(NAMESPACE, "q", 10**6)


@in_simulated_time
async def test_what_others_hold_is_no_reason_to_refuse() -> None:
    store = Bookstore()
    store.live = [HERE, "there"]
    store.put(replace(quota(10), advances=(Advance("a", "there", cpu(10)),)))
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(store, tasks, terms=TERMS)
        replica.relist()
        answer = await replica.answer(replica.create("b", claim(1)))
        assert isinstance(answer, Later), "it may be given back"
        replica.accountant.forget(NAMESPACE, "q", 10**6)


@in_simulated_time
async def test_who_leaves_gives_back_and_notes_what_is_under_way() -> None:
    store = Bookstore()
    store.put(quota(1000))
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(store, tasks, terms=TERMS)
        replica.relist()
        await fill(replica, store, *names("b", 5))
        assert await replica.answer(replica.create("late", claim(2))) == Allowed()
        assert store.accounts["q"].advances
        await replica.accountant.give_back(timeout_seconds=2)
        left = store.accounts["q"]
        assert left.advances == ()
        assert [one.binding for one in left.reservations] == ["late"]
        replica.accountant.forget(NAMESPACE, "q", 10**6)


@in_simulated_time
async def test_the_advance_of_a_replica_that_died_ends_after_the_expiry_and_a_look_at_everything() -> None:
    store = Bookstore()
    store.live = [HERE, "dead"]
    stored = store.put(replace(quota(10), advances=(Advance("a", "dead", cpu(5)),)))
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(store, tasks)
        replica.relist()
        entry = store.put_binding("b", claim(3))  # let through by the dead one, and not seen here
        settler = Settler(replica.observation, store, Expiry(60))

        async def settle() -> Account:
            return await settler.settle(stored)

        assert (await settle()).advances
        await asyncio.sleep(61)
        assert (await settle()).advances, "it is not known to be gone"
        store.live = [HERE]
        assert (await settle()).advances, "looked for a moment ago"
        await asyncio.sleep(6)
        settled = await settle()
        assert settled.advances == ()
        assert settled.observed == entry.version, "nobody judges before having seen what it let through"
        replica.accountant.forget(NAMESPACE, "q", 10**6)


@pytest.mark.parametrize("lost", [False, True], ids=["conflict", "lost answer"])
@in_simulated_time
async def test_a_write_that_failed_leaves_no_more_to_spend_than_surely_stands_in_the_store(lost: bool) -> None:
    store = Bookstore()
    store.put(quota(1000))
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(store, tasks, terms=TERMS)
        replica.relist()
        await fill(replica, store, "b0")
        if lost:
            store.lost_answers = 1
        else:
            store.disturb("q")
        await fill(replica, store, *names("c", 50))
        assert replica.advanced, "it goes on"
        books = Books(store.accounts["q"], replica.observation.view)
        assert (books.used + books.advanced)["cpu"] <= parse(1000)
        assert books.used == cpu(51)
        replica.accountant.forget(NAMESPACE, "q", 10**6)


def reservation(number: int) -> Reservation:
    return Reservation(f"id{number}", f"b{number}", claim(1), uid=f"uid{number}")


def test_a_purse_is_spent_once() -> None:
    purse = Purse()
    purse.begin(cpu(3))
    purse.land()
    assert [purse.spend(reservation(number), cpu(1), 0.0) for number in range(5)] == [True, True, True, False, False]
    purse.prove("id0", 7)
    assert not purse.spend(reservation(9), cpu(1), 0.0), "what is stored is not free before others were told"
    purse.begin(purse.open + cpu(1))
    assert not purse.spend(reservation(9), cpu(1), 0.0), "the write that tells them is on its way"
    purse.land()
    assert [purse.spend(reservation(number), cpu(1), 0.0) for number in (9, 10)] == [True, False]


@given(st.lists(st.sampled_from(["spend", "prove", "take back", "begin more", "begin less", "land", "fail"])))
def test_a_purse_never_spends_more_than_stands_in_the_store(steps: list[str]) -> None:
    """Against a store that keeps both what may have been written and what was surely written."""
    purse = Purse()
    purse.begin(cpu(2))
    purse.land()
    stored, coming = cpu(2), None
    told: set[int] = set()  # seen stored by everybody: a landed write said so
    proved: set[int] = set()
    spent: list[int] = []
    proved_at_begin: set[int] = set()
    for number, step in enumerate(steps):
        open_ones = [one for one in spent if one not in proved]
        if step == "spend" and purse.spend(reservation(number), cpu(1), float(number)):
            spent.append(number)
        elif step in ("prove", "take back") and open_ones:
            (purse.prove(f"id{open_ones[0]}", 7) if step == "prove" else purse.take_back(f"id{open_ones[0]}"))
            proved.add(open_ones[0])
        elif step.startswith("begin") and coming is None:
            coming = purse.open + cpu(3 if step == "begin more" else 0)
            proved_at_begin = set(proved)
            purse.begin(coming)
        elif step == "land" and coming is not None:
            purse.land()
            stored, coming = coming, None
            told |= proved_at_begin
        elif step == "fail" and coming is not None:
            purse.fail()
            coming = None
        # Whichever of the two is true, what is under way and what others have not been told of fits in it.
        outstanding = len([one for one in spent if one not in told])
        assert parse(outstanding) <= stored["cpu"] or not open_ones
        if coming is not None:
            after = len([one for one in spent if one not in told | proved_at_begin])
            assert parse(after) <= coming["cpu"]


def test_an_advance_is_a_whole_number_that_people_can_read() -> None:
    account = replace(quota(0), limits={"cpu": parse("9999m"), "memory": parse("1Gi")})
    asked = Resources({"cpu": parse("100m"), "memory": parse("1Mi")})
    assert advance.free(Books(account, View()), asked, NOTHING, Terms()).to_json() == {"cpu": "1", "memory": "128Mi"}


def test_two_names_of_one_resource_share_the_smaller_room() -> None:
    account = replace(quota(0), limits={"cpu": parse(80), "requests.cpu": parse(40)})
    assert advance.free(Books(account, View()), cpu(1), NOTHING, Terms(share=8)) == cpu(5)


def test_an_advance_is_of_what_is_asked_for_and_of_what_was() -> None:
    account = replace(quota(80), limits={"cpu": parse(80), "memory": parse("8Gi"), "pods": parse(800)})
    books, held = Books(account, View()), Resources({"memory": parse("1Gi")})
    assert advance.free(books, cpu(1), NOTHING, Terms(share=8)) == cpu(10)
    assert advance.free(books, cpu(1), held, Terms(share=8)).to_json() == {"cpu": "10", "memory": "1Gi"}
    assert advance.free(books, cpu(3), held, Terms(share=8)) == NOTHING, "its limit is near"
    full = Books(replace(account, limits={**account.limits, "memory": parse(0)}), View())
    assert advance.free(full, cpu(1), held, Terms(share=8)) == cpu(10), "that limit is near, and nobody asks for it"


def on_nodes(**amounts: int) -> Resources:
    return Resources({f"cpu@{node}": parse(amount) for node, amount in amounts.items()})


def test_of_several_nodes_an_advance_is_of_all_alike_unless_one_is_near_its_limit() -> None:
    account = replace(quota(0), limits={"cpu@a": parse(80), "cpu@b": parse(800), "pods@a": parse(1)})
    assert advance.free(Books(account, View()), on_nodes(b=1), NOTHING, Terms()) == on_nodes(a=10, b=10)
    near = Books(replace(account, limits={**account.limits, "cpu@a": parse(3)}), View())
    assert advance.free(near, on_nodes(b=1), NOTHING, Terms()) == on_nodes(b=100), "only where it was asked for"
    assert advance.free(near, on_nodes(a=1, b=1), NOTHING, Terms()) == NOTHING


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3)),
)
def test_what_is_told_once_for_many_nodes_is_read_as_it_was(here: dict[str, int], also: dict[str, int]) -> None:
    names = [f"cpu@{node}" for node in {*here, *also}] + [f"pods@{node}" for node in also]
    amounts = Resources(
        {f"cpu@{node}": parse(one) for node, one in here.items()}
        | {f"pods@{node}": parse(one) for node, one in also.items()}
    )
    assert spread(Resources(compact(amounts, names)), names) == amounts


_NODES = st.sets(st.sampled_from("abcd"))


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3)), _NODES, _NODES)
def test_what_is_held_is_not_lost_while_other_limits_are_in_force(
    held: dict[str, int], also: set[str], meanwhile: set[str]
) -> None:
    """Written by who knows the limits as they were, then by who knows others, then read by the first ones again."""
    amounts, names = on_nodes(**held), [f"cpu@{node}" for node in {*held, *also}]
    others = [f"cpu@{node}" for node in meanwhile]
    between = spread(Resources(compact(amounts, names)), others)
    found = spread(Resources(compact(between, others)), names)
    assert all(found[name] >= amount for name, amount in amounts.items())


def test_more_than_a_status_can_hold_is_told_as_the_most_of_it() -> None:
    amounts = Resources({f"cpu@{number}": parse(number + 1) for number in range(MOST_NAMES + 1)})
    assert compact(amounts, amounts) == {"cpu": parse(MOST_NAMES + 1)}


@in_simulated_time
async def test_nobody_is_refused_for_what_is_stored_no_more_however_far_behind_the_view_is() -> None:
    store = Bookstore()
    store.put(quota(10))
    store.put_binding("large", claim(10))
    async with asyncio.TaskGroup() as tasks:
        replica = Replica(store, tasks)
        replica.relist()
        assert isinstance(await replica.answer(replica.create("b", claim(1))), Denied)
        gone = store.delete_binding("large")  # and the watch does not bring it
        assert isinstance(await replica.answer(replica.create("b", claim(1))), Later)
        replica.observation.delete(NAMESPACE, "large", gone.uid, gone.version)
        assert await replica.answer(replica.create("b", claim(1))) == Allowed()
        replica.accountant.forget(NAMESPACE, "q", 10**6)
