"""One binding, several domains: the quotas of its namespace and the leaf that it is under, all or nothing."""

import asyncio
from dataclasses import replace

import pytest

from controllers.auditing import AuditedBindings, AuditedLeaves, Audits
from federation_quota.accounting.answer import Allowed, Answer, Denied, Exists, Later
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.advance import Terms
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Books
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from federation_quota.scope import EVERYTHING
from federation_quota.stamp import Stamp
from tests.conformance.bookstore import NAMESPACE, Bookstore, Replica, active, at_work, in_simulated_time, reserved
from tests.unit.accounts import change, claim, quota
from webhook.bindings import asks_of

TEAM, LAB = domain.of_leaf("team"), domain.of_leaf("lab")


def leaf(name: str = "team", cpu: int = 5, taken_in: int | None = None) -> Account:
    limits = {"cpu": parse(cpu)} | ({} if taken_in is None else {"admission.cpu": parse(taken_in)})
    return active(Account(domain.of_leaf(name), name, limits, EVERYTHING))


def of_leaf(given: int, asked: int) -> Claim:
    """What a leaf is charged: what was given, and, as such, what is asked for."""
    return claim({"cpu": given, "admission.cpu": asked})


def binding(
    name: str = "web",
    *,
    asked: int = 0,
    given: int = 0,
    leaf: str = "team",
    namespace: str = NAMESPACE,
    version: int = 0,
) -> Binding:
    return Binding(
        ObjectKey(namespace, name),
        f"uid-{name}",
        version,
        TemplateRef("apps/v1", "Deployment", namespace, name),
        demand=Resources.parse({"cpu": asked}),
        assigned=Resources.parse({"cpu": given}),
        stamp=Stamp(leaf=leaf),
    )


async def answer(replica: Replica, new: Binding, old: Binding | None = None, identifier: str = "id") -> Answer:
    deadline = asyncio.get_running_loop().time() + 8
    return await replica.accountant.answer(asks_of(new, old, identifier=identifier), deadline=deadline)


@in_simulated_time
async def test_what_fits_everywhere_is_reserved_everywhere() -> None:
    store = Bookstore()
    store.put(active(quota(limits=10)))
    store.put(leaf())
    async with at_work(store) as replica:
        assert await answer(replica, binding(asked=6, given=4)) == Allowed()
        assert reserved(store) == ["web"]
        assert reserved(store, "team") == [f"{NAMESPACE}/web"]
        assert store.accounts["quota"].reservations[0].claim == claim(6)
        assert store.accounts["team"].reservations[0].claim == of_leaf(4, 6)


@in_simulated_time
async def test_what_the_quota_of_the_namespace_refuses_takes_nothing_of_the_leaf() -> None:
    store = Bookstore()
    store.put(active(quota(limits=5)))
    store.put_binding("old", claim(5))
    store.put(leaf())
    async with at_work(store) as replica:
        refused = await answer(replica, binding(asked=6, given=4))
        assert isinstance(refused, Denied)
        assert (refused.denial.quota, refused.denial.namespace) == ("quota", NAMESPACE)
        await asyncio.sleep(1)
        assert reserved(store, "team") == []


@in_simulated_time
async def test_what_the_leaf_refuses_takes_nothing_of_the_namespace() -> None:
    store = Bookstore()
    store.put(active(quota(limits=10)))
    store.put(leaf(cpu=3))
    async with at_work(store) as replica:
        refused = await answer(replica, binding(asked=6, given=4))
        assert isinstance(refused, Denied)
        assert refused.denial.message == "exceeded quota: team, requested: cpu=4, used: cpu=0, limited: cpu=3"
        assert refused.denial.causes[0]["field"] == "compositeelasticquotas/team/status.runtime[cpu]"
        await asyncio.sleep(1)
        assert reserved(store) == []


@in_simulated_time
async def test_a_leaf_counts_bindings_of_all_namespaces() -> None:
    store = Bookstore()
    store.put(leaf())
    async with at_work(store) as replica:
        assert await answer(replica, binding(given=3), identifier="one") == Allowed()
        mirror = BindingMirror(replica.observation)
        mirror.upsert(binding(given=3, version=200))
        await asyncio.sleep(1)
        refused = await answer(replica, binding(given=3, namespace="bank"), identifier="two")
        assert isinstance(refused, Later)  # nobody has seen it stored but this view


@in_simulated_time
async def test_a_leaf_whose_runtime_is_not_known_says_later_and_never_no() -> None:
    store = Bookstore()
    store.put(replace(leaf(cpu=0), fault="how much cpu it may use now has yet to be worked out"))
    async with at_work(store) as replica:
        told = await answer(replica, binding(given=1))
        assert told == Later("quota team: how much cpu it may use now has yet to be worked out")
        assert await answer(replica, binding(asked=5)) == Allowed()  # it is given nothing yet


@in_simulated_time
async def test_of_a_leaf_nothing_is_given_out_in_advance() -> None:
    """Its runtime may be lowered at any time, and who has not heard of that must not go beyond it."""
    store = Bookstore()
    store.put(active(quota(limits=1000)))
    store.put(leaf(cpu=1000))
    async with at_work(store, terms=Terms(8, 1, 1)) as replica:
        for number in range(8):
            wanted = binding(f"b{number}", asked=1, given=1)
            assert await answer(replica, wanted, identifier=f"id{number}") == Allowed()
        assert store.accounts["quota"].advances
        assert not store.accounts["team"].advances


@in_simulated_time
async def test_a_creation_of_what_exists_is_told_so_by_either_domain() -> None:
    store = Bookstore()
    store.put(leaf())
    async with at_work(store) as replica:
        store.put_binding(f"{NAMESPACE}/web", claim(1))
        BindingMirror(replica.observation).upsert(binding(given=1, version=200))
        assert await answer(replica, binding(given=2)) == Exists()


@in_simulated_time
async def test_a_list_of_one_kind_that_went_back_forgets_no_other() -> None:
    store = Bookstore()
    store.put(active(quota(limits=10)))
    store.put(leaf())
    async with at_work(store) as replica:
        replica.accountant.rewind(lambda place: not domain.is_leaf(place))
        assert replica.accountant.accounts(NAMESPACE) == []
        assert [one.name for one in replica.accountant.accounts(TEAM)] == ["team"]


def test_a_leaf_is_asked_where_what_is_given_or_asked_for_grows() -> None:
    old = binding(asked=4, given=2, version=7)
    assert asks_of(old, old, identifier="x") == {}
    more = asks_of(binding(asked=4, given=3), old, identifier="x")
    assert more.keys() == {TEAM}
    assert (more[TEAM].new, more[TEAM].old, more[TEAM].base) == (of_leaf(3, 4), of_leaf(2, 4), 7)
    assert asks_of(binding(asked=3, given=2), old, identifier="x") == {}
    assert asks_of(binding(asked=4, given=2, leaf=""), old, identifier="x") == {}


def test_what_comes_under_another_leaf_is_all_new_there() -> None:
    old = binding(asked=4, given=2, version=7)
    moved = asks_of(binding(asked=4, given=2, leaf="lab"), old, identifier="x")
    assert moved.keys() == {LAB}
    assert (moved[LAB].new, moved[LAB].old) == (of_leaf(2, 4), claim({}))


@in_simulated_time
async def test_what_waits_costs_a_leaf_no_write_unless_it_limits_what_it_is_asked_for() -> None:
    store = Bookstore()
    store.put(leaf())
    store.put(leaf("lab", taken_in=6))
    async with at_work(store) as replica:
        assert await answer(replica, binding(asked=9)) == Allowed()
        assert store.writes == []
        assert await answer(replica, binding("a", asked=4, leaf="lab"), identifier="a") == Allowed()
        assert reserved(store, "lab") == [f"{NAMESPACE}/a"]
        entry = store.put_binding(f"{NAMESPACE}/a", of_leaf(0, 4), uid="uid-a")
        BindingMirror(replica.observation).upsert(binding("a", asked=4, leaf="lab", version=entry.version))
        refused = await answer(replica, binding("b", asked=3, leaf="lab"), identifier="b")
        assert isinstance(refused, Denied)
        assert "requested: admission.cpu=3, used: admission.cpu=4, limited: admission.cpu=6" in refused.denial.message
        assert await answer(replica, binding("c", asked=2, leaf="lab"), identifier="c") == Allowed()


# The mirror


class Mirrored:
    def __init__(self) -> None:
        self.observation = Observation()
        self.mirror = BindingMirror(self.observation)

    def used(self, name: str) -> str:
        return str(Books(leaf(name), self.observation.view).used["cpu"])


def test_a_binding_is_in_its_namespace_and_under_its_leaf() -> None:
    seen = Mirrored()
    seen.mirror.replace([binding(asked=4, given=2, version=5), binding(given=1, namespace="bank", version=6)], 10)
    assert (seen.used("team"), seen.used("lab")) == ("3", "0")
    seen.mirror.upsert(binding(asked=4, given=3, version=11))
    assert seen.used("team") == "4"
    assert str(Books(quota(), seen.observation.view).used["cpu"]) == "4"


def test_a_binding_that_comes_under_another_leaf_leaves_the_first_by_the_same_event() -> None:
    seen = Mirrored()
    seen.mirror.upsert(binding(given=2, version=5))
    seen.mirror.upsert(binding(given=2, leaf="lab", version=6))
    assert (seen.used("team"), seen.used("lab")) == ("0", "2")
    buried = seen.observation.view.tombstone(TEAM, f"{NAMESPACE}/web")
    assert buried is not None
    assert (buried.uid, buried.version) == ("uid-web", 6)
    seen.mirror.upsert(binding(given=2, version=7))
    assert (seen.used("team"), seen.used("lab")) == ("2", "0")


@pytest.mark.parametrize("last", [binding(given=2, version=6), replace(binding(version=6), stamp=Stamp(fault="?"))])
def test_a_binding_that_is_deleted_is_gone_everywhere(last: Binding) -> None:
    seen = Mirrored()
    seen.mirror.upsert(binding(given=2, version=5))
    seen.mirror.delete(last)
    assert seen.used("team") == "0"
    assert seen.observation.view.tombstone(TEAM, f"{NAMESPACE}/web") is not None


def test_a_binding_whose_stamp_cannot_be_read_any_more_stays_where_it_was_and_nothing_is_judged_beside_it() -> None:
    seen = Mirrored()
    seen.mirror.upsert(binding(given=2, version=5))
    seen.mirror.upsert(replace(binding(given=2, version=6), stamp=Stamp(fault="the stamp cannot be read")))
    assert seen.used("team") == "2"
    assert seen.observation.view.faults(TEAM) == {f"{NAMESPACE}/web": "the stamp cannot be read"}


@pytest.mark.parametrize("name", ["team", f"{NAMESPACE}/team"], ids=["composite", "elastic"])
def test_an_increase_that_no_leaf_reserved_is_found(name: str) -> None:
    audits = Audits()
    audit = audits.of(domain.of_leaf(name))
    leaves = AuditedLeaves({}, lambda _name: None, audit)
    seen = AuditedBindings(Observation(), lambda _before, _after: None, audits)
    leaves.replace([replace(leaf(name), version="3")], 4)
    seen.upsert(binding(given=2, leaf=name, version=5))
    seen.upsert(binding(given=2, leaf="lab", version=6))
    seen.upsert(binding(given=1, leaf=name, version=7))
    found = audit.reached(accounts=7, bindings=7)
    assert [(one.quota, one.increase.binding, one.increase.version) for one in found] == [
        (name, f"{NAMESPACE}/web", 5),
        (name, f"{NAMESPACE}/web", 7),
    ]
    leaves.upsert(replace(leaf(name), version="8").with_reservations([change("id", 3, f"{NAMESPACE}/web", 7)]))
    seen.upsert(binding(given=3, leaf=name, version=9))
    assert audit.reached(accounts=10, bindings=10) == []
    assert audits.quotas.reached(accounts=10, bindings=10) == []
    leaves.delete(replace(leaf(name), version="11"))
    seen.upsert(binding(given=5, leaf=name, version=12))
    assert audit.reached(accounts=20, bindings=20) == []


def test_how_far_one_kind_of_quotas_has_been_seen_says_nothing_of_the_others() -> None:
    audits = Audits()
    seen = AuditedBindings(Observation(), lambda _before, _after: None, audits)
    for name in ("team", "a/own"):
        audits.of(domain.of_leaf(name)).account_stored(replace(leaf(name), version="3"))
        seen.upsert(binding(given=2, leaf=name, version=5))
    assert [one.quota for one in audits.composites.reached(accounts=4, bindings=9)] == []
    assert [one.quota for one in audits.elastic.reached(accounts=9, bindings=9)] == ["a/own"]
    AuditedLeaves({}, lambda _name: None, audits.elastic).replace([], 9)  # listed anew: nothing of the others is lost
    assert [one.quota for one in audits.composites.reached(accounts=9, bindings=9)] == ["team"]
