"""What things cost, on the real federation: several pod templates, a failover, a Job that ends."""

import json
import threading

import pytest

from tests.federation.manifests import DIVIDED, deployment, policy, quota
from tests.federation.stage import Stage, eventually
from tests.federation.test_concurrency import binding

pytestmark = pytest.mark.federation


def test_components_cost_their_sum_per_cluster(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1", "pods": "20"}))
    stage.quota_active("q")
    several = binding("several", stage.namespace, 0)
    del several["spec"]["replicas"], several["spec"]["replicaRequirements"]
    several["spec"]["components"] = [
        {"name": "manager", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "200m"}}},
        {"name": "worker", "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "50m"}}},
    ]
    several["spec"]["clusters"] = [{"name": "m1"}, {"name": "m2"}]
    stage.apply(several)
    eventually(lambda: stage.used("q") == {"cpu": "700m", "pods": "8"})
    several["spec"]["components"][1]["replicas"] = 6
    stage.apply(several)
    eventually(lambda: stage.used("q") == {"cpu": "1", "pods": "14"})
    several["spec"]["components"][1]["replicas"] = 7
    with pytest.raises(Exception, match=r"exceeded quota: q, requested: cpu=100m, used: cpu=1, limited: cpu=1"):
        stage.apply(several)


@pytest.mark.alone
def test_a_failover_is_not_blocked_by_the_quota_that_its_own_replicas_fill(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "400m"}), policy(DIVIDED))
    stage.quota_active("q")
    stage.apply(deployment("web", 4))
    eventually(lambda: stage.in_members("web") == {"m1": 2, "m2": 2})
    taint = [{"key": "broken", "effect": "NoExecute"}]
    patch = json.dumps({"spec": {"taints": taint}})
    stage.federation.kubectl("patch", "cluster", "m2", "--type=merge", "-p", patch)
    try:
        eventually(lambda: stage.in_members("web").get("m1") == 4, what="all of it moves to m1")
        eventually(lambda: stage.used("q") == {"cpu": "400m"})
    finally:
        stage.federation.kubectl("patch", "cluster", "m2", "--type=merge", "-p", json.dumps({"spec": {"taints": None}}))


def test_a_job_that_has_finished_gives_back_what_its_pods_used(stage: Stage) -> None:
    stage.apply(
        quota("q", {"cpu": "300m", "count/jobs.batch": "5"}),
        policy(DIVIDED, name="jobs", kind="Job", api_version="batch/v1"),
    )
    stage.quota_active("q")
    container = {"name": "main", "image": "registry.example/none:1", "resources": {"requests": {"cpu": "100m"}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sums"},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    stage.apply(job)
    eventually(lambda: stage.get("resourcebinding", "sums-job") is not None)
    eventually(
        lambda: stage.used("q") == {"cpu": "0", "count/jobs.batch": "1"},
        what="a finished Job costs its object only",
    )


def test_a_quota_deleted_and_recreated_under_load_counts_exactly_again(stage: Stage) -> None:
    """While workloads come: whatever is admitted between the two quotas is counted by the second."""
    limits = {"count/deployments.apps": "12"}
    stage.apply(quota("q", limits), policy(DIVIDED))
    stage.quota_active("q")
    stopping = threading.Event()

    def load() -> None:
        for number in range(20):
            if stopping.is_set():
                return
            stage.apply(deployment(f"web{number}", 1))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        eventually(lambda: len(bindings(stage)) >= 4)
        stage.delete("karmadaquota", "q")
        stage.apply(quota("q", limits))
        eventually(lambda: len(bindings(stage)) == 12, what="as many as fit")
    finally:
        thread.join(timeout=60)
        stopping.set()
    eventually(lambda: stage.used("q") == {"count/deployments.apps": "12"})
    assert len(bindings(stage)) == 12, "and not one more"


def bindings(stage: Stage) -> list[str]:
    return stage.names("resourcebindings")
