"""Reviews of elastic quotas and trees: beside what is stored, what is on its way, and what was not seen yet."""

import json
from typing import Any

import msgspec
import pytest

from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.kube import codec
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS, QUOTA_TREES
from tests.unit.forests import Mirror, Shared, deliberation
from tests.unit.reviews import soon
from webhook.elastic import ElasticReview
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


async def test_of_two_that_fit_only_one_by_one_the_second_comes_again() -> None:
    mirror = Mirror(parent())
    asked = review(mirror)
    assert (await ask(asked, child("a", 6))).is_allowed
    second = await ask(asked, child("b", 6))
    assert second.code == 429, "the first may still be refused by somebody else: this is no refusal"
    mirror.see(child("a", 6))
    assert (await ask(asked, child("b", 6))).code == 422
    assert (await ask(asked, child("c", 4))).is_allowed


async def test_a_dry_run_leaves_nothing_behind() -> None:
    asked = review(Mirror(parent()))
    assert (await ask(asked, child("a", 6), dry_run=True)).is_allowed
    assert (await ask(asked, child("b", 6))).is_allowed


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
