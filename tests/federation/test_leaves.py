"""Bindings under elastic leaves on the real federation: stamped, held, and charged to an account of many namespaces."""

import json
from typing import Any

import pytest

from federation_quota.stamp import QUOTA_NAME_LABEL, STAMP_ANNOTATION
from tests.federation.manifests import DIVIDED, deployment, policy, quota
from tests.federation.stage import Stage, eventually
from tests.federation.test_hold import is_held

pytestmark = pytest.mark.federation


def leaf(name: str, cpu: str) -> dict[str, Any]:
    """A namespace's own quota, which can never have more than that."""
    spec = {"min": {"cpu": "0"}, "max": {"cpu": cpu}}
    return {"apiVersion": "quota.karmada.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": name}, "spec": spec}


def in_force(stage: Stage, name: str) -> None:
    eventually(lambda: _status(stage, name).get("shape"), what=f"every replica has joined {name}")


def _status(stage: Stage, name: str) -> dict[str, Any]:
    return (stage.get("elasticquota", name) or {}).get("status") or {}


def _leaf_of(stage: Stage, name: str) -> str:
    found = stage.binding(name) or {"metadata": {"annotations": {STAMP_ANNOTATION: "{}"}}}
    return str(json.loads(found["metadata"]["annotations"][STAMP_ANNOTATION]).get("leaf", ""))


def test_what_a_leaf_has_no_room_for_is_stamped_and_held_and_costs_nobody_anything(stage: Stage) -> None:
    stage.apply(leaf("own", "200m"), quota("q", {"cpu": "1"}), policy(DIVIDED))
    in_force(stage, "own")
    stage.quota_active("q")
    stage.apply(deployment("web", 4))  # 400m
    eventually(lambda: is_held(stage, "web"), what="it is held")
    assert _leaf_of(stage, "web") == f"{stage.namespace}/own"
    assert stage.clusters("web") == {}
    assert stage.used("q") == {"cpu": "0"}
    assert _status(stage, "own").get("reservations") in (None, [])


def test_a_quota_that_a_workload_cannot_have_is_said_at_once(stage: Stage) -> None:
    stage.apply(leaf("own", "200m"), policy(DIVIDED))
    in_force(stage, "own")
    stray = deployment("stray", 1)
    stray["metadata"]["labels"] = {**stray["metadata"].get("labels", {}), QUOTA_NAME_LABEL: "nobody"}
    stage.apply(stray)
    eventually(lambda: stage.is_refused("stray", "there is no quota nobody"))
    assert stage.binding("stray") is None
