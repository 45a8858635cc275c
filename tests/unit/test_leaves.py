"""Bindings under elastic leaves, as the webhook sees them: where they belong, who is held, what is refused."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.answer import Allowed, Answer, Denied
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding
from federation_quota.elastic import leaf
from federation_quota.elastic.ask import Ask as Wish
from federation_quota.elastic.association import AssociationError
from federation_quota.elastic.forest import Root, read_root
from federation_quota.kube import codec, error, outline
from federation_quota.kube.discovery import Discovery
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.resource import Resource
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Ask, Exceeded
from federation_quota.quantity import parse
from federation_quota.room import Room
from federation_quota.stamp import HELD_LABEL, PREEMPTIBLE_LABEL, QUOTA_NAME_LABEL, STAMP_ANNOTATION, Stamp
from tests.conformance.bookstore import in_simulated_time
from tests.unit.documents import BINDING, changed, encode
from tests.unit.reviews import Api
from tests.unit.test_holding import is_held, patched
from tests.unit.waiters import QuotaShelf
from webhook.asks import LASTS_SECONDS, AskList
from webhook.bindings import BindingReview
from webhook.holding import Holding
from webhook.leaves import Leaves
from webhook.notes import REMEMBERED_SECONDS
from webhook.review import Verdict
from webhook.stamping import Stamping

TEAM = "team-a"
# As the detector sends it: five replicas of 250m, no stamp, no clusters.
NEW = changed("metadata/annotations", ..., changed("spec/clusters", ..., changed("status", ...)))


def composite(name: str, *, runtime: Mapping[str, str] | None = None, version: int = 1, **spec: Any) -> Account:  # noqa: ANN401
    account = leaf.read(
        {
            "kind": "CompositeElasticQuota",
            "metadata": {"name": name, "uid": name, "resourceVersion": str(version)},
            "spec": {"min": {"cpu": "4"}, **spec},
            "status": {"runtime": runtime or {}},
        }
    )
    return replace(account, active_shape=account.lens.shape)


def stamped(document: dict[str, Any], name: str, *, version: str = "4711") -> dict[str, Any]:
    found = copy.deepcopy(document)
    found["metadata"]["annotations"] = {STAMP_ANNOTATION: Stamp("", 0, "deployments", leaf=name).encode()}
    found["metadata"]["resourceVersion"] = version
    return found


class Kinds:
    """Discovery of a server that has Deployments."""

    async def of_object(self, _api_version: str, kind: str) -> Resource:
        return Resource("apps", "v1", f"{kind.lower()}s", kind)


class Webhook:
    """The reviews of bindings, beside these elastic quotas."""

    def __init__(self, *accounts: Account, labels: dict[str, str] | None = None) -> None:
        self.learned: list[str] = []
        self.namespaces: dict[str, Mapping[str, str]] = {TEAM: {"tenant": "a"}}
        self.looked: list[str] = []
        self.roots: dict[str, Root] = {}
        self.leaves = Leaves(
            roots=lambda: self.roots,
            labels=self.namespaces.get,
            look=self._look,
            on_stored=lambda account: self.learned.append(account.name),
            on_deleted=lambda _place, name, _version: self.learned.remove(name),
        )
        for account in accounts:
            self.leaves.quota_stored(account)
        self.api = Api()
        self.template(labels or {})
        self.stamping = Stamping(self.api.client, cast(Discovery, Kinds()), {}, self.leaves)
        self.holding = Holding(
            stamping=self.stamping,
            is_system="system".__eq__,
            holders=lambda _namespace: [],
            room=lambda _namespace: Room([], Observation().view),
            note=lambda *_: None,
            leaf=self.leaves.account,
            has_leaves=lambda: self.leaves.exist,
        )

    async def _look(self, namespace: str) -> Mapping[str, str]:
        self.looked.append(namespace)
        return {"tenant": "a"}

    def template(self, labels: dict[str, str]) -> None:
        self.api.objects["web"] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": labels}}

    async def review(self, new: dict[str, Any], old: dict[str, Any] | None = None, user: str = "karmada") -> Verdict:
        return await self.holding(_request(new, old, user), 0.0)

    async def stored(
        self, new: dict[str, Any], old: dict[str, Any] | None = None, user: str = "karmada"
    ) -> dict[str, Any]:
        """The document as it would be stored."""
        verdict = await self.review(new, old, user)
        assert verdict.is_allowed, verdict.message
        return patched(new, verdict.patch)

    async def leaf_of(self, new: dict[str, Any], old: dict[str, Any] | None = None) -> str:
        return codec.decode_binding(json.dumps(await self.stored(new, old)).encode()).stamp.leaf


def _request(
    new: dict[str, Any], old: dict[str, Any] | None = None, user: str = "karmada", *, dry_run: bool = False
) -> codec.AdmissionRequest:
    return codec.AdmissionRequest(
        uid="1",
        operation="UPDATE" if old else "CREATE",
        kind=codec.GroupVersionKind(),
        resource=codec.GroupVersionResource(),
        namespace=TEAM,
        name="web-deployment",
        user_info=codec.UserInfo(user),
        dry_run=dry_run,
        object=msgspec.Raw(encode(new)),
        old_object=msgspec.Raw(encode(old)) if old else msgspec.Raw(b"null"),
    )


# Where a binding belongs


async def test_a_new_binding_is_under_the_leaf_of_its_namespace_and_held() -> None:
    webhook = Webhook(composite("team", namespaces=[TEAM]))
    stored = await webhook.stored(NEW)
    assert codec.decode_binding(json.dumps(stored).encode()).stamp == Stamp("", 0, "deployments", leaf="team")
    assert is_held(stored)


async def test_without_elastic_quotas_nothing_is_read_or_held() -> None:
    webhook = Webhook()
    said = changed("spec/replicaRequirements/namespace", TEAM, NEW)  # that it has no priority class
    assert (await webhook.review(said)).patch == ()
    assert webhook.api.reads == []


async def test_a_tenant_has_the_namespaces_that_carry_its_label() -> None:
    webhook = Webhook(composite("tenant-a", namespaceSelector={"matchLabels": {"tenant": "a"}}))
    assert await webhook.leaf_of(NEW) == "tenant-a"
    assert webhook.looked == []


async def test_a_namespace_that_is_not_known_yet_is_looked_at() -> None:
    webhook = Webhook(composite("tenant-a", namespaceSelector={"matchLabels": {"tenant": "a"}}))
    webhook.namespaces.clear()
    assert await webhook.leaf_of(NEW) == "tenant-a"
    assert webhook.looked == [TEAM]


async def test_a_template_names_another_quota_that_is_offered_to_it() -> None:
    offered = composite("lab", offeredTo={"namespaces": [TEAM]})
    webhook = Webhook(composite("team", namespaces=[TEAM]), offered, labels={QUOTA_NAME_LABEL: "lab"})
    assert await webhook.leaf_of(NEW) == "lab"


@pytest.mark.parametrize("named", ["nobody", "lab", "department"])
async def test_a_quota_that_cannot_be_had_is_refused_with_the_reason(named: str) -> None:
    webhook = Webhook(
        composite("team", namespaces=[TEAM], parent="department"),
        composite("lab", namespaces=["b"]),
        composite("department"),  # a parent has no workloads
        labels={QUOTA_NAME_LABEL: named},
    )
    verdict = await webhook.review(NEW)
    assert (verdict.is_allowed, verdict.code) == (False, 403)
    assert named in verdict.message
    with pytest.raises(AssociationError):
        await webhook.leaves.leaf_of(TEAM, named)


async def test_what_falls_under_no_leaf_is_not_touched() -> None:
    webhook = Webhook(composite("lab", namespaces=["b"]))
    stored = await webhook.stored(NEW)
    assert not is_held(stored)
    assert "leaf" not in stored["metadata"]["annotations"][STAMP_ANNOTATION]


async def test_what_costs_the_leaf_nothing_is_not_held() -> None:
    webhook = Webhook(composite("team", namespaces=[TEAM], min={"nvidia.com/gpu": 4}))
    stored = await webhook.stored(NEW)
    assert not is_held(stored)
    assert "team" in stored["metadata"]["annotations"][STAMP_ANNOTATION]


async def test_what_others_suspended_is_theirs() -> None:
    suspended = changed("spec/suspension", {"scheduling": True}, NEW)
    stored = await Webhook(composite("team", namespaces=[TEAM])).stored(suspended)
    assert HELD_LABEL not in stored["metadata"]["labels"]


async def test_a_template_that_cannot_be_read_now_is_asked_for_again() -> None:
    webhook = Webhook(composite("team", namespaces=[TEAM]))
    webhook.api.objects["web"] = error.ApiError(500, "InternalError")
    assert (await webhook.review(NEW)).code == 429


async def test_the_binding_says_whether_its_template_may_be_displaced() -> None:
    webhook = Webhook(composite("team", namespaces=[TEAM]), labels={PREEMPTIBLE_LABEL: "false"})
    kept = await webhook.stored(NEW)
    assert not codec.decode_binding(json.dumps(kept).encode()).is_preemptible
    webhook.template({})
    freed = changed("spec/resource/resourceVersion", "4701", kept)
    assert codec.decode_binding(json.dumps(await webhook.stored(freed, kept)).encode()).is_preemptible


# Where it stays


async def test_the_scheduler_finds_the_leaf_as_it_was_and_costs_no_read() -> None:
    webhook = Webhook(composite("team", namespaces=[TEAM]), composite("lab", offeredTo={"namespaces": [TEAM]}))
    old = stamped(NEW, "lab")
    assert await webhook.leaf_of(changed("spec/clusters", [{"name": "m1", "replicas": 5}], old), old) == "lab"
    assert webhook.api.reads == []


async def test_what_runs_stays_where_it_is_when_its_namespace_moves() -> None:
    webhook = Webhook(composite("lab", namespaces=[TEAM]))
    old = stamped(BINDING, "team")
    assert await webhook.leaf_of(changed("spec/resource/resourceVersion", "4701", old), old) == "team"
    plain = stamped(BINDING, "")
    assert await webhook.leaf_of(changed("spec/resource/resourceVersion", "4701", plain), plain) == ""


async def test_what_runs_moves_when_its_template_names_another_quota() -> None:
    team, lab = composite("team", namespaces=[TEAM]), composite("lab", offeredTo={"namespaces": [TEAM]})
    webhook = Webhook(team, lab, labels={QUOTA_NAME_LABEL: "lab"})
    old = stamped(BINDING, "team")
    stored = await webhook.stored(changed("spec/resource/resourceVersion", "4701", old), old)
    assert codec.decode_binding(json.dumps(stored).encode()).stamp.leaf == "lab"
    assert not is_held(stored)  # it has clusters: the leaf's account says whether it may


async def test_what_runs_is_not_refused_because_the_quota_that_it_names_is_gone() -> None:
    webhook = Webhook(composite("lab", namespaces=["b"]), labels={QUOTA_NAME_LABEL: "team"})
    old = stamped(BINDING, "team")
    assert await webhook.leaf_of(changed("spec/resource/resourceVersion", "4701", old), old) == "team"


async def test_what_has_no_clusters_comes_under_its_leaf_when_it_is_written_again() -> None:
    webhook = Webhook(composite("lab", namespaces=[TEAM]))
    for known in ("", "gone"):
        old = stamped(NEW, known)
        stored = await webhook.stored(changed("spec/replicas", 6, old), old)
        assert codec.decode_binding(json.dumps(stored).encode()).stamp.leaf == "lab"
        assert is_held(stored)


async def test_what_waits_goes_along_when_its_namespace_comes_under_another_quota() -> None:
    webhook = Webhook(
        composite("blue", namespaceSelector={"matchLabels": {"tenant": "blue"}}),
        composite("a", namespaceSelector={"matchLabels": {"tenant": "a"}}),
    )
    old = stamped(NEW, "blue")
    assert await webhook.leaf_of(changed("spec/replicas", 6, old), old) == "a"
    running = stamped(BINDING, "blue")
    moved = changed("spec/resource/resourceVersion", "4701", running)
    assert await webhook.leaf_of(moved, running) == "blue", "what runs stays"


async def test_what_was_let_go_is_not_held_again() -> None:
    webhook = Webhook(composite("team", namespaces=[TEAM]))
    held = await webhook.stored(NEW)
    held["metadata"]["resourceVersion"] = "4711"
    let_go = changed("spec/suspension/scheduling", False, held)
    del let_go["metadata"]["labels"][HELD_LABEL]
    assert not is_held(await webhook.stored(let_go, held, user="system"))
    assert (await webhook.review(let_go, held)).code == 403


async def test_a_leaf_that_is_gone_hands_on_what_waited_for_it() -> None:
    webhook = Webhook(composite("lab", namespaces=[TEAM]))
    held = await webhook.stored(NEW)
    held["metadata"]["resourceVersion"] = "4711"
    orphan = copy.deepcopy(held)
    orphan["metadata"]["annotations"][STAMP_ANNOTATION] = Stamp("", 0, "deployments", leaf="gone").encode()
    let_go = changed("spec/suspension/scheduling", False, orphan)
    del let_go["metadata"]["labels"][HELD_LABEL]
    stored = await webhook.stored(let_go, orphan, user="system")
    assert is_held(stored)
    assert codec.decode_binding(json.dumps(stored).encode()).stamp.leaf == "lab"


# Which quotas are accounts


def test_a_parent_is_no_account_until_its_tree_makes_it_the_default_group() -> None:
    webhook = Webhook(composite("department"))
    assert webhook.learned == []
    webhook.roots = {"default": read_root({"metadata": {"name": "default"}, "spec": {"defaultGroup": "department"}})}
    webhook.leaves.quota_stored(composite("department", version=2))
    assert webhook.learned == ["department"]
    assert asyncio.run(webhook.leaves.leaf_of("anywhere")) == "department"


def test_a_parent_that_was_charged_before_still_is() -> None:
    joined = replace(composite("department"), joined=frozenset({("one", "s")}))
    assert Webhook(joined).learned == ["department"]


def test_an_outline_knows_whether_there_are_clusters() -> None:
    for value, has_clusters in (([{"name": "m1"}], True), ([], False), (None, False), (..., False)):
        document = changed("spec/clusters", value)
        assert outline.decode(msgspec.Raw(encode(document))).has_clusters is has_clusters


# What the leaf refuses


class Judge:
    """An accountant that answers so."""

    def __init__(self, answer: Answer) -> None:
        self.told = answer
        self.asks: list[Mapping[str, Ask]] = []

    def accounts(self, _place: str) -> list[Account]:
        return []

    async def answer(self, asks: Mapping[str, Ask], **_options: object) -> Answer:
        self.asks.append(asks)
        return self.told


DENIED = Denied(Denial("team", [Exceeded("cpu", parse("1"), parse("4"), parse("4"))], domain.of_leaf("team")))


@pytest.mark.parametrize(("dry_run", "is_noted"), [(False, True), (True, False)])
async def test_what_a_leaf_refuses_becomes_an_ask_and_waits_for_no_other_quota(dry_run: bool, is_noted: bool) -> None:
    asked: list[tuple[str, str]] = []
    waiting: list[str] = []
    review = BindingReview(
        cast(Accountant, Judge(DENIED)),
        "system".__eq__,
        would_hold=lambda _new, _old, _quota: True,  # a KarmadaQuota may have the leaf's name
        note=lambda _place, quota, *_: waiting.append(quota),
        note_ask=lambda name, new: asked.append((name, str(new.assigned["cpu"]))),
    )
    old = stamped(BINDING, "team")
    new = changed("spec/clusters", [{"name": "m1", "replicas": 5}], old)
    verdict = await review(_request(new, old, dry_run=dry_run), 0.0)
    assert (verdict.code, verdict.reason) == (403, "QuotaExceeded")
    assert asked == ([("team", "1250m")] if is_noted else [])
    assert waiting == []


async def test_the_leaf_is_asked_for_what_is_given_and_told_what_is_asked_for() -> None:
    judge, place = Judge(Allowed()), domain.of_leaf("team")
    review = BindingReview(cast(Accountant, judge), "system".__eq__)
    old = stamped(BINDING, "team")
    await review(_request(changed("spec/replicas", 9, old), old), 0.0)
    assert [asks.keys() for asks in judge.asks] == [{TEAM, place}]
    asked = judge.asks[0][place]
    assert asked.new.charge["cpu"] == asked.old.charge["cpu"]
    assert asked.new.charge["admission.cpu"] == parse("2250m")
    await review(_request(changed("spec/clusters", [{"name": "m1", "replicas": 5}], old), old), 0.0)
    assert judge.asks[-1].keys() == {place}


async def test_what_a_leaf_does_not_take_in_is_no_ask() -> None:
    asked: list[str] = []
    denial = Denial("team", [Exceeded("admission.cpu", parse("1"), parse("4"), parse("4"))], domain.of_leaf("team"))
    review = BindingReview(
        cast(Accountant, Judge(Denied(denial))), "system".__eq__, note_ask=lambda name, _new: asked.append(name)
    )
    verdict = await review(_request(stamped(NEW, "team")), 0.0)
    assert (verdict.code, asked) == (403, [])


# Asks


class Asking:
    def __init__(self) -> None:
        self.shelf = QuotaShelf()
        self.shelf.on_stored = [self._learn]
        self.bindings = BindingMirror(Observation())
        start = datetime(2026, 1, 1, tzinfo=UTC)
        self.asks = AskList(
            self.shelf.accounts.get,
            self.bindings,
            self.shelf,
            now=lambda: start + timedelta(seconds=asyncio.get_running_loop().time()),
        )

    def _learn(self, account: Account) -> None:
        self.asks.learn(account)

    def refuse(self, replicas: int = 5, name: str = "web-deployment") -> None:
        document = changed("metadata/name", name, changed("spec/clusters", [{"name": "m1", "replicas": replicas}]))
        self.asks.note("team", codec.decode_binding(encode(document)))

    @property
    def listed(self) -> tuple[Wish, ...]:
        return leaf.asks(self.shelf.accounts["team"])

    def strike(self) -> None:
        self.shelf.put(leaf.with_asks(self.shelf.accounts["team"], ()))


def stored() -> Binding:
    return codec.decode_binding(encode(BINDING))


@asynccontextmanager
async def asking() -> AsyncIterator[Asking]:
    one = Asking()
    one.bindings.upsert(stored())
    one.shelf.put(composite("team", runtime={"cpu": "4"}))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(one.asks.run())
        yield one
        running.cancel()


@in_simulated_time
async def test_a_refusal_is_written_with_all_that_it_would_have_cost_and_until_when() -> None:
    async with asking() as one:
        one.refuse()
        await asyncio.sleep(1)
        [wish] = one.listed
        assert wish.binding == f"{TEAM}/web-deployment"
        assert wish.charge["cpu"] == parse("1250m")
        assert wish.until == "2026-01-01T00:20:00Z"
        account = one.shelf.accounts["team"]
        assert str(account.limits["cpu"]) == "4", "and nothing else is changed by it"


@in_simulated_time
async def test_many_refusals_are_one_write_and_who_is_refused_again_costs_none() -> None:
    async with asking() as one:
        for number in range(50):
            one.refuse(name=f"b{number}")
        await asyncio.sleep(1)
        assert (one.shelf.writes, len(one.listed)) == (1, 50)
        for _ in range(5):
            one.refuse(name="b7")
            await asyncio.sleep(20)
        assert one.shelf.writes == 1
        one.refuse(6, name="b7")
        await asyncio.sleep(1)
        assert one.shelf.writes == 2, "it wants more than before"


@in_simulated_time
async def test_an_ask_that_goes_on_is_renewed_before_it_ends() -> None:
    async with asking() as one:
        one.refuse()
        await asyncio.sleep(0.6 * LASTS_SECONDS)
        one.refuse()
        await asyncio.sleep(1)
        assert one.shelf.writes == 2
        assert one.listed[0].until > "2026-01-01T00:30:00Z"


@in_simulated_time
async def test_what_is_struck_off_on_account_of_something_older_is_written_once_more() -> None:
    async with asking() as one:
        one.refuse()
        await asyncio.sleep(1)
        one.strike()
        await asyncio.sleep(1)
        assert len(one.listed) == 1
        one.strike()
        await asyncio.sleep(1)
        assert not one.listed, "whoever strikes it off again has seen it"


@in_simulated_time
async def test_who_has_got_it_or_is_long_refused_is_not_written_again() -> None:
    async with asking() as one:
        one.refuse()
        await asyncio.sleep(1)
        got = changed("metadata/resourceVersion", "5000", changed("spec/clusters", [{"name": "m1", "replicas": 5}]))
        one.bindings.upsert(codec.decode_binding(encode(got)))
        one.strike()
        await asyncio.sleep(1)
        assert not one.listed
    async with asking() as one:
        one.refuse()
        await asyncio.sleep(REMEMBERED_SECONDS + 1)
        one.strike()
        await asyncio.sleep(1)
        assert not one.listed


@in_simulated_time
async def test_a_conflict_is_tried_again_and_a_leaf_that_is_gone_is_not() -> None:
    async with asking() as one:
        one.shelf.conflicts = 3
        one.refuse()
        await asyncio.sleep(3)
        assert len(one.listed) == 1
    async with asking() as one:
        one.shelf.accounts.clear()
        one.refuse()
        await asyncio.sleep(3)
        assert one.shelf.writes == 0
