"""The checker of limits finds what it is there for, in histories that were made up."""

import json
from typing import Any

import pytest

from faults.allowances import GROUPS, USERS, Allowances, Subject

ONE = {"cpu": "1"}


def tree(*limits: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "QuotaTree", "metadata": {"name": "lab"}, "spec": {"limits": list(limits)}}


def quota(name: str, *limits: dict[str, Any], parent: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"tree": "lab", "limits": list(limits)} | ({"parent": parent} if parent else {})
    return {"kind": "CompositeElasticQuota", "metadata": {"name": name}, "spec": spec}


def binding(
    name: str, user: str, *groups: str, replicas: int = 1, leaf: str = "vision", held: bool = False
) -> dict[str, Any]:
    stamp = {"leaf": leaf, "owner": {"user": user, "groups": list(groups)}}
    labels = {"quota.karmada.io/held": "true"} if held else {}
    metadata = {"namespace": "a", "name": name, "labels": labels}
    return {
        "kind": "ResourceBinding",
        "metadata": {**metadata, "annotations": {"quota.karmada.io/stamp": json.dumps(stamp)}},
        "spec": {
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": ONE},
            "suspension": {"scheduling": held},
        },
    }


def seen(*items: dict[str, Any]) -> Allowances:
    """The quotas, and then these."""
    found = Allowances("lab")
    for one in items:
        found.take("MODIFIED", one)
    return found


NAMED = {"users": ["ann"], "maxResources": {"cpu": 2}}
WILD = {"users": ["*"], "maxResources": {"cpu": 3}, "maxApplications": 2}
DEV = {"groups": ["dev"], "maxResources": {"cpu": 4}}
OTHERS = {"groups": ["*"], "maxResources": {"cpu": 1}}
NODES = [tree(NAMED, WILD, DEV, OTHERS), quota("research"), quota("vision", parent="research")]


def test_what_is_within_all_limits_is_well_and_what_reaches_one_is_counted() -> None:
    found = seen(*NODES, binding("a", "ann", "dev", replicas=2), binding("b", "bob", "dev", replicas=2))
    assert found.breaches == []
    assert set(found.reached) == {Subject(USERS, "ann", ""), Subject(GROUPS, "dev", "")}
    assert found.used[Subject(GROUPS, "dev", "research")]["cpu"] == 4


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ([binding("a", "ann", "dev", replicas=3)], "user ann on the tree has 3 cpu of 2"),
        ([binding("a", "bob", "dev", replicas=4)], "user bob on the tree has 4 cpu of 3"),
        ([binding(name, "bob", "dev") for name in "abc"], "user bob on the tree has 3 applications of 2"),
        (
            [binding("a", "ann", "dev", replicas=2), binding("b", "bob", "dev", replicas=3)],
            "group dev on the tree has 5 cpu of 4",
        ),
        ([binding("a", "cy", "qa"), binding("b", "dan")], "group * on the tree has 2 cpu of 1"),
    ],
)
def test_each_limit_is_missed_once_it_is_exceeded(stored: list[dict[str, Any]], said: str) -> None:
    found = seen(*NODES, *stored)
    assert any(said in one for one in found.breaches), found.breaches


def test_what_waits_or_is_gone_counts_for_nobody() -> None:
    first = binding("a", "ann", "dev", replicas=2)
    found = seen(*NODES, first, binding("b", "ann", "dev", replicas=2, held=True))
    assert found.breaches == []
    found.take("DELETED", first)
    found.take("MODIFIED", binding("b", "ann", "dev", replicas=2))
    assert found.breaches == []


def test_what_is_beyond_a_lowered_limit_may_stay_and_not_grow() -> None:
    lowered = tree({**NAMED, "maxResources": {"cpu": 1}}, WILD, DEV)
    found = seen(*NODES, binding("a", "ann", "dev", replicas=2), lowered, binding("a", "ann", "dev", replicas=2))
    assert found.breaches == []
    found.take("MODIFIED", binding("b", "ann", "dev"))
    assert found.breaches == ["a/b: user ann on the tree has 3 cpu of 1"]


def test_a_group_is_found_from_the_leaf_up_in_the_order_of_the_limits() -> None:
    leaf = quota("vision", {"groups": ["ops", "qa"], "maxApplications": 9}, parent="research")
    found = seen(*NODES[:2], leaf, binding("a", "ann", "dev", "qa", "ops"), binding("b", "bob", "dev"))
    assert found.used[Subject(GROUPS, "ops", "")]["cpu"] == 1
    assert found.used[Subject(GROUPS, "dev", "")]["cpu"] == 1
    assert Subject(GROUPS, "qa", "") not in found.used


def test_limits_that_come_later_count_what_is_there_already() -> None:
    found = seen(tree(), *NODES[1:], binding("a", "bob", replicas=9), NODES[0], binding("b", "bob"))
    assert "a/b: user bob on the tree has 10 cpu of 3" in found.breaches
