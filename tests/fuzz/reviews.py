"""Reviews as API servers send them: one of each sort, to be twisted."""

import copy
from typing import Any, Final

from federation_quota import hooks
from federation_quota.stamp import OWNER_ANNOTATION
from tests.fuzz.world import PARENT, PATHS, STORED, TEAM, stored_quota
from tests.unit.documents import BINDING
from tests.unit.test_works import deployment, work

UID: Final = "0a1b2c3d-uid"


def review(
    resource: str, group: str, new: dict[str, Any], old: dict[str, Any] | None = None, **more: object
) -> dict[str, Any]:
    """An AdmissionReview with every field that an API server sends."""
    metadata = new.get("metadata") or {}
    kind = {"group": group, "version": "v1", "kind": new.get("kind", "")}
    place = {"group": group, "version": "v1", "resource": resource}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": kind,
            "resource": place,
            "requestKind": kind,
            "requestResource": place,
            "name": metadata.get("name", ""),
            "namespace": TEAM,
            "operation": "UPDATE" if old else "CREATE",
            "userInfo": {"username": "karmada", "uid": "u", "groups": ["system:masters"], "extra": {"a": ["b"]}},
            "object": new,
            "oldObject": old,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **more,
        },
    }


def binding(name: str = "fresh-deployment", *, replicas: int = 5, **spec: object) -> dict[str, Any]:
    """A binding that is new, and has no clusters yet."""
    document = copy.deepcopy(BINDING)
    document["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    del document["metadata"]["resourceVersion"], document["spec"]["clusters"], document["status"]
    document["spec"] |= {"replicas": replicas, **spec}
    return document


def _grown() -> dict[str, Any]:
    document = copy.deepcopy(STORED)
    document["spec"] |= {
        "replicas": 9,
        "gracefulEvictionTasks": [{"fromCluster": "m3", "replicas": 2, "reason": "x", "producer": "y"}],
        "suspension": {"scheduling": False, "dispatching": False},
        "requiredBy": [{"namespace": TEAM, "name": "other", "clusters": [{"name": "m1", "replicas": 1}]}],
    }
    return document


def _held(**spec: object) -> dict[str, Any]:
    document = copy.deepcopy(STORED)
    document["metadata"]["labels"]["quota.karmada.io/held"] = "true"
    document["spec"] |= {"suspension": {"scheduling": True}, **spec}
    return document


_COMPONENTS = [
    {"name": "master", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
    {"name": "worker", "replicas": 4, "replicaRequirements": {"resourceRequest": {"cpu": "2", "nvidia.com/gpu": "1"}}},
]
_WORKLOAD = deployment() | {"metadata": {"name": "fresh", "namespace": TEAM}}
_OWNED = deployment() | {
    "metadata": {
        "name": "fresh",
        "namespace": TEAM,
        "annotations": {OWNER_ANNOTATION: '{"user":"ann","groups":["dev"]}'},
    }
}
_QUOTA = stored_quota("cpu", {"cpu": "10", "requests.memory": "1Gi", "services": "3", "nvidia.com/gpu": "4"})
_SCOPED = stored_quota("scoped", {"cpu": "10"})
_SCOPED["spec"]["scopeSelector"] = {
    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
}


_SELECTOR = {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "x", "operator": "In", "values": ["y"]}]}
_LEAF = {
    "apiVersion": "quota.karmada.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {"name": "leaf", "namespace": TEAM, "uid": "uid-leaf", "generation": 1},
    "spec": {
        "parent": "dept",
        "min": {"cpu": "1"},
        "max": {"cpu": 2},
        "sharedWeight": {"cpu": "3"},
        "strictMax": ["cpu"],
    },
    "status": {"used": {"cpu": "1"}, "held": 2},
}
_COMPOSITE = {**PARENT, "spec": {"min": {"cpu": "5"}, "namespaces": ["b"], "namespaceSelector": _SELECTOR}}
_TREE = {
    "apiVersion": "quota.karmada.io/v1alpha1",
    "kind": "QuotaTree",
    "metadata": {"name": "default", "uid": "uid-tree", "generation": 1},
    "spec": {"total": {"cpu": "9"}, "clusterSelector": _SELECTOR, "systemGroup": {"namespaces": ["kube-system"]}},
}


def _labelled(tenant: str) -> dict[str, Any]:
    return {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"tenant": tenant}}}


def _bindings() -> list[dict[str, Any]]:
    pairs: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        (binding(), None),
        (binding(components=_COMPONENTS), None),
        (binding(clusters=[{"name": "m1", "components": [{"name": "worker", "replicas": 2}]}]), None),
        (_grown(), STORED),
        (_held(), STORED),
        (_held(clusters=[{"name": "m1", "replicas": 3}]), _held()),
        (STORED, _held()),
    ]
    return [review("resourcebindings", "work.karmada.io", new, old) for new, old in pairs]


REVIEWS: Final[dict[str, list[dict[str, Any]]]] = {
    hooks.VALIDATE_BINDINGS: _bindings(),
    hooks.STAMP_BINDINGS: _bindings(),
    hooks.GUARD_BINDINGS: _bindings(),
    hooks.GUARD_ACCOUNTS: [review("usageaccounts", "quota.karmada.io", _TREE)],
    hooks.STAMP_TEMPLATES: [
        review("deployments", "apps", _WORKLOAD),
        review("deployments", "apps", _OWNED, _WORKLOAD),
        review("deployments", "apps", _WORKLOAD, _OWNED, subResource="status"),
        review("deployments", "apps", _OWNED, _WORKLOAD, userInfo={"username": "steward"}),
    ],
    hooks.VALIDATE_QUOTAS: [
        review("karmadaquotas", "quota.karmada.io", _QUOTA),
        review("karmadaquotas", "quota.karmada.io", _SCOPED, _QUOTA),
        review("karmadaquotas", "quota.karmada.io", _QUOTA, _SCOPED),
        review(
            "karmadaquotas",
            "quota.karmada.io",
            _QUOTA,
            _SCOPED,
            subResource="status",
            userInfo={"username": "system"},
        ),
    ],
    hooks.VALIDATE_ELASTIC: [
        review("elasticquotas", "quota.karmada.io", _LEAF),
        review("elasticquotas", "quota.karmada.io", _LEAF, {**_LEAF, "spec": {}}),
        review("compositeelasticquotas", "quota.karmada.io", _COMPOSITE, PARENT),
        review("compositeelasticquotas", "quota.karmada.io", PARENT, PARENT, operation="DELETE"),
        review("quotatrees", "quota.karmada.io", _TREE),
        review("quotatrees", "quota.karmada.io", _TREE, _TREE, subResource="status"),
    ],
    hooks.MANAGE_ELASTIC: [
        review("elasticquotas", "quota.karmada.io", _LEAF, userInfo={"username": "somebody"}),
        review("compositeelasticquotas", "quota.karmada.io", _COMPOSITE, PARENT),
    ],
    hooks.VALIDATE_NAMESPACES: [
        review("namespaces", "", _labelled("a")),
        review("namespaces", "", _labelled("b"), _labelled("a")),
    ],
    hooks.VALIDATE_TENANTS: [
        review("namespaces", "", _labelled("a")),
        review("namespaces", "", _labelled("b"), _labelled("a")),
    ],
    hooks.VALIDATE_WORKS: [
        review("works", "work.karmada.io", work(deployment())),
        review("works", "work.karmada.io", work(deployment(9), deployment(2, "3")), work(deployment(8))),
    ],
    hooks.WARN_WORKLOADS: [
        review("deployments", "apps", _WORKLOAD),
        review("deployments", "apps", _WORKLOAD, _WORKLOAD),
    ],
    hooks.DENY_WORKLOADS: [
        review("deployments", "apps", _WORKLOAD),
        review("deployments", "apps", {"spec": {"replicas": 3}}, {"spec": {"replicas": 1}}, subResource="scale"),
    ],
}
assert set(REVIEWS) == set(PATHS)
