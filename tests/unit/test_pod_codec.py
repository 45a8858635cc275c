"""Pods as bytes: which fields matter, and that pods alike are counted as one sort."""

import json
from typing import Any

import pytest

from federation_quota.kube import codec
from federation_quota.kube.codec import CodecError
from federation_quota.pod import Pod, Workload
from federation_quota.resources import Resources


def document(name: str = "web-6d4c-x", cpu: str = "100m", **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": [container], **spec}}


def decode(pod: dict[str, Any]) -> Pod:
    return codec.decode_pod(json.dumps(pod).encode())


def test_pods_that_say_the_same_share_what_they_come_to() -> None:
    one, other, third = decode(document("a")), decode(document("b")), decode(document("c", "200m"))
    assert one.footprint is other.footprint
    assert one.footprint is not third.footprint
    assert one.footprint is not None
    assert one.footprint.usage == Resources.parse({"cpu": "100m", "pods": 1})


def test_a_pod_of_another_class_is_of_another_sort() -> None:
    gold = decode(document(priorityClassName="gold")).footprint
    assert gold is not None
    assert gold.priority_class == "gold"
    assert gold is not decode(document()).footprint


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_uses_nothing(phase: str) -> None:
    assert decode({**document(), "status": {"phase": phase}}).footprint is None


def test_a_pod_that_is_being_deleted_uses_something_until_its_grace_is_over_twice() -> None:
    pod = document()
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 30}
    assert decode(pod).gone_at == 1767268800 + 30


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        ({"kind": "ReplicaSet", "name": "web-6d4c"}, {"pod-template-hash": "6d4c"}, Workload("Deployment", "web")),
        ({"kind": "ReplicaSet", "name": "lone"}, {"pod-template-hash": "6d4c"}, Workload("ReplicaSet", "lone")),
        ({"kind": "StatefulSet", "name": "db"}, {}, Workload("StatefulSet", "db")),
        ({"kind": "Node", "name": "n", "controller": False}, {}, None),
    ],
)
def test_a_pod_tells_what_it_was_made_by(
    owner: dict[str, Any], labels: dict[str, str], workload: Workload | None
) -> None:
    pod = document()
    pod["metadata"] |= {"ownerReferences": [{"controller": True, **owner}], "labels": {"app": "x", **labels}}
    footprint = decode(pod).footprint
    assert footprint is not None
    assert footprint.workload == workload


def test_gpus_bring_their_memory_as_those_of_a_binding_do() -> None:
    pod = document()
    pod["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 2}
    footprint = decode(pod).footprint
    assert footprint is not None
    assert footprint.usage == Resources.parse({"nvidia.com/gpu": 2, "pods": 1, "quota.karmada.io/gpu-memory": 64})


def test_what_cannot_be_read_is_told_by_name() -> None:
    with pytest.raises(CodecError, match=r"Pod shop/web-6d4c-x: .*nonsense"):
        decode(document(cpu="nonsense"))
    with pytest.raises(CodecError, match="Pod shop/web-6d4c-x"):
        decode(document(containers={}))
