"""KarmadaQuota on the real federation: what users see when something fits, and when it does not.

The first four are Karmada's own end-to-end cases for its quota, with our outcome: what is refused is refused before
anything is bound, and nothing of it reaches a member.
"""

import json
from typing import Any

import pytest

from bench.admission import load
from federation_quota.stamp import STAMP_ANNOTATION, Stamp, decode
from localfed.kubectl import KubectlError
from tests.federation.manifests import DIVIDED, DUPLICATED, classes, deployment, policy, quota
from tests.federation.stage import Stage, eventually
from tests.federation.test_concurrency import binding

pytestmark = pytest.mark.federation


def test_what_fits_exactly_is_deployed_and_counted(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "10m", "memory": "100Mi"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 1, "10m"))
    eventually(lambda: sum(stage.in_members("web").values()) == 1)
    eventually(lambda: stage.used("q") == {"cpu": "10m", "memory": "0"})
    eventually(lambda: stage.status("q")["reservations"] == [], what="the admission is settled")
    listed = stage.kubectl("get", "karmadaquota").splitlines()
    assert listed[0].split() == ["NAME", "REQUEST", "EXCEEDED", "AGE"]
    assert "cpu: 10m/10m, memory: 0/100Mi" in listed[1]


def test_a_larger_request_is_refused_and_the_binding_stays(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "10m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 1, "10m"))
    eventually(lambda: sum(stage.in_members("web").values()) == 1)
    stage.apply(deployment("web", 1, "20m"))
    text = "exceeded quota: q, requested: cpu=10m, used: cpu=10m, limited: cpu=10m"
    eventually(lambda: stage.is_refused("web", text), what="Karmada has our text")
    binding = stage.binding("web")
    assert binding is not None
    assert binding["spec"]["replicaRequirements"]["resourceRequest"] == {"cpu": "10m"}
    eventually(lambda: stage.used("q") == {"cpu": "10m"})


def test_a_second_deployment_is_refused_and_arrives_when_the_first_goes(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "10m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("first", 1, "10m"))
    eventually(lambda: sum(stage.in_members("first").values()) == 1)
    stage.apply(deployment("second", 1, "10m"))
    eventually(lambda: stage.is_refused("second", "exceeded quota: q"))
    assert stage.binding("second") is None
    assert stage.in_members("second") == {}
    stage.delete("deployment", "first")
    eventually(lambda: sum(stage.in_members("second").values()) == 1, what="the second arrives")
    eventually(lambda: stage.used("q") == {"cpu": "10m"})


def test_scaling_up_beyond_the_limit_leaves_everything_as_it_was(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "10m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 1, "10m"))
    eventually(lambda: sum(stage.in_members("web").values()) == 1)
    before = stage.in_members("web")
    stage.kubectl("scale", "deployment", "web", "--replicas=2")
    eventually(lambda: stage.is_refused("web", "requested: cpu=10m, used: cpu=10m"))
    assert sum(stage.clusters("web").values()) == 1
    assert stage.in_members("web") == before


def test_a_duplicated_policy_costs_every_copy_and_is_refused_when_scheduled(stage: Stage) -> None:
    """Each of two members would get all three: what was asked fits, what it comes to does not."""
    stage.apply(quota("q", {"cpu": "500m"}), policy(DUPLICATED))
    stage.quota_active("q")
    stage.apply(deployment("web", 3))

    def scheduled_reason() -> str:
        conditions = ((stage.binding("web") or {}).get("status") or {}).get("conditions") or []
        return next((one["reason"] for one in conditions if one["type"] == "Scheduled"), "")

    eventually(lambda: scheduled_reason() == "QuotaExceeded")
    assert stage.clusters("web") == {}
    assert stage.in_members("web") == {}
    assert stage.has_event("web", "ScheduleBindingFailed", "exceeded quota: q, requested: cpu=300m, used: cpu=300m")
    assert stage.used("q") == {"cpu": "300m"}, "what was asked stays reserved"


def test_deleting_and_scaling_down_give_back(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1", "count/deployments.apps": "5"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 8), deployment("other", 1))
    eventually(lambda: stage.used("q") == {"cpu": "900m", "count/deployments.apps": "2"})
    stage.kubectl("scale", "deployment", "web", "--replicas=2")
    eventually(lambda: stage.used("q") == {"cpu": "300m", "count/deployments.apps": "2"})
    stage.delete("deployment", "web")
    eventually(lambda: stage.used("q") == {"cpu": "100m", "count/deployments.apps": "1"})


def test_a_binding_that_is_being_deleted_cannot_grow_and_nothing_else_stands_in_its_way(stage: Stage) -> None:
    """Karmada's detector may well scale one whose template has just gone, while its finalizers are still there."""
    stage.apply(quota("q", {"pods": "3"}))
    stage.quota_active("q")
    leaving = binding("leaving", stage.namespace, 2)
    leaving["metadata"]["finalizers"] = ["test.quota.karmada.io/wait"]
    stage.apply(leaving)
    eventually(lambda: stage.used("q") == {"pods": "2"})
    stage.kubectl("delete", "resourcebinding", "leaving", "--wait=false")
    patch = ["patch", "resourcebinding", "leaving", "--type=merge", "-p"]
    with pytest.raises(KubectlError, match=r"exceeded quota: q, requested: pods=2, used: pods=2, limited: pods=3"):
        stage.kubectl(*patch, json.dumps({"spec": {"replicas": 4}}))
    stage.kubectl(*patch, json.dumps({"spec": {"replicas": 1}}))
    stage.kubectl(*patch, json.dumps({"metadata": {"finalizers": None}}))
    assert stage.get("resourcebinding", "leaving") is None
    eventually(lambda: stage.used("q") == {"pods": "0"})


def test_a_limit_lowered_below_use_refuses_increases_and_lets_decreases_through(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 8))
    eventually(lambda: sum(stage.in_members("web").values()) == 8)
    stage.apply(quota("q", {"cpu": "500m"}))
    eventually(lambda: stage.status("q").get("exceeded") == "cpu", what="the quota says what is exceeded")
    stage.kubectl("scale", "deployment", "web", "--replicas=9")
    eventually(lambda: stage.is_refused("web", "exceeded quota: q"))
    stage.kubectl("scale", "deployment", "web", "--replicas=7")
    eventually(lambda: sum(stage.in_members("web").values()) == 7, what="a smaller one, though still over")
    stage.apply(quota("q", {"cpu": "2"}))
    eventually(lambda: stage.status("q").get("exceeded") == "")


def test_two_quotas_with_different_scopes_and_a_binding_that_changes_class(stage: Stage) -> None:
    for name, value in (("gold", 1000), ("silver", 100)):
        manifest = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        stage.federation.api.apply(manifest)
        for member in stage.federation.members:
            stage.federation.api.apply(manifest, context=member)
    stage.apply(
        quota("gold", {"cpu": "200m"}, scopeSelector=classes("In", "gold")),
        quota("rest", {"cpu": "1"}, scopeSelector=classes("NotIn", "gold")),
        policy(DIVIDED),
    )
    stage.quota_active("gold")
    stage.quota_active("rest")
    stage.apply(deployment("plain", 3), deployment("shiny", 2, priority_class="gold"))
    eventually(lambda: (stage.used("gold"), stage.used("rest")) == ({"cpu": "200m"}, {"cpu": "300m"}))
    # Arriving in a class is an increase there: it has no room for more gold.
    stage.apply(deployment("plain", 3, priority_class="gold"))
    eventually(lambda: stage.is_refused("plain", "exceeded quota: gold, requested: cpu=300m"))
    eventually(lambda: (stage.used("gold"), stage.used("rest")) == ({"cpu": "200m"}, {"cpu": "300m"}))
    stage.apply(deployment("shiny", 2, priority_class="silver"))
    eventually(lambda: stage.used("rest")["cpu"] in ("500m", "200m"))
    eventually(lambda: stage.used("gold")["cpu"] in ("0", "300m"))


def test_a_change_of_selector_is_acted_on_at_once(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1"}, scopeSelector=classes("Exists")), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 5))
    eventually(lambda: sum(stage.in_members("web").values()) == 5)
    assert stage.used("q") == {"cpu": "0"}
    stage.apply(quota("q", {"cpu": "1"}, scopeSelector=classes("DoesNotExist")))
    eventually(lambda: stage.used("q") == {"cpu": "500m"})
    stage.apply(deployment("more", 6))
    eventually(lambda: stage.is_refused("more", "requested: cpu=600m, used: cpu=500m"))


def test_a_quota_created_after_the_workloads_counts_them_and_starts_from_there(stage: Stage) -> None:
    stage.apply(policy(DIVIDED), deployment("web", 5))
    eventually(lambda: sum(stage.in_members("web").values()) == 5)
    stage.apply(quota("q", {"cpu": "600m", "pods": "5"}))
    eventually(lambda: stage.used("q") == {"cpu": "500m", "pods": "5"})
    stage.apply(deployment("more", 1))
    eventually(lambda: stage.is_refused("more", "requested: pods=1, used: pods=5, limited: pods=5"))


def test_objects_are_counted_however_many_clusters_hold_a_copy(stage: Stage) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}
    stage.apply(
        quota("q", {"services": "2", "count/secrets": "1"}),
        policy(DUPLICATED, name="services", kind="Service", api_version="v1"),
    )
    stage.quota_active("q")
    for name in ("one", "two", "three"):
        stage.apply({**service, "metadata": {"name": name}})
        if name != "three":
            eventually(lambda name=name: stage.get("resourcebinding", f"{name}-service") is not None)  # type: ignore[misc]
    text = "exceeded quota: q, requested: services=1, used: services=2, limited: services=2"
    eventually(lambda: stage.is_refused("three", text))
    eventually(lambda: stage.used("q") == {"services": "2", "count/secrets": "0"})


def test_dry_run_is_judged_alike_and_writes_nothing(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 5))
    eventually(lambda: stage.used("q") == {"cpu": "500m"})
    eventually(lambda: stage.status("q")["reservations"] == [])

    def ledger() -> dict[str, Any]:
        parts = ("used", "reservations", "advances", "waiting", "observedBindingVersion")
        return {part: stage.status("q").get(part) for part in parts}

    before = ledger()
    patch = ["patch", "resourcebinding", "web-deployment", "--type=merge", "--dry-run=server", "-p"]
    assert "patched" in stage.kubectl(*patch, json.dumps({"spec": {"replicas": 9}}))
    with pytest.raises(Exception, match=r"exceeded quota: q, requested: cpu=600m, used: cpu=500m, limited: cpu=1"):
        stage.kubectl(*patch, json.dumps({"spec": {"replicas": 11}}))
    assert ledger() == before


def test_a_quota_that_only_warns_lets_through_counts_and_says_what_is_exceeded(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "200m"}, onExceeded="Warn"), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 5))
    eventually(lambda: sum(stage.in_members("web").values()) == 5)
    eventually(lambda: stage.used("q") == {"cpu": "500m"})
    assert stage.status("q").get("exceeded") == "cpu"


def test_a_binding_that_says_all_that_a_stamp_would_is_not_patched_and_a_forged_stamp_is_overwritten(
    stage: Stage,
) -> None:
    stage.apply(quota("q", {"cpu": "1"}))
    stage.quota_active("q")

    def created(name: str, annotations: dict[str, str], *, says_class: bool) -> dict[str, str]:
        document = load.binding(name, stage.namespace, says_class=says_class)
        document["metadata"]["annotations"] = annotations
        stored = stage.federation.kubectl("create", "-f", "-", "-o", "json", manifest=json.dumps(document))
        found: dict[str, str] = json.loads(stored)["metadata"].get("annotations") or {}
        return found

    assert STAMP_ANNOTATION not in created("said", {}, says_class=True)
    for name, says_class in (("forged", True), ("unsaid", False)):
        kept = created(name, {STAMP_ANNOTATION: '{"class":"gold","priority":9}'}, says_class=says_class)
        assert decode(kept[STAMP_ANNOTATION]) == Stamp(resource="deployments")


def test_nobody_but_the_system_writes_stamps_or_status(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 5))
    eventually(lambda: stage.used("q") == {"cpu": "500m"})
    stage.kubectl(
        "annotate", "--overwrite", "resourcebinding", "web-deployment", 'quota.karmada.io/stamp={"class":"x"}'
    )
    binding = stage.binding("web")
    assert binding is not None
    stamp = json.loads(binding["metadata"]["annotations"]["quota.karmada.io/stamp"])
    assert (stamp["class"], stamp["resource"]) == ("", "deployments")
    forged = json.dumps({"status": {"used": {"cpu": "0"}}})
    with pytest.raises(Exception, match="written by federation-quota alone, not by 'admin'"):
        stage.kubectl("patch", "karmadaquota", "q", "--subresource=status", "--type=merge", "-p", forged)
    held = {"metadata": {"labels": {"quota.karmada.io/held": "true"}}, "spec": {"suspension": {"scheduling": True}}}
    with pytest.raises(Exception, match="can be marked as held by federation-quota alone"):
        stage.kubectl("patch", "resourcebinding", "web-deployment", "--type=merge", "-p", json.dumps(held))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"hard": {"cpu": "-1"}}, "must be greater than or equal to 0"),
        ({"hard": {"cpu": "lots"}}, "spec.hard"),
        ({"hard": {"limits.cpu": "1"}}, "limits.cpu"),
        ({"hard": {"services": "1"}, "scopes": ["PriorityClass"]}, "unsupported scope applied to resource"),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}, "BestEffort"),
        ({"hard": {"pods": "1"}, "scopeSelector": classes("In")}, "must be at least one value"),
    ],
)
def test_quotas_that_make_no_sense_are_refused_with_the_reason(
    stage: Stage, spec: dict[str, object], text: str
) -> None:
    manifest = quota("q", {})
    manifest["spec"] = spec
    with pytest.raises(Exception, match=text):
        stage.apply(manifest)
