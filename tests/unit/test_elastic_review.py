"""Reviews of elastic quotas and trees: beside what is stored, what is on its way, and what was not seen yet."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.elastic.underway import WRITE_SECONDS
from federation_quota.kube import codec, error
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS, QUOTA_TREES
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp
from tests.conformance.bookstore import in_simulated_time
from tests.unit.forests import Mirror, Shared, Shelf, deliberation
from tests.unit.reviews import soon
from webhook.elastic import ElasticReview
from webhook.namespaces import NamespaceReview, runs_uncharged
from webhook.review import Verdict

Object = dict[str, Any]
SYSTEM = "system"
PLURALS = {one.kind: one.plural for one in (ELASTIC_QUOTAS, COMPOSITE_ELASTIC_QUOTAS, QUOTA_TREES)}


def quota(kind: str, name: str, *, generation: int = 1, status: Object | None = None, **spec: object) -> Object:
    metadata: Object = {"name": name, "uid": f"uid-{name}", "generation": generation}
    if kind == ELASTIC:
        metadata["namespace"] = name
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": status or {}}


def parent(name: str = "dept", cpu: int = 10, **spec: Any) -> Object:  # noqa: ANN401 # as quota's
    return quota(COMPOSITE, name, min={"cpu": cpu}, **spec)


def child(name: str, cpu: int, **more: Any) -> Object:  # noqa: ANN401 # as quota's
    return quota(ELASTIC, name, min={"cpu": cpu}, parent="dept", **more)


def review(mirror: Mirror, shared: Shared | None = None, **more: Any) -> ElasticReview:  # noqa: ANN401 # its fields
    fields = {"is_busy": lambda _namespace: False, **more}
    return ElasticReview(mirror, deliberation(mirror, shared), SYSTEM.__eq__, **fields)


async def ask(
    asked: ElasticReview,
    new: Object | None,
    old: Object | None = None,
    *,
    user: str = "admin",
    groups: tuple[str, ...] = (),
    dry_run: bool = False,
    sub_resource: str = "",
) -> Verdict:
    document = new or old
    assert document is not None
    operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    raw = [msgspec.Raw(json.dumps(one).encode()) for one in (new, old)]
    request = codec.AdmissionRequest(
        uid="u",
        operation=operation,
        kind=codec.GroupVersionKind(),
        resource=codec.GroupVersionResource("quota.karmada.io", "v1alpha1", PLURALS[document["kind"]]),
        sub_resource=sub_resource,
        namespace=document["metadata"].get("namespace", ""),
        name=document["metadata"]["name"],
        user_info=codec.UserInfo(user, groups),
        dry_run=dry_run,
        object=raw[0],
        old_object=raw[1],
    )
    return await asked(request, soon())


async def test_what_fits_is_let_through_without_reading_anything_anew() -> None:
    mirror = Mirror(parent())
    assert (await ask(review(mirror), child("a", 10))).is_allowed
    assert mirror.refreshes == 0


async def test_what_does_not_fit_is_refused_as_a_whole_and_each_fault_is_named() -> None:
    verdict = await ask(review(Mirror(parent())), child("a", 11))
    assert (verdict.code, verdict.reason) == (422, "Invalid")
    assert verdict.message.startswith('ElasticQuota.quota.karmada.io "a/a" is invalid: spec.min[cpu]: Invalid value')
    assert [cause["field"] for cause in verdict.causes] == ["spec.min[cpu]"]
    wrong = quota(ELASTIC, "a", min={"cpu": "NaN"}, max={"cpu": -1}, parent="nobody")
    causes = (await ask(review(Mirror()), wrong)).causes
    assert [cause["field"] for cause in causes] == ["spec.min[cpu]", "spec.max[cpu]"]


async def test_nobody_is_refused_for_what_this_replica_has_not_seen_yet() -> None:
    mirror = Mirror()
    mirror.late = [parent()]
    assert (await ask(review(mirror), child("a", 10))).is_allowed
    assert mirror.refreshes == 1


async def test_where_nothing_can_be_read_anew_the_answer_is_later() -> None:
    mirror = Mirror()
    mirror.can_refresh = False
    assert (await ask(review(mirror), child("a", 10))).code == 429
    mirror.reflectors[0].synced.clear()
    assert (await ask(review(mirror), parent())).code == 429


@in_simulated_time
async def test_of_two_that_fit_only_one_by_one_the_second_comes_again() -> None:
    mirror = Mirror(parent())
    asked = review(mirror)
    assert (await ask(asked, child("a", 6))).is_allowed
    second = await ask(asked, child("b", 6))
    assert second.code == 429, "the first may still be refused by somebody else: this is no refusal"
    mirror.see(child("a", 6))
    assert (await ask(asked, child("b", 6))).code == 422
    assert (await ask(asked, child("c", 4))).is_allowed


@in_simulated_time
async def test_whichever_replica_let_the_first_through_the_second_comes_again() -> None:
    shelf = Shelf()
    here, there = Mirror(parent()), Mirror(parent())
    first, second = review(here, Shared(shelf)), review(there, Shared(shelf))
    assert (await ask(first, child("a", 6))).is_allowed
    assert (await ask(second, child("b", 6))).code == 429
    assert (await ask(second, child("c", 4))).is_allowed, "which fits beside either"
    there.see(child("a", 6))
    assert (await ask(second, child("b", 6))).code == 422


@in_simulated_time
async def test_what_may_not_go_is_still_there() -> None:
    """A deletion that was let through may be refused by somebody else: its room is given to nobody yet."""
    mirror = Mirror(parent(), child("a", 6))
    asked = review(mirror)
    assert (await ask(asked, None, child("a", 6))).is_allowed
    assert (await ask(asked, child("b", 6))).code == 422
    mirror.lose(child("a", 6))
    assert (await ask(asked, child("b", 6))).is_allowed


@in_simulated_time
async def test_what_is_struck_off_is_known_to_whoever_is_behind() -> None:
    shelf = Shelf()
    here, there = Mirror(parent()), Mirror(parent())
    assert (await ask(review(here, Shared(shelf)), child("a", 6))).is_allowed
    here.see(child("a", 6), version=7)
    assert (await ask(review(here, Shared(shelf)), child("c", 1))).is_allowed
    late = Shared(shelf)
    await late.look(0)
    assert late.current.observed == {ELASTIC: 7}
    there.late = [child("a", 6)]
    assert (await ask(review(there, late), child("b", 6))).code == 422
    assert there.refreshes == 2, "to catch up, and before the refusal"


@in_simulated_time
async def test_what_never_comes_stands_in_the_way_as_long_as_it_could() -> None:
    mirror = Mirror(parent())
    asked = review(mirror)
    assert (await ask(asked, child("a", 6))).is_allowed
    await asyncio.sleep(WRITE_SECONDS - 5)
    assert (await ask(asked, child("b", 6))).code == 429
    await asyncio.sleep(6)
    assert (await ask(asked, child("b", 6))).is_allowed


async def test_where_nobody_can_be_told_the_answer_is_later() -> None:
    shelf = Shelf()
    asked = review(Mirror(parent()), Shared(shelf))
    shelf.problem = error.NoAnswerError("cut off")
    assert (await ask(asked, child("a", 6))).code == 429
    assert (await ask(asked, child("a", 6), dry_run=True)).is_allowed
    shelf.problem = None
    long = quota(COMPOSITE, "long", namespaces=[f"{'n' * 50}-{number}" for number in range(4000)])
    assert "under way" in (await ask(asked, long)).message


async def test_what_exists_already_is_said_to_and_nobody_waits_for_it() -> None:
    mirror = Mirror(parent(), child("a", 6))
    shared = Shared()
    again = {**child("a", 1), "metadata": {**child("a", 1)["metadata"], "uid": "another"}}
    refused = await ask(review(mirror, shared), again)
    assert (refused.code, refused.message) == (409, 'elasticquotas.quota.karmada.io "a" already exists')
    assert shared.current.changes == ()


async def test_a_dry_run_leaves_nothing_behind() -> None:
    asked = review(Mirror(parent()))
    assert (await ask(asked, child("a", 6), dry_run=True)).is_allowed
    assert (await ask(asked, child("b", 6))).is_allowed


@in_simulated_time
async def test_a_child_does_not_slip_below_a_parent_that_is_being_deleted() -> None:
    asked = review(Mirror(parent()))
    assert (await ask(asked, None, parent())).is_allowed
    assert (await ask(asked, child("a", 1))).code == 429


async def test_a_parent_with_quotas_below_it_and_a_quota_in_use_stay() -> None:
    used = child("a", 1, status={"used": {"cpu": "1"}})
    asked = review(Mirror(parent(), used))
    assert "a/a below it" in (await ask(asked, None, parent())).message
    assert "has workloads" in (await ask(asked, None, used)).message


async def test_a_quota_in_use_goes_with_its_namespace() -> None:
    used = child("a", 1, status={"used": {"cpu": "1"}})
    going = {"kind": "Namespace", "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert (await ask(review(Mirror(parent(), used, going)), None, used)).is_allowed


async def test_what_does_not_change_a_specification_is_not_judged_again() -> None:
    lost = child("a", 99)
    assert (await ask(review(Mirror(lost)), {**lost, "status": {"held": 1}}, lost)).is_allowed


async def test_a_quota_that_cannot_be_read_can_be_mended() -> None:
    """An old object that makes no sense keeps nobody from storing one that does."""
    broken = quota(ELASTIC, "a", min={"cpu": "lots"}, parent="dept")
    assert (await ask(review(Mirror(parent())), child("a", 1, generation=2), broken)).is_allowed


async def test_the_default_group_is_for_workloads_and_no_parent() -> None:
    tree = quota("QuotaTree", "default", defaultGroup="rest")
    rest = quota(COMPOSITE, "rest", min={"cpu": 1})
    asked = review(Mirror(rest))
    assert (await ask(asked, tree)).is_allowed
    below = {**child("a", 0), "spec": {"parent": "rest"}}
    refused = await ask(review(Mirror(rest, tree)), below)
    assert "is a quota for workloads" in refused.message


async def test_a_default_group_in_use_stays_one() -> None:
    tree = quota("QuotaTree", "default", defaultGroup="rest")
    other = quota("QuotaTree", "default", generation=2, defaultGroup="team")
    rest = quota(COMPOSITE, "rest", min={"cpu": 1}, status={"held": 1})
    team = quota(COMPOSITE, "team", namespaces=["a"])
    for new in (other, None):
        refused = await ask(review(Mirror(rest, team, tree)), new, tree)
        assert [cause["field"] for cause in refused.causes] == ["spec.defaultGroup"]
        assert "rest has workloads, and would be a parent" in refused.message
    idle = quota(COMPOSITE, "rest", min={"cpu": 1})
    assert (await ask(review(Mirror(idle, team, tree)), other, tree)).is_allowed


async def test_a_tree_is_made_before_its_quotas_and_goes_after_them() -> None:
    tree = quota("QuotaTree", "gpus", total={"cpu": 5})
    inside = quota(COMPOSITE, "team", tree="gpus", namespaces=["a"], min={"cpu": 1})
    assert "no such QuotaTree" in (await ask(review(Mirror()), inside)).message
    assert (await ask(review(Mirror(tree)), inside)).is_allowed
    assert "has team in it" in (await ask(review(Mirror(tree, inside)), None, tree)).message


async def test_a_quota_that_promises_nothing_is_let_through_with_a_word() -> None:
    verdict = await ask(review(Mirror()), quota(ELASTIC, "a"))
    assert verdict.is_allowed
    assert "names no resource" in verdict.warnings[0]


@pytest.mark.parametrize("kind", [ELASTIC, COMPOSITE, "QuotaTree"])
async def test_a_status_is_the_systems_alone(kind: str) -> None:
    one = quota(kind, "a")
    refused = await ask(review(Mirror(one)), one, one, sub_resource="status")
    assert (refused.code, f"the status of a {kind}" in refused.message) == (403, True)
    assert (await ask(review(Mirror(one)), one, one, sub_resource="status", user=SYSTEM)).is_allowed


# Managers

DEPARTMENT = parent(
    managers=[{"kind": "User", "name": "ann"}, {"kind": "Group", "name": "leads"}],
    managedNamespaces={"namespaces": ["a", "b"]},
)


@pytest.mark.parametrize(("user", "groups"), [("ann", ()), ("bob", ("leads",))])
async def test_a_manager_makes_changes_and_deletes_what_is_below(user: str, groups: tuple[str, ...]) -> None:
    asked = review(Mirror(DEPARTMENT, child("a", 1)), is_for_managers=True)
    assert (await ask(asked, child("b", 1), user=user, groups=groups)).is_allowed
    assert (await ask(asked, child("a", 2, generation=2), child("a", 1), user=user, groups=groups)).is_allowed
    assert (await ask(asked, None, child("a", 1), user=user, groups=groups)).is_allowed


async def test_a_manager_changes_neither_their_own_node_nor_anything_else() -> None:
    outside = quota(ELASTIC, "a", min={"cpu": 1})
    asked = review(Mirror(DEPARTMENT, outside, child("b", 1)), is_for_managers=True)
    raised = {**DEPARTMENT, "spec": {**DEPARTMENT["spec"], "min": {"cpu": 99}}}
    for new, old in ((raised, DEPARTMENT), (None, outside), (child("a", 1), outside), (outside, None)):
        refused = await ask(asked, new, old, user="ann")
        assert (refused.code, "spec.managers" in refused.message) == (403, True)
    labelled = {**outside, "metadata": {**outside["metadata"], "labels": {"mine": "now"}}}
    assert (await ask(asked, labelled, outside, user="ann")).code == 403, "nor its labels"
    assert (await ask(asked, child("b", 2), child("b", 1), user="eve")).code == 403


async def test_a_manager_claims_no_namespace_that_was_not_assigned_to_their_node() -> None:
    asked = review(Mirror(DEPARTMENT, child("kept", 1)), is_for_managers=True)
    refused = await ask(asked, child("c", 1), user="ann")
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        "'ann' is no administrator of quotas, and namespace c was not assigned to them in spec.managedNamespaces "
        "of a quota above 'c/c'"
    )
    everything = quota(COMPOSITE, "mine", parent="dept", namespaceSelector={})
    assert "every namespace that its selector takes" in (await ask(asked, everything, user="ann")).message
    assert (await ask(asked, child("kept", 2, generation=2), child("kept", 1), user="ann")).is_allowed, "it has it"
    assert (await ask(review(Mirror(DEPARTMENT)), child("c", 1))).is_allowed, "administrators claim what they like"


async def test_a_manager_keeps_to_the_rules() -> None:
    asked = review(Mirror(DEPARTMENT), is_for_managers=True)
    assert (await ask(asked, child("a", 11), user="ann")).code == 422


async def test_who_was_made_manager_a_moment_ago_is_one() -> None:
    mirror = Mirror(parent())
    mirror.late = [DEPARTMENT]
    assert (await ask(review(mirror, is_for_managers=True), child("a", 1), user="ann")).is_allowed


# Trees in use, and namespaces


async def test_a_namespace_in_which_something_runs_stays_in_the_system_group() -> None:
    tree = quota("QuotaTree", "default", systemGroup={"namespaces": ["logging"]})
    bare = quota("QuotaTree", "default", generation=2)
    stored = (tree, quota(COMPOSITE, "team", namespaces=["a"]))
    asked = review(Mirror(*stored), is_busy={"logging"}.__contains__)
    for new in (bare, None):
        refused = await ask(asked, new, tree)
        assert "logging cannot leave the system group of tree default while workloads run there" in refused.message
    assert (await ask(review(Mirror(*stored)), bare, tree)).is_allowed


def labelling(name: str, new: dict[str, str], old: dict[str, str] | None) -> codec.AdmissionRequest:
    def document(labels: dict[str, str]) -> msgspec.Raw:
        return msgspec.Raw(json.dumps({"metadata": {"name": name, "labels": labels}}).encode())

    return codec.AdmissionRequest(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        kind=codec.GroupVersionKind(),
        resource=codec.GroupVersionResource("", "v1", "namespaces"),
        name=name,
        object=document(new),
        old_object=msgspec.Raw(b"null") if old is None else document(old),
    )


BLUE = quota(COMPOSITE, "blue", namespaceSelector={"matchLabels": {"tenant": "blue"}})
BIG = quota(COMPOSITE, "big", namespaceSelector={"matchLabels": {"size": "big"}})


async def test_a_namespace_is_labelled_into_one_quota_at_most() -> None:
    mirror = Mirror(BLUE, BIG)
    asked = NamespaceReview(deliberation(mirror), lambda _namespace: False)
    both = {"tenant": "blue", "size": "big"}
    for old in (None, {}, {"tenant": "blue"}):
        refused = await asked(labelling("n", both, old), soon())
        assert (refused.code, [cause["field"] for cause in refused.causes]) == (422, ["metadata.labels"])
        assert "n would fall under the quotas big, blue: a namespace has one quota" in refused.message
    assert (await asked(labelling("n", {"size": "big"}, {"tenant": "blue"}), soon())).is_allowed
    assert (await asked(labelling("n", both, {**both, "note": "x"}), soon())).is_allowed


@in_simulated_time
async def test_a_namespace_waits_for_a_quota_that_is_under_way() -> None:
    mirror, shared = Mirror(BLUE), Shared()
    assert (await ask(review(mirror, shared), BIG)).is_allowed
    asked = NamespaceReview(deliberation(mirror, shared), lambda _namespace: False)
    assert (await asked(labelling("n", {"tenant": "blue", "size": "big"}, {}), soon())).code == 429
    assert (await asked(labelling("n", {"size": "big"}, {}), soon())).is_allowed


async def test_namespaces_are_nobodys_business_before_quotas_are_known() -> None:
    mirror = Mirror(BLUE, BIG)
    mirror.reflectors[0].synced.clear()
    asked = NamespaceReview(deliberation(mirror), lambda _namespace: False)
    assert (await asked(labelling("n", {"tenant": "blue", "size": "big"}, {}), soon())).is_allowed


@pytest.mark.parametrize(
    ("assigned", "leaf", "is_busy"),
    [({"cpu": 1}, "", True), ({"cpu": 1}, "team", False), ({}, "", False), ({"count/configmaps": 1}, "", False)],
)
def test_what_runs_uncharged_keeps_a_namespace_busy(assigned: dict[str, int], leaf: str, is_busy: bool) -> None:
    mirror = BindingMirror(Observation())
    template = TemplateRef("apps/v1", "Deployment", "logging", "web")
    key, given = ObjectKey("logging", "web"), Resources.parse(assigned)
    mirror.upsert(Binding(key, "u", 1, template, assigned=given, stamp=Stamp(leaf=leaf)))
    assert runs_uncharged(mirror, "logging") is is_busy
    assert not runs_uncharged(mirror, "other")
