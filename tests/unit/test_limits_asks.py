"""Asks that fall under limits of users and groups: all of their accounts or none, and none is passed unasked."""

import asyncio
from typing import Any

import pytest

from federation_quota.accounting.answer import Allowed, Denied, Later
from federation_quota.identity import EVERYBODY, Identities
from federation_quota.ledger.judging import Ask
from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.scheme import NO_LIMITS
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.stamp import Owner
from tests.conformance.bookstore import Bookstore, Replica, active, at_work, in_simulated_time, reserved
from tests.unit.accounts import quota
from tests.unit.limits import ANN, BOB, LEAF, TREE, limited, owned, schemes

ANNS = Subject(TREE, USER, "ann").account
DEVS = Subject(TREE, GROUP, "dev").account
LIMITS = schemes({ROOT: [limited("ann", cpu=4), {"groups": ["dev"], "maxResources": {"cpu": 6}}], LEAF: []})


def ask(replica: Replica, name: str, cpu: int, owner: Owner | None = ANN, leaf: str = LEAF) -> Ask:
    return replica.create(name, owned(owner, {"cpu": cpu, "pods": 1}, leaf))


@in_simulated_time
async def test_accounts_are_opened_when_they_are_needed_and_all_are_asked() -> None:
    store = Bookstore()
    store.put(active(quota(limits=100)))
    async with at_work(store) as replica:
        replica.accountant.limit(LIMITS)
        assert await replica.answer(ask(replica, "web", 3)) == Allowed()
        assert store.accounts.keys() == {"quota", ANNS, DEVS}
        assert (reserved(store), reserved(store, ANNS), reserved(store, DEVS)) == (
            ["web"],
            ["test/web"],
            ["test/web"],
        )
        assert await replica.answer(ask(replica, "api", 3, BOB)) == Allowed(), "he has no limit of his own"


@in_simulated_time
async def test_who_is_refused_by_one_of_them_has_nothing_of_the_others() -> None:
    store = Bookstore()
    store.put(active(quota(limits=100)))
    async with at_work(store) as replica:
        replica.accountant.limit(LIMITS)
        answer = await replica.answer(ask(replica, "web", 5))
        assert isinstance(answer, Denied)
        assert answer.denial.message == (
            "exceeded limit of user ann in tree lab, in the whole tree: requested: cpu=5, used: cpu=0, limited: cpu=4, "
            "left: cpu=4. Scale down or delete something else that counts for it, or have an administrator raise it."
        )
        assert [one["field"] for one in answer.denial.causes] == [f"usageaccounts/{ANNS}/cpu@"]
        answer = await replica.answer(ask(replica, "api", 7, BOB))
        assert isinstance(answer, Denied)
        assert "limit of group dev in tree lab" in answer.denial.message
        await asyncio.sleep(1)
        assert [reserved(store, name) for name in store.accounts] == [[]] * len(store.accounts)


ROBOTS = "system:serviceaccounts:lab"


@pytest.mark.parametrize(
    "entries",
    [
        [limited("*", cpu=4)],
        [limited(ROBOTS, cpu=4)],
        [{"groups": [ROBOTS], "maxResources": {"cpu": 4}}],
        [{"groups": ["dev"], "maxResources": {"cpu": 9}}, {"groups": ["*"], "maxResources": {"cpu": 4}}],
    ],
    ids=["everybody's own", "named", "their group", "all other groups"],
)
@in_simulated_time
async def test_what_service_accounts_create_falls_under_limits_that_are_for_them(entries: list[dict[str, Any]]) -> None:
    """Ann, who administers their namespace, can act as any of them: a limit that names her alone is not enough."""
    one, other = (_robot(number) for number in (1, 2))
    store = Bookstore()
    async with at_work(store) as replica:
        replica.accountant.limit(schemes({ROOT: [limited("ann", cpu=1)]}))
        assert await replica.answer(ask(replica, "unlimited", 3, one)) == Allowed()
        store.put_binding("unlimited", owned(one, {"cpu": 3, "pods": 1}))
        replica.see("unlimited")
        replica.accountant.limit(schemes({ROOT: [limited("ann", cpu=1), *entries]}))
        answer = await replica.answer(ask(replica, "too-much", 2, other))
        assert isinstance(answer, Denied)
        assert "requested: cpu=2, used: cpu=3, limited: cpu=4" in answer.denial.message
        assert await replica.answer(ask(replica, "fits", 1, other)) == Allowed()


def _robot(number: int) -> Owner:
    """The owner of what one of the service accounts creates."""
    groups = ("system:serviceaccounts", ROBOTS, EVERYBODY)
    found = Identities().owner(f"system:serviceaccount:lab:robot-{number}", groups)
    assert found
    return found


@in_simulated_time
async def test_limits_on_several_nodes_are_told_one_by_one() -> None:
    async with at_work(Bookstore()) as replica:
        replica.accountant.limit(
            schemes({ROOT: [limited("ann", cpu=4)], "dept": [limited("ann", applications=1, cpu=2)]})
        )
        answer = await replica.answer(ask(replica, "web", 5))
        assert isinstance(answer, Denied)
        told = (
            "in the whole tree: requested: cpu=5, used: cpu=0, limited: cpu=4, left: cpu=4; on dept: requested: cpu=5"
        )
        assert told in answer.denial.message


@in_simulated_time
async def test_what_is_under_a_leaf_that_is_not_known_here_is_never_let_through() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        assert await replica.answer(ask(replica, "first", 1, leaf="new")) == Allowed(), "nothing is limited anywhere"
        replica.accountant.limit(LIMITS)
        answer = await replica.answer(ask(replica, "web", 1, leaf="new"))
        assert answer == Later("where in its tree quota new stands is not known here yet")
        assert store.accounts == {}
        assert await replica.answer(ask(replica, "nobodys", 1, None, leaf="")) == Allowed(), "of no leaf is of no limit"
        replica.accountant.limit(schemes({ROOT: [limited("ann", cpu=4)]}, [LEAF, "new"]))
        assert await replica.answer(ask(replica, "web", 1, leaf="new")) == Allowed()
        assert reserved(store, ANNS) == ["test/first", "test/web"], "and what went before there were limits is counted"


@in_simulated_time
async def test_a_leaf_that_goes_while_its_binding_waits_takes_it_back() -> None:
    store = Bookstore()
    store.put(active(quota(limits=100)))
    async with at_work(store) as replica:
        replica.accountant.limit(LIMITS)
        asked = asyncio.create_task(replica.answer(ask(replica, "web", 1)))
        await asyncio.sleep(store.latency_seconds / 2)
        replica.accountant.limit(schemes({ROOT: [limited("ann", cpu=4)]}, ["another"]))
        assert isinstance(await asked, Later)
        await asyncio.sleep(1)
        assert reserved(store) == []


@in_simulated_time
async def test_a_dry_run_opens_nothing() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        replica.accountant.limit(LIMITS)
        assert await replica.answer(ask(replica, "web", 4), dry_run=True) == Allowed()
        answer = await replica.answer(ask(replica, "web", 5), dry_run=True)
        assert isinstance(answer, Denied), "it could never fit, whatever else there is"
        assert "limit of user ann in tree lab" in answer.denial.message
        assert await replica.answer(ask(replica, "web", 5), dry_run=True, may_exceed=True) == Allowed()
        store.put_binding("other", owned(ANN, {"cpu": 3, "pods": 1}))
        replica.see("other")
        answer = await replica.answer(ask(replica, "web", 2), dry_run=True)
        assert answer == Later("the account of user ann is made when it is first needed"), (
            "nothing was read to prove it"
        )
        store.is_down = True
        assert isinstance(await replica.answer(ask(replica, "web", 5), dry_run=True), Later)
        assert store.accounts == {}


@in_simulated_time
async def test_an_account_that_goes_as_soon_as_it_was_opened_is_opened_again() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        replica.accountant.limit(schemes({ROOT: [limited("ann", cpu=4)]}))
        store.disturb(ANNS, lambda _account: None)
        asked = asyncio.create_task(replica.answer(ask(replica, "web", 1)))
        assert await asked == Allowed()
        assert reserved(store, ANNS) == ["test/web"]


@in_simulated_time
async def test_where_no_account_can_be_opened_it_is_asked_for_again() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        replica.accountant.limit(LIMITS)
        store.is_down = True
        answer = await replica.answer(ask(replica, "web", 1))
        assert isinstance(answer, Later)
        assert "could not be opened" in answer.reason


@in_simulated_time
async def test_whoever_is_charged_is_known_before_anybody_has_asked() -> None:
    store = Bookstore()
    async with at_work(store) as replica:
        claim = owned(ANN, {"cpu": 1})
        assert replica.accountant.charged(claim) == []
        replica.accountant.limit(LIMITS)
        found = replica.accountant.charged(claim)
        assert [(one.name, one.uid, list(one.limits)) for one in found] == [
            (ANNS, "", ["cpu@"]),
            (DEVS, "", ["cpu@"]),
        ]
        await replica.answer(ask(replica, "web", 1))
        assert all(one.uid for one in replica.accountant.charged(claim))
        replica.accountant.limit(NO_LIMITS)
        assert replica.accountant.charged(claim) == []
