"""Limits that change while something is on its way: what was let through counts by whichever of them there are."""

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


def limited(cpu: int) -> Schemes:
    """Alice has so much in the whole tree."""
    limit = Limit(users=("alice",), groups=(), resources={"cpu": parse(cpu)}, applications=None)
    return Schemes.of({"default": [Level(ROOT, limits=(limit,)), Level("team")]})


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
