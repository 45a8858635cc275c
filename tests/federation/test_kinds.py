"""Every kind that the chart's roles name by default: refused for want of quota, and back by itself when there is room.

Proves of each that the webhook may read what it must and the controllers may touch it.
"""

from typing import Any

import pytest

from federation_quota.stamp import STAMP_ANNOTATION, decode
from tests.federation.manifests import deployment, quota
from tests.federation.stage import Stage, eventually
from tests.federation.test_concurrency import binding

pytestmark = pytest.mark.federation


def _objects() -> dict[str, dict[str, Any]]:
    """One of each kind, by what a quota calls it."""
    web = deployment("it", 1)
    spec: dict[str, Any] = web["spec"]
    job: dict[str, Any] = {"template": {"spec": {**spec["template"]["spec"], "restartPolicy": "Never"}}}
    without_replicas = {key: value for key, value in spec.items() if key != "replicas"}
    found: dict[str, tuple[str, str, dict[str, Any]]] = {
        "count/daemonsets.apps": ("apps/v1", "DaemonSet", {"spec": without_replicas}),
        "count/deployments.apps": ("apps/v1", "Deployment", {"spec": spec}),
        "count/replicasets.apps": ("apps/v1", "ReplicaSet", {"spec": spec}),
        "count/statefulsets.apps": ("apps/v1", "StatefulSet", {"spec": {**spec, "serviceName": "it"}}),
        "count/jobs.batch": ("batch/v1", "Job", {"spec": job}),
        "count/cronjobs.batch": (
            "batch/v1",
            "CronJob",
            {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}},
        ),
        "count/pods": ("v1", "Pod", {"spec": spec["template"]["spec"]}),
        "configmaps": ("v1", "ConfigMap", {"data": {"a": "b"}}),
        "services": ("v1", "Service", {"spec": {"ports": [{"port": 80}]}}),
        "persistentvolumeclaims": (
            "v1",
            "PersistentVolumeClaim",
            {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        ),
    }
    return {
        counted: {"apiVersion": version, "kind": kind, "metadata": {"name": "it"}, **rest}
        for counted, (version, kind, rest) in found.items()
    }


def _policy(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "everything"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": one["apiVersion"], "kind": one["kind"], "name": "it"} for one in objects
            ],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        },
    }


def test_what_was_refused_of_any_kind_comes_back(stage: Stage) -> None:
    objects = _objects()
    stage.apply(quota("q", dict.fromkeys(objects, "0")), _policy(list(objects.values())))
    stage.quota_active("q")
    stage.apply(*objects.values())
    kinds = {one["kind"] for one in objects.values()}

    def waiting() -> set[str]:
        return {one["kind"] for one in stage.status("q").get("waiting") or []}

    eventually(lambda: waiting() == kinds, what=f"all wait: {kinds - waiting()} do not")
    stage.apply(quota("q", dict.fromkeys(objects, "1")))
    bindings = {f"it-{kind.lower()}" for kind in kinds}

    def missing() -> set[str]:
        return bindings - set(stage.names("resourcebindings"))

    eventually(lambda: not missing(), what="all are back")
    eventually(lambda: not stage.status("q").get("waiting"), what="nobody waits any more")


def test_a_kind_that_the_roles_do_not_name_is_counted_without_its_class(stage: Stage) -> None:
    stage.apply(quota("q", {"count/propagationpolicies.policy.karmada.io": "1"}))
    stage.quota_active("q")
    unknown = binding("it", stage.namespace, 1)
    unknown["spec"]["resource"] |= {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}
    stage.apply(_policy(list(_objects().values())[:1]), unknown)
    found = stage.get("resourcebinding", "it")
    assert found is not None
    stamp = decode(found["metadata"]["annotations"][STAMP_ANNOTATION])
    assert (stamp.resource, stamp.priority_class) == ("propagationpolicies", "")
    eventually(lambda: stage.used("q") == {"count/propagationpolicies.policy.karmada.io": "1"}, what="it is counted")
