"""Objects as a federation's API server stores and lists them: what benches are made of."""

import json
from typing import Any

from federation_quota import karmadaquota
from federation_quota.stamp import STAMP_ANNOTATION, Owner, Stamp

LIMITS = {"cpu": "1000000", "memory": "1000000Gi", "pods": "10000000", "count/deployments.apps": "1000000"}


def binding(index: int, namespaces: int = 200) -> dict[str, Any]:
    """A Deployment's binding as the API server lists it; sizes, requests and owners vary as they do in a federation."""
    namespace, name = f"team-{index % namespaces}", f"app-{index}"
    replicas = index % 12 + 1
    shares = {"member1": replicas - replicas // 3, "member2": replicas // 3}
    placement = {
        "clusterAffinity": {"clusterNames": list(shares)},
        "clusterTolerations": [
            {
                "key": f"cluster.karmada.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for taint in ("not-ready", "unreachable")
        ],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"},
    }
    stamp = Stamp("", 0, "deployments", Owner(f"user-{index % 300}", ("developers", "system:authenticated")))
    fields: dict[str, object] = {
        f"f:{field}": {} for field in ("clusters", "placement", "replicas", "resource", "schedulerName")
    }
    managed = [
        {"manager": manager, "operation": "Update", "time": "2026-08-01T10:00:00Z", "fieldsType": "FieldsV1"}
        | {"apiVersion": "work.karmada.io/v1alpha2", "fieldsV1": {"f:spec": fields, "f:metadata": {"f:labels": fields}}}
        for manager in ("karmada-controller-manager", "karmada-scheduler")
    ]
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": f"{name}-deployment",
            "namespace": namespace,
            "uid": f"{index:08x}-5f0c-4a52-9d0c-4e1f4f0e7a11",
            "resourceVersion": str(500_000 + index),
            "generation": 2,
            "creationTimestamp": "2026-08-01T10:00:00Z",
            "finalizers": ["karmada.io/binding-controller"],
            "labels": {
                "propagationpolicy.karmada.io/permanent-id": "b0907cc7-6f2c-4d0e-8d56-0d0f4c4e9f10",
                "resourcebinding.karmada.io/permanent-id": f"{index:08x}-76d1-4d8c-9f3a-2a2a4c4e9f10",
            },
            "annotations": {
                "policy.karmada.io/applied-placement": json.dumps(placement),
                "propagationpolicy.karmada.io/name": "everything",
                "propagationpolicy.karmada.io/namespace": namespace,
                STAMP_ANNOTATION: stamp.encode(),
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": name,
                    "uid": f"{index:08x}-aaaa",
                    "controller": True,
                }
            ],
            "managedFields": managed,
        },
        "spec": {
            "resource": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "namespace": namespace,
                "name": name,
                "uid": f"{index:08x}-aaaa-4a52-9d0c-4e1f4f0e7a11",
                "resourceVersion": str(400_000 + index),
            },
            "replicas": replicas,
            "replicaRequirements": {
                "resourceRequest": {
                    "cpu": ("100m", "250m", "500m", "1", "2")[index % 5],
                    "memory": ("128Mi", "512Mi", "1Gi")[index % 3],
                }
            },
            "clusters": [{"name": cluster, "replicas": share} for cluster, share in shares.items()],
            "placement": placement,
            "conflictResolution": "Abort",
            "schedulerName": "default-scheduler",
        },
        "status": {
            "conditions": [
                {"type": "Scheduled", "status": "True", "reason": "Success", "message": "Binding has been scheduled"},
                {
                    "type": "FullyApplied",
                    "status": "True",
                    "reason": "FullyAppliedSuccess",
                    "message": "All works applied",
                },
            ],
            "aggregatedStatus": [
                {
                    "clusterName": cluster,
                    "applied": True,
                    "health": "Healthy",
                    "status": {"replicas": share, "readyReplicas": share, "availableReplicas": share, "generation": 1},
                }
                for cluster, share in shares.items()
            ],
            "schedulerObservedGeneration": 2,
        },
    }


def quota(number: int) -> dict[str, Any]:
    """The quota of a namespace, taken up by every replica, with room for whatever comes."""
    stored: dict[str, Any] = {
        "apiVersion": "quota.karmada.io/v1alpha1",
        "kind": "KarmadaQuota",
        "metadata": {
            "name": "everything",
            "namespace": f"team-{number}",
            "uid": f"{number:08x}-9d0c-4a52-5f0c-4e1f4f0e7a11",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2026-08-01T10:00:00Z",
        },
        "spec": {"hard": LIMITS},
    }
    shape = karmadaquota.read(stored).lens.shape
    joined = [{"replica": "webhook-0", "shape": shape}]
    return {**stored, "status": {"shape": shape, "joined": joined, "observedBindingVersion": "0"}}
