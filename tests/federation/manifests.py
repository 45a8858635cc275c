"""The objects that people apply, as values."""

from typing import Any

DUPLICATED = {"replicaSchedulingType": "Duplicated"}
DIVIDED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


def deployment(
    name: str, replicas: int, cpu: str = "100m", *, memory: str | None = None, priority_class: str | None = None
) -> dict[str, Any]:
    """A Deployment whose replicas each ask for that much."""
    requests = {"cpu": cpu} | ({"memory": memory} if memory else {})
    container = {"name": "main", "image": "registry.example/none:1", "resources": {"requests": requests}}
    pod: dict[str, Any] = {"containers": [container]}
    if priority_class:
        pod["priorityClassName"] = priority_class
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def policy(
    scheduling: dict[str, Any], *, name: str = "everything", kind: str = "Deployment", api_version: str = "apps/v1"
) -> dict[str, Any]:
    """A PropagationPolicy for everything of a kind in its namespace."""
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"apiVersion": api_version, "kind": kind}],
            "placement": {"replicaScheduling": scheduling},
        },
    }


def quota(name: str, hard: dict[str, str], **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    """A KarmadaQuota."""
    return {
        "apiVersion": "quota.karmada.io/v1alpha1",
        "kind": "KarmadaQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
    }


def classes(operator: str, *values: str) -> dict[str, Any]:
    """A scope selector on the priority class."""
    expression: dict[str, Any] = {"scopeName": "PriorityClass", "operator": operator}
    if values:
        expression["values"] = list(values)
    return {"matchExpressions": [expression]}


CPU_PATH = "/spec/template/spec/containers/0/resources/requests/cpu"
"""Where a Deployment says how much cpu a pod asks for."""


def override(name: str, path: str, value: object, *, operator: str = "replace", clusters: str = "") -> dict[str, Any]:
    """An OverridePolicy for all Deployments of its namespace."""
    rule: dict[str, Any] = {"overriders": {"plaintext": [{"path": path, "operator": operator, "value": value}]}}
    if clusters:
        rule["targetCluster"] = {"clusterNames": [clusters]}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "overrideRules": [rule]},
    }
