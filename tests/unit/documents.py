"""A binding as documents have it, and ways to change one."""

import copy
import json
from typing import Any

from federation_quota.stamp import Owner, Stamp

STAMP = Stamp("high", 1000, "deployments", Owner("ann", ("dev",)), "team-a")

# As Karmada 1.18.2 stores it, with our stamp.
BINDING: dict[str, Any] = {
    "apiVersion": "work.karmada.io/v1alpha2",
    "kind": "ResourceBinding",
    "metadata": {
        "name": "web-deployment",
        "namespace": "team-a",
        "uid": "9f8b1c1e-4a1e-4d7b-9d5c-0f3f4f0e7a11",
        "resourceVersion": "4711",
        "generation": 2,
        "creationTimestamp": "2026-08-01T10:00:00Z",
        "labels": {"propagationpolicy.karmada.io/permanent-id": "x", "resourcebinding.karmada.io/permanent-id": "y"},
        "annotations": {"policy.karmada.io/applied-placement": '{"a":1}', "quota.karmada.io/stamp": STAMP.encode()},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "t1", "controller": True}
        ],
        "managedFields": [{"manager": "karmada", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "team-a",
            "name": "web",
            "uid": "t1",
            "resourceVersion": "4700",
        },
        "replicas": 5,
        "replicaRequirements": {
            "nodeClaim": {"nodeSelector": {"disk": "ssd"}},
            "resourceRequest": {"cpu": "250m", "memory": "1Gi", "example.com/dongle": 1},
        },
        "clusters": [{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 1}],
        "placement": {
            "clusterAffinity": {"clusterNames": ["m1", "m2"]},
            "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"},
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
        },
        "conflictResolution": "Abort",
        "schedulerName": "default-scheduler",
    },
    "status": {
        "conditions": [
            {"type": "FullyApplied", "status": "False", "reason": "x"},
            {"type": "Scheduled", "status": "True", "reason": "Success", "message": "done"},
        ],
        "aggregatedStatus": [
            {"clusterName": "m1", "applied": True, "health": "Healthy", "status": {"replicas": 3, "conditions": "?"}},
            {"clusterName": "m2", "applied": False},
        ],
        "schedulerObservedGeneration": 2,
    },
}


def changed(path: str, value: object, base: dict[str, Any] = BINDING) -> dict[str, Any]:
    """The document with one field set, or removed where the value is `...`."""
    result = copy.deepcopy(base)
    *parents, last = path.split("/")
    node = result
    for parent in parents:
        node = node.setdefault(parent, {})
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return result


def encode(value: object) -> bytes:
    return json.dumps(value).encode()
