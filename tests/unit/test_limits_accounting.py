"""Limits that change while something is on its way: what was let through counts by whichever of them there are."""

import asyncio
from dataclasses import replace

from federation_quota.accounting.answer import Allowed, Denied, Later
from federation_quota.ledger.claim import Claim
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.limit import Limit
from federation_quota.limits.scheme import NO_LIMITS, Schemes
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from federation_quota.stamp import Owner
from tests.conformance.bookstore import Bookstore, at_work, in_simulated_time

ALICE, BOB = Owner("alice", ("dev",)), Owner("bob")


def cores(amount: int, owner: Owner = ALICE) -> Claim:
    return Claim(Resources({"cpu": parse(amount), "pods": parse(1)}), leaf="team", owner=owner)


def limited(cpu: int, node: str = ROOT) -> Schemes:
    """Alice has so much there, the whole tree or one leaf of it."""
    limits = (Limit(users=("alice",), groups=(), resources={"cpu": parse(cpu)}, applications=None),)
    levels = [Level(name, limits=limits if name == node else ()) for name in (ROOT, "team", "lab")]
    return Schemes.of({"default": levels})


@in_simulated_time
async def test_a_limit_that_comes_back_counts_what_was_let_through_without_it() -> None:
    store = Bookstore()
    async with at_work(store) as here:
        here.accountant.limit(limited(4))
        assert isinstance(await here.answer(here.create("one", cores(1))), Allowed)
        here.accountant.limit(NO_LIMITS)
        assert isinstance(await here.answer(here.create("two", cores(4))), Allowed)
        here.accountant.limit(limited(4))
        assert isinstance(await here.answer(here.create("three", cores(1))), Later), "5 of 4 are on their way"
        for name, amount in (("one", 1), ("two", 4)):
            store.put_binding(name, cores(amount))
            here.see(name)
        assert isinstance(await here.answer(here.create("three", cores(1))), Denied)


@in_simulated_time
async def test_nothing_is_let_through_without_a_limit_that_another_replica_may_still_go_by() -> None:
    store = Bookstore()
    async with at_work(store) as here:
        here.accountant.limit(limited(4))
        assert isinstance(await here.answer(here.create("one", cores(1))), Allowed)
        store.live.append("there")  # it has the limit, and has not heard that it is gone
        here.accountant.limit(NO_LIMITS)
        assert isinstance(await here.answer(here.create("two", cores(4))), Later)
        assert isinstance(await here.answer(here.create("three", cores(4, BOB))), Allowed), "who never had one"
        store.live.remove("there")
        assert isinstance(await here.answer(here.create("two", cores(4))), Allowed)


@in_simulated_time
async def test_who_has_joined_other_limits_does_not_go_back_without_a_write() -> None:
    store = Bookstore()
    async with at_work(store) as here:
        here.accountant.limit(limited(4, "lab"))
        assert isinstance(await here.answer(here.create("one", replace(cores(1), leaf="lab"))), Allowed)
        store.live.append("there")
        here.accountant.limit(limited(4))
        assert isinstance(await here.answer(here.create("two", cores(1)), within_seconds=0.1), Later)
        # The other one joins, too, and lets something through by the limit: nothing of that has been seen here.
        (account,) = store.accounts.values()
        ((_, shape),) = account.joined
        joined = replace(account, joined=account.joined | {("there", shape)}, active_shape=shape)
        store.put(joined)
        here.accountant.limit(limited(4, "lab"))
        assert isinstance(await here.answer(here.create("three", cores(4)), within_seconds=3.0), Later)
        here.accountant.limit(limited(4))
        await asyncio.sleep(2)
        assert isinstance(await here.answer(here.create("four", cores(3))), Allowed)
