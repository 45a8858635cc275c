"""The witness of elastic trees finds what must not be: histories that are right but for one thing."""

import json
from typing import Any

import pytest

from tests.federation.ledgers import check

Event = tuple[int, str, dict[str, Any]]


def cluster(version: int, cpu: str, *, is_ready: bool = True) -> Event:
    metadata = {"name": "one", "labels": {"tree": "t"}, "resourceVersion": str(version)}
    ready = [{"type": "Ready", "status": str(is_ready)}]
    status = {"conditions": ready, "resourceSummary": {"allocatable": {"cpu": cpu}}}
    return version, "MODIFIED", {"kind": "Cluster", "metadata": metadata, "status": status}


def tree(version: int, total: str) -> Event:
    metadata = {"name": "t", "resourceVersion": str(version)}
    return version, "MODIFIED", {"kind": "QuotaTree", "metadata": metadata, "status": {"total": {"cpu": total}}}


def quota(version: int, name: str, runtime: str, **reserved: str) -> Event:
    metadata = {"name": "q", "namespace": name, "resourceVersion": str(version)}
    reservations = [{"binding": f"{name}/{one}", "charge": {"cpu": cpu}} for one, cpu in reserved.items()]
    status = {"runtime": {"cpu": runtime}, "reservations": reservations}
    return version, "MODIFIED", {"kind": "ElasticQuota", "metadata": metadata, "spec": {"tree": "t"}, "status": status}


def binding(version: int, name: str, replicas: int, leaf: str = "a/q") -> Event:
    stamp = {"quota.karmada.io/stamp": json.dumps({"leaf": leaf})}
    metadata = {"name": name, "namespace": "a", "resourceVersion": str(version), "annotations": stamp}
    request = {"resourceRequest": {"cpu": "100m"}}
    spec = {"replicaRequirements": request, "clusters": [{"name": "m1", "replicas": replicas}]}
    return version, "MODIFIED", {"kind": "ResourceBinding", "metadata": metadata, "spec": spec}


BEGIN = [cluster(1, "500m"), tree(2, "500m"), quota(3, "a", "300m"), quota(4, "b", "200m")]
ADMITTED = [*BEGIN, quota(5, "a", "300m", web="300m"), binding(6, "web", 3), quota(7, "a", "300m")]


def test_what_was_reserved_and_stored_within_what_was_published_is_right() -> None:
    found = check(ADMITTED, "t")["a/q"]
    assert (found.highest, found.versions) == (found.runtime, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        [binding(8, "more", 1)],
        [quota(8, "a", "300m", more="100m")],
        [quota(8, "a", "100m"), binding(9, "web", 4)],
        [binding(8, "other", 1, leaf="b/q")],
        [quota(8, "b", "300m")],
        [quota(8, "a", "100m"), quota(9, "b", "300m")],
        [cluster(8, "400m"), tree(9, "400m"), quota(10, "b", "0"), quota(11, "b", "200m")],
    ],
    ids=["unreserved", "beyond", "more though it fell", "elsewhere", "raised", "not given back", "less there is"],
)
def test_what_is_more_than_was_published_or_than_there_is_is_found(wrong: list[Event]) -> None:
    with pytest.raises(AssertionError, match=r"published|there is"):
        check([*ADMITTED, *wrong], "t")


def test_what_falls_may_be_over_for_a_while_and_only_gets_less() -> None:
    falls = [cluster(8, "500m", is_ready=False), tree(9, "0"), quota(10, "a", "0"), quota(11, "b", "0")]
    assert check([*ADMITTED, *falls, binding(12, "web", 1)], "t")["a/q"].use > 0
    # What the system has yet to hear of, nobody can hold against it.
    check([*ADMITTED, quota(8, "b", "100m"), cluster(9, "100m"), quota(10, "b", "200m")], "t")
