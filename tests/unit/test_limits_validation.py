"""Limits that may not be stored: each fault by its place, by itself and beside the limits above and below."""

from typing import Any

import pytest

from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.kube.quotas import QUOTA_TREES
from tests.conformance.bookstore import in_simulated_time
from tests.unit.forests import Mirror, Shared, Shelf
from tests.unit.test_elastic_review import Object, ask, quota, review

ANN = {"users": ["ann"], "maxResources": {"cpu": 4}}


def tree(*limits: Object, name: str = "default", **spec: Any) -> Object:  # noqa: ANN401 # as quota's
    return quota(QUOTA_TREES.kind, name, limits=list(limits), **spec)


def dept(*limits: Object, **spec: Any) -> Object:  # noqa: ANN401 # as quota's
    return quota(COMPOSITE, "dept", **{"min": {"cpu": 10}, "limits": list(limits), **spec})


def team(*limits: Object, name: str = "team", **spec: Any) -> Object:  # noqa: ANN401 # as quota's
    return quota(ELASTIC, name, **{"min": {"cpu": 1}, "parent": "dept", "limits": list(limits), **spec})


async def faults(new: Object, *stored: Object, old: Object | None = None) -> list[str]:
    """The places of all that is wrong."""
    verdict = await ask(review(Mirror(*stored)), new, old)
    assert verdict.is_allowed == (not verdict.causes)
    return [one["field"] for one in verdict.causes]


@pytest.mark.parametrize(
    ("limits", "place"),
    [
        ([{"maxResources": {"cpu": 1}}], "spec.limits[0]"),
        ([ANN, {"users": [], "groups": [], "maxApplications": 1}], "spec.limits[1]"),
        ([{"users": ["ann"]}], "spec.limits[0]"),
        ([{"users": ["ann"], "maxResources": {}}], "spec.limits[0]"),
        ([{"users": ["-ann"], "maxApplications": 1}], "spec.limits[0].users[0]"),
        ([{"groups": ["dev$"], "maxApplications": 1}], "spec.limits[0].groups[0]"),
        ([ANN, {"users": ["bob", "ann"], "maxApplications": 1}], "spec.limits[1].users[1]"),
        ([{"groups": ["dev", "dev"], "maxApplications": 1}], "spec.limits[0].groups[1]"),
        ([{"users": ["*"], "maxApplications": 1}, ANN], "spec.limits[1].users[0]"),
        ([{"users": ["*", "ann"], "maxApplications": 1}], "spec.limits[0].users[1]"),
        ([{"groups": ["*"], "maxApplications": 1}], "spec.limits[0].groups[0]"),
        ([{"users": ["ann"], "maxResources": {"cpu": "lots"}}], "spec.limits[0].maxResources[cpu]"),
        ([{"users": ["ann"], "maxResources": {"cpu": -1}}], "spec.limits[0].maxResources[cpu]"),
        ([{"users": ["ann"], "maxResources": {"cpu": 0}}], "spec.limits[0].maxResources"),
        ([{"users": ["ann"], "maxResources": {"limits.cpu": 1}}], "spec.limits[0].maxResources[limits.cpu]"),
        (
            [{"users": ["ann"], "maxResources": {"cpu": 1, "requests.cpu": 1}}],
            "spec.limits[0].maxResources[requests.cpu]",
        ),
        ([{"users": ["ann"], "maxResources": {"pods": "1500m"}}], "spec.limits[0].maxResources[pods]"),
        ([{"users": ["ann"], "maxResources": {"cpu": 9}}], "spec.limits[0].maxResources[cpu]"),
        ([{"users": ["ann"], "maxApplications": 0}], "spec.limits[0].maxApplications"),
        ([{"users": ["ann"], "maxApplications": "9"}], "spec.limits[0].maxApplications"),
        (["ann"], "spec.limits[0]"),
        ({"users": ["ann"]}, "spec.limits"),
        ([{"users": "ann", "maxApplications": 1}], "spec.limits[0].users"),
    ],
)
@pytest.mark.parametrize("make", [team, dept, tree])
async def test_each_rule_is_kept_on_every_kind(make: Any, limits: object, place: str) -> None:  # noqa: ANN401
    amount = {"total": {"cpu": 8}} if make is tree else {"max": {"cpu": 8}, "min": {}}
    new = make(**amount)
    new["spec"]["limits"] = limits
    stored = [] if make is dept else [quota(COMPOSITE, "dept", min={"cpu": 10})]
    assert place in await faults(new, *stored)


@pytest.mark.parametrize(
    "limits",
    [
        [ANN, {"users": ["bob", "*"], "maxApplications": 1}],
        [{"users": ["system:serviceaccounts:ci", "a.b@c.d/e#f", "host$"], "maxApplications": 1}],
        [{"groups": ["dev"], "maxApplications": 2}, {"groups": ["*"], "maxResources": {"cpu": 0, "memory": "1Gi"}}],
        [{"groups": ["dev", "*"], "users": ["ann"], "maxResources": {"count/deployments.apps": 3}}],
    ],
)
async def test_what_keeps_to_the_rules_is_stored(limits: list[Object]) -> None:
    for new, stored in ((tree(*limits), ()), (dept(*limits), ()), (team(*limits), (dept(),))):
        assert await faults(new, *stored) == []


@pytest.mark.parametrize(
    ("above", "below", "place"),
    [
        ({"users": ["ann"], "maxResources": {"cpu": 3}}, ANN, "spec.limits[0].maxResources[cpu]"),
        ({"users": ["*"], "maxResources": {"cpu": 3}}, ANN, "spec.limits[0].maxResources[cpu]"),
        ({"users": ["ann"], "maxApplications": 3}, ANN, "spec.limits[0].maxApplications"),
        (
            {"users": ["ann"], "maxApplications": 3},
            {"users": ["ann"], "maxApplications": 4},
            "spec.limits[0].maxApplications",
        ),
        (
            {"groups": ["dev", "*"], "maxResources": {"memory": "1Gi"}},
            {"groups": ["ops"], "maxResources": {"memory": "2Gi"}},
            "spec.limits[0].maxResources[memory]",
        ),
    ],
)
async def test_nobody_has_more_below_than_above_however_far_and_whichever_comes_last(
    above: Object, below: Object, place: str
) -> None:
    free = {"users": ["ann"], "maxResources": {"cpu": 100, "memory": "100Gi"}, "maxApplications": 100}
    assert await faults(team(below), dept(), tree(above)) == [place]
    assert await faults(team(below), dept(above)) == [place]
    assert await faults(dept(above), dept(), team(below), old=dept()) == [place]
    assert await faults(tree(above), dept(), team(below)) == [place]
    assert await faults(tree(above), dept(), team(below), tree(free), old=tree(free)) == [place]


async def test_who_is_refused_is_told_what_stands_where() -> None:
    above = {"users": ["ann"], "maxResources": {"cpu": 3}}
    said = (await ask(review(Mirror(dept(), tree(above))), team(ANN))).message
    assert "user ann may have no more than user ann on the tree, above it: 3" in said
    said = (await ask(review(Mirror(dept(), team(ANN))), tree(above))).message
    assert "user ann has 4 on team/team, below it: lower that first" in said


async def test_less_below_and_others_beside_are_fine() -> None:
    stored = [dept(ANN), tree({"users": ["*"], "maxResources": {"cpu": 4}}), team(ANN, name="other")]
    assert await faults(team({"users": ["ann"], "maxResources": {"cpu": 4}}), *stored) == []
    assert await faults(team({"users": ["ann"], "maxResources": {"memory": "9Gi"}}), *stored) == []


async def test_what_a_node_may_have_itself_binds_the_limits_below_it() -> None:
    assert await faults(team(ANN), dept(min={"cpu": 1}, max={"cpu": 3})) == ["spec.limits[0].maxResources[cpu]"]
    new = dept(max={"cpu": 3}, min={})
    assert await faults(new, dept(), team(ANN, min={}), old=dept()) == ["spec.max[cpu]"]
    assert await faults(tree(total={"cpu": 3}), dept(), team(ANN)) == ["spec.total[cpu]"]


async def test_a_node_does_not_move_below_one_that_allows_less() -> None:
    other = quota(COMPOSITE, "other", min={"cpu": 10}, limits=[{"users": ["ann"], "maxResources": {"cpu": 3}}])
    moved = team(ANN, parent="other")
    assert await faults(moved, dept(), other, team(ANN), old=team(ANN)) == ["spec.limits[0].maxResources[cpu]"]
    below = quota(COMPOSITE, "dept", min={"cpu": 10}, parent="other")
    assert await faults(below, dept(), other, team(ANN), old=dept()) == ["spec.parent"]


async def test_a_change_that_is_wrong_anywhere_is_refused_as_a_whole() -> None:
    new = team({"users": ["ann", "ann"], "maxResources": {"cpu": "NaN"}}, min={"cpu": 11})
    assert await faults(new, dept()) == ["spec.limits[0].users[1]", "spec.limits[0].maxResources[cpu]"]


async def test_a_wildcard_that_allows_more_than_somebody_has_above_is_told() -> None:
    verdict = await ask(review(Mirror(dept(ANN))), team({"users": ["*"], "maxResources": {"cpu": 9}}))
    assert verdict.is_allowed
    assert verdict.warnings == (
        "spec.limits[0]: '*' allows user ann more than dept, above it, does: the lower limit counts",
    )


@in_simulated_time
async def test_of_two_limits_that_fit_only_one_by_one_the_second_comes_again_through_whichever_replica() -> None:
    shelf = Shelf()
    here, there = Mirror(dept()), Mirror(dept())
    above = dept({"users": ["ann"], "maxResources": {"cpu": 3}}, generation=2)
    assert (await ask(review(here, Shared(shelf)), above, dept())).is_allowed
    second = review(there, Shared(shelf))
    assert (await ask(second, team(ANN))).code == 429, "the first may still be refused by somebody else"
    assert (await ask(second, team({"users": ["ann"], "maxResources": {"cpu": 3}}, name="other"))).is_allowed
    there.see(above)
    assert (await ask(second, team(ANN))).code == 422
