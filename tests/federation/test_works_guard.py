"""Nothing that was refused reaches a member, and no override goes beyond what was admitted.

Karmada makes a member's copy from the current template whenever anything touches the binding, and applies overrides
last. A Deployment's `metadata.generation` in a member counts the changes of its spec and annotations: one that has not
moved shows that nothing came through at any time, not only when the test looked.
"""

import datetime
import json
from typing import Any

import pytest

from localfed.kubectl import KubectlError
from tests.federation.manifests import CPU_PATH, DUPLICATED, classes, deployment, override, policy, quota
from tests.federation.stage import Stage, eventually

pytestmark = pytest.mark.federation


def copies(stage: Stage, name: str = "web") -> dict[str, dict[str, Any]]:
    """The Deployment in each member that has it."""
    found = {member: stage.get("deployment", name, context=member) for member in stage.federation.members}
    return {member: copy for member, copy in found.items() if copy}


def generations(stage: Stage) -> dict[str, int]:
    return {member: copy["metadata"]["generation"] for member, copy in copies(stage).items()}


def cpu(stage: Stage, name: str = "web") -> dict[str, str]:
    """What each member's copy asks for."""
    return {
        member: copy["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        for member, copy in copies(stage, name).items()
    }


def refused_again(stage: Stage, text: str, before: int) -> None:
    eventually(lambda: stage.refused_works("web", text) > before, what=f"a Work is refused with {text!r}")


def reschedule(stage: Stage, name: str = "web-deployment") -> None:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    patch = json.dumps({"spec": {"rescheduleTriggeredAt": now}})
    stage.kubectl("patch", "resourcebinding", name, "--type=merge", "-p", patch)


def deployed(stage: Stage, hard: dict[str, str], **spec: Any) -> dict[str, int]:  # noqa: ANN401
    """A Deployment of one replica and 10m in each of the two members, under that quota; its generations."""
    stage.apply(quota("q", hard, **spec), policy(DUPLICATED))
    stage.quota_active("q")
    stage.apply(deployment("web", 1, "10m"))
    eventually(lambda: stage.in_members("web") == {"m1": 1, "m2": 1}, what="it runs in both members")
    return generations(stage)


def test_a_refused_request_reaches_no_member_whatever_touches_the_binding(stage: Stage) -> None:
    before = deployed(stage, {"cpu": "20m"})
    stage.apply(deployment("web", 1, "20m"))
    text = "exceeded quota: q, requested: cpu=20m, used: cpu=20m, limited: cpu=20m"
    eventually(lambda: stage.is_refused("web", text), what="the binding is refused")

    told = "would get cpu=20m, admitted 10m: more than quota q admitted"
    reschedule(stage)
    refused_again(stage, told, before=0)
    count = stage.refused_works("web", told)
    stage.apply(override("harmless", "/metadata/annotations", {"note": "hello"}, operator="add"))
    refused_again(stage, told, before=count)
    assert generations(stage) == before
    assert cpu(stage) == {"m1": "10m", "m2": "10m"}
    binding = stage.binding("web")
    assert binding is not None
    assert binding["spec"]["replicaRequirements"]["resourceRequest"] == {"cpu": "10m"}

    # What was stopped was stopped for this alone: with the request that was admitted, the override arrives.
    stage.apply(deployment("web", 1, "10m"))
    eventually(
        lambda: [copy["metadata"]["annotations"].get("note") for copy in copies(stage).values()] == ["hello"] * 2,
        what="the override arrives",
    )
    assert cpu(stage) == {"m1": "10m", "m2": "10m"}


def test_what_was_refused_arrives_once_it_is_admitted(stage: Stage) -> None:
    deployed(stage, {"cpu": "20m"})
    stage.apply(deployment("web", 1, "20m"))
    eventually(lambda: stage.is_refused("web", "exceeded quota: q"))
    reschedule(stage)
    refused_again(stage, "cpu=20m, admitted 10m", before=0)
    stage.apply(quota("q", {"cpu": "40m"}))
    stage.kubectl("annotate", "deployment", "web", "try=again")
    eventually(lambda: cpu(stage) == {"m1": "20m", "m2": "20m"}, what="the larger request arrives")


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [(CPU_PATH, "11m", "cpu=11m, admitted 10m"), ("/spec/replicas", 2, "replicas=2, admitted 1")],
)
def test_an_override_that_raises_what_was_admitted_is_refused(
    stage: Stage, path: str, value: object, told: str
) -> None:
    """Even where the quota has room: nobody has counted it."""
    before = deployed(stage, {"cpu": "1"})
    stage.apply(override("more", path, value, clusters="m1"))
    refused_again(stage, f"cluster m1 would get {told}", before=0)
    assert generations(stage) == before


def test_an_override_that_lowers_passes(stage: Stage) -> None:
    deployed(stage, {"cpu": "20m"})
    stage.apply(override("less", CPU_PATH, "5m", clusters="m1"))
    eventually(lambda: cpu(stage) == {"m1": "5m", "m2": "10m"}, what="m1 has the smaller one")
    stage.apply(override("none", "/spec/replicas", 0, clusters="m2"))
    eventually(lambda: stage.in_members("web") == {"m1": 1, "m2": 0}, what="m2 has none")
    assert stage.events("web-deployment"), "there are events, and none of a refusal"
    assert stage.refused_works("web", "") == 0


def test_a_member_that_is_refused_does_not_keep_the_others_from_theirs(stage: Stage) -> None:
    deployed(stage, {"cpu": "20m"})
    stage.apply(override("more", CPU_PATH, "11m", clusters="m1"))
    refused_again(stage, "cluster m1 would get cpu=11m", before=0)
    stage.apply(override("less", CPU_PATH, "5m", clusters="m2"))
    eventually(lambda: cpu(stage) == {"m1": "10m", "m2": "5m"}, what="m2 has its own")


def test_a_copy_that_would_be_too_large_from_the_start_is_not_made(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1"}), policy(DUPLICATED), override("more", CPU_PATH, "11m", clusters="m1"))
    stage.quota_active("q")
    stage.apply(deployment("web", 1, "10m"))
    refused_again(stage, "cluster m1 would get cpu=11m, admitted 10m", before=0)
    eventually(lambda: stage.in_members("web") == {"m2": 1}, what="it runs where it is as admitted")
    stage.delete("overridepolicy", "more")
    eventually(lambda: stage.in_members("web") == {"m1": 1, "m2": 1}, what="without the override it runs everywhere")


def test_a_copy_that_is_too_large_already_may_only_come_closer(stage: Stage) -> None:
    """An override from before the quota: what runs goes on running."""
    stage.apply(policy(DUPLICATED), override("more", CPU_PATH, "40m", clusters="m1"), deployment("web", 1, "10m"))
    eventually(lambda: cpu(stage) == {"m1": "40m", "m2": "10m"}, what="no quota, no limit")
    stage.apply(quota("q", {"cpu": "1"}))
    stage.quota_active("q")
    before = generations(stage)
    stage.apply(override("more", CPU_PATH, "41m", clusters="m1"))
    refused_again(stage, "cpu=41m, admitted 10m", before=0)
    assert generations(stage) == before
    stage.apply(override("more", CPU_PATH, "30m", clusters="m1"))
    eventually(lambda: cpu(stage) == {"m1": "30m", "m2": "10m"}, what="less of too much passes")


def test_scaling_beyond_the_quota_changes_no_member_whatever_touches_the_binding(stage: Stage) -> None:
    deployed(stage, {"cpu": "20m"})
    stage.kubectl("scale", "deployment", "web", "--replicas=3")
    text = "exceeded quota: q, requested: cpu=10m, used: cpu=20m, limited: cpu=20m"
    eventually(lambda: stage.is_refused("web", text))
    stage.apply(override("harmless", "/metadata/annotations", {"note": "hello"}, operator="add"))
    eventually(
        lambda: [copy["metadata"]["annotations"].get("note") for copy in copies(stage).values()] == ["hello"] * 2,
        what="Karmada has written the Works anew",
    )
    assert stage.in_members("web") == {"m1": 1, "m2": 1}


def test_a_refused_priority_class_reaches_no_member(stage: Stage) -> None:
    """Of that class there is nothing left: what is charged elsewhere must not run under it."""
    before = deployed(stage, {"cpu": "1"}, scopeSelector=classes("DoesNotExist"))
    stage.apply(quota("high", {"cpu": "5m"}, scopeSelector=classes("In", "high")))
    stage.quota_active("high")
    stage.apply(deployment("web", 1, "10m", priority_class="high"))
    eventually(lambda: stage.is_refused("web", "exceeded quota: high"))
    reschedule(stage)
    refused_again(stage, "priorityClassName=high, admitted none: more than quota high admitted", before=0)
    assert generations(stage) == before


@pytest.mark.parametrize(
    "hard", [{}, {"memory": "1Gi"}, {"count/deployments.apps": "5"}], ids=["no quota", "other resource", "objects"]
)
def test_what_no_quota_limits_is_left_alone(stage: Stage, hard: dict[str, str]) -> None:
    if hard:
        stage.apply(quota("q", hard))
        stage.quota_active("q")
    stage.apply(policy(DUPLICATED), deployment("web", 1, "10m"))
    eventually(lambda: stage.in_members("web") == {"m1": 1, "m2": 1})
    stage.apply(override("more", CPU_PATH, "2", clusters="m1"), override("many", "/spec/replicas", 7, clusters="m2"))
    eventually(lambda: cpu(stage) == {"m1": "2", "m2": "10m"})
    eventually(lambda: stage.in_members("web") == {"m1": 1, "m2": 7})


def test_a_quota_that_only_warns_lets_overrides_through(stage: Stage) -> None:
    deployed(stage, {"cpu": "20m"}, onExceeded="Warn")
    stage.apply(override("more", CPU_PATH, "11m", clusters="m1"))
    eventually(lambda: cpu(stage) == {"m1": "11m", "m2": "10m"})


def work(stage: Stage, name: str, manifest: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    """A Work that Karmada dispatches nowhere."""
    metadata = {"name": f"{stage.namespace}-{name}", "namespace": "karmada-es-m1", "annotations": annotations}
    return {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": metadata,
        "spec": {"suspendDispatching": True, "workload": {"manifests": [manifest]}},
    }


def of_binding(stage: Stage, name: str) -> dict[str, str]:
    prefix = "resourcebinding.karmada.io"
    return {f"{prefix}/namespace": stage.namespace, f"{prefix}/name": name}


def test_a_work_whose_binding_is_gone_may_bring_no_pods(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1"}))
    stage.quota_active("q")
    federation = stage.federation
    with pytest.raises(KubectlError) as refused:
        federation.kubectl.apply(work(stage, "web", deployment("web", 1), of_binding(stage, "web-deployment")))
    assert f"{stage.namespace}/web-deployment" in refused.value.stderr
    assert "is gone" in refused.value.stderr
    for one in (
        work(stage, "elsewhere", deployment("web", 1), {}),
        work(stage, "service", {"apiVersion": "v1", "kind": "Service", "spec": {}}, of_binding(stage, "web-service")),
    ):
        federation.kubectl.apply(one)
        federation.kubectl("delete", "work", one["metadata"]["name"], "-n", "karmada-es-m1", "--wait=false")
