"""What member clusters really run, on the real federation: seen, compared with what is bound, and paid for.

Pods are made in the members directly, past the federation, as a controller there or a DaemonSet would.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from localfed.api import NotThereError
from localfed.federation import Federation
from localfed.guard import Guard
from tests.federation.manifests import DIVIDED, deployment, policy, quota
from tests.federation.stage import Stage, eventually

pytestmark = pytest.mark.federation

CHARGED = {"policy": "Charge", "graceSeconds": 1}


def pod(name: str, cpu: str = "100m", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    container = {"name": "main", "image": "registry.example/none:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **more},
    }


class Members:
    """The stage, and what is done in its namespace behind the federation's back."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.federation = stage.federation

    def make(self, member: str, *pods: dict[str, Any]) -> None:
        eventually(lambda: self._has_namespace(member), what=f"Karmada makes the namespace in {member}")
        for one in pods:
            metadata = {**one["metadata"], "namespace": self.stage.namespace}
            self.federation.api.create({**one, "metadata": metadata}, context=member)

    def delete(self, member: str, name: str) -> None:
        self.stage.kubectl("delete", "pod", name, "--grace-period=0", "--force", context=member)

    def figures(self, name: str = "q") -> dict[str, dict[str, Any]]:
        """`status.clusters` of a quota, by cluster."""
        return {one["name"]: one for one in self.stage.status(name).get("clusters") or []}

    def observed(self, member: str, name: str = "q") -> dict[str, str] | None:
        found: dict[str, str] | None = self.figures(name).get(member, {}).get("observed")
        return found

    def condition(self, kind: str, name: str = "q") -> dict[str, str]:
        conditions = self.stage.status(name).get("conditions") or []
        return next((one for one in conditions if one["type"] == kind), {})

    def _has_namespace(self, member: str) -> bool:
        return self.stage.get("namespace", self.stage.namespace, context=member) is not None


@pytest.fixture
def members(stage: Stage) -> Members:
    return Members(stage)


@pytest.mark.alone  # others have clusters that are not ready
def test_pods_made_in_a_member_are_seen_at_once_as_kubernetes_counts_them(members: Members) -> None:
    stage = members.stage
    stage.apply(quota("q", {"cpu": "4", "pods": "20"}))
    stage.quota_active("q")
    sidecar = {
        "name": "proxy",
        "image": "registry.example/none:1",
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "50m"}},
    }
    members.make("m1", pod("lone"), pod("accompanied", initContainers=[sidecar]))
    eventually(lambda: members.observed("m1") == {"cpu": "250m", "pods": "2"})
    figures = members.figures()["m1"]
    assert figures["bound"] == {"cpu": "0", "pods": "0"}
    assert figures["stale"] is False
    assert figures["lastSeen"]
    assert stage.used("q") == {"cpu": "0", "pods": "0"}, "a quota that only reports does not charge"
    members.delete("m1", "lone")
    eventually(lambda: members.observed("m1") == {"cpu": "150m", "pods": "1"})
    assert members.condition("MembersReady")["status"] == "True"


def test_what_bindings_give_is_shown_beside_what_runs(members: Members) -> None:
    stage = members.stage
    stage.apply(quota("q", {"cpu": "4", "pods": "20"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 4))
    both = {"cpu": "200m", "pods": "2"}
    eventually(
        lambda: all(
            members.figures().get(name, {}).get(side) == both for name in ("m1", "m2") for side in ("bound", "observed")
        ),
        what="as much runs as is bound",
    )
    eventually(lambda: members.condition("UnboundUsage").get("status") == "False")


def test_what_no_binding_accounts_for_is_charged_and_refused_and_wakes_when_it_goes(members: Members) -> None:
    stage = members.stage
    stage.apply(quota("q", {"cpu": "500m"}, memberUsage=CHARGED), policy(DIVIDED))
    stage.quota_active("q")
    members.make("m2", pod("stowaway", "400m"))
    eventually(lambda: stage.used("q") == {"cpu": "400m"}, what="what runs is charged")
    condition = members.condition("UnboundUsage")
    assert condition["status"] == "True"
    assert "m2 (cpu: 400m observed, 0 bound)" in condition["message"]
    assert "counted as used" in condition["message"]
    stage.apply(deployment("web", 2))
    eventually(lambda: stage.is_refused("web", "exceeded quota: q"))
    assert stage.is_refused("web", "used includes cpu=400m")
    assert stage.binding("web") is None
    members.delete("m2", "stowaway")
    eventually(lambda: sum(stage.clusters("web").values()) == 2, what="what is freed wakes who waits")
    eventually(lambda: stage.used("q") == {"cpu": "200m"})


def test_a_workload_that_asks_for_more_than_its_binding_says_is_told_so(members: Members) -> None:
    stage = members.stage
    stage.apply(quota("q", {"cpu": "4"}, memberUsage=CHARGED), policy(DIVIDED))
    stage.quota_active("q")
    web = deployment("web", 2)
    sidecar = {
        "name": "proxy",
        "image": "registry.example/none:1",
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "70m"}},
    }
    web["spec"]["template"]["spec"]["initContainers"] = [sidecar]
    stage.apply(web)
    eventually(lambda: stage.used("q") == {"cpu": "340m"}, what="sidecars are charged after the grace")
    told = "a replica of Deployment web uses cpu=170m in m1, its binding says cpu=100m"
    eventually(lambda: told in members.condition("UnboundUsage").get("message", ""))
    eventually(lambda: stage.has_event("web", "Undercounted", told), what="the workload's owner sees it")


@pytest.fixture
def pulling(federation: Federation) -> Iterator[str]:
    """A cluster that has joined to pull, and whose agent never comes."""
    name = "pulling"
    cluster = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"syncMode": "Pull", "apiEndpoint": "https://127.0.0.1:1"},
    }
    federation.kubectl("create", "-f", "-", manifest=json.dumps(cluster))
    yield name
    federation.kubectl("delete", "cluster", name, "--wait=false", "--ignore-not-found")
    # Its agent would let go of what Karmada keeps for it.
    free = {"metadata": {"finalizers": None}}
    space = f"karmada-es-{name}"
    for work in federation.api.list("works", space):
        with contextlib.suppress(NotThereError):
            federation.api.patch("work", work["metadata"]["name"], change=free, namespace=space)
    with contextlib.suppress(NotThereError):  # it may be gone by now
        federation.api.patch("cluster", name, change=free)


@pytest.mark.alone
def test_a_cluster_that_only_pulls_is_not_taken_for_empty(members: Members, pulling: str) -> None:
    members.stage.apply(quota("q", {"cpu": "4"}))
    members.stage.quota_active("q")
    eventually(lambda: pulling in members.figures())
    figures = members.figures()[pulling]
    assert figures["stale"] is True
    assert "observed" not in figures
    assert "Pull mode" in figures["message"]
    ready = members.condition("MembersReady")
    assert ready["status"] == "False"
    assert f"{pulling} is not observed" in ready["message"]
    members.federation.kubectl("delete", "cluster", pulling, "--wait=false")
    members.federation.api.patch("cluster", pulling, change={"metadata": {"finalizers": None}})
    eventually(lambda: members.condition("MembersReady")["status"] == "True", what="it has left")


@pytest.mark.alone
def test_a_member_that_is_killed_keeps_its_figures_and_comes_back_by_itself(members: Members, guard: Guard) -> None:
    stage, federation = members.stage, members.federation
    stage.apply(quota("q", {"cpu": "1"}, memberUsage=CHARGED), policy(DIVIDED))
    stage.quota_active("q")
    members.make("m2", pod("stowaway", "300m"))
    eventually(lambda: stage.used("q") == {"cpu": "300m"})
    federation.kill("m2-apiserver")
    try:
        eventually(lambda: members.figures()["m2"]["stale"] is True, what="it is stale")
        figures = members.figures()["m2"]
        assert figures["observed"] == {"cpu": "300m"}
        assert stage.used("q") == {"cpu": "300m"}, "and is still paid for"
        assert "m2 is out of reach" in members.condition("MembersReady")["message"]
        eventually(lambda: stage.has_event("q", "MemberStale", "m2"))
    finally:
        federation.up(federation.shape, guard)
    eventually(lambda: members.figures()["m2"]["stale"] is False, what="it is back")
    members.delete("m2", "stowaway")
    eventually(lambda: stage.used("q") == {"cpu": "0"})
    eventually(lambda: stage.has_event("q", "MemberBack", "m2"))
