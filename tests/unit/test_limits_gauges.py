"""What of users and groups is told to whoever watches."""

from collections.abc import Iterator
from typing import Any

import pytest

from federation_quota import metrics
from federation_quota.limits import usage
from federation_quota.limits.gauges import gauges
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.limits.usage import UsageAccount


def account(name: str, *nodes: dict[str, Any], kind: str = USER) -> UsageAccount:
    stored = usage.manifest(Subject("lab", kind, name))
    stored["metadata"] |= {"uid": name, "resourceVersion": "1"}
    return usage.read({**stored, "status": {"nodes": list(nodes)}})


def node(used: str, limit: str, name: str = "vision", **more: int) -> dict[str, Any]:
    return {"node": name, "used": {"cpu": used}, "maxResources": {"cpu": limit}, **more}


def test_amounts_are_those_of_the_status() -> None:
    ann = account("ann", node("1500m", "3", applications=2, maxApplications=5), node("1500m", "9", ""))
    told, untold = gauges([ann], 100)
    found = [(one.subject.name, one.node, one.resource, str(one.used), str(one.limit)) for one in told]
    assert found == [
        ("ann", "vision", "cpu", "1500m", "3"),
        ("ann", "vision", "applications", "2", "5"),
        ("ann", "", "cpu", "1500m", "9"),
    ]
    assert untold == 0


def test_where_there_are_too_many_those_nearest_to_a_limit_are_told_and_how_many_are_not() -> None:
    accounts = [account(f"u{number}", node(str(number), "10")) for number in range(10)]
    accounts.append(account("none", node("1", "0")))  # of what nobody may have
    told, untold = gauges(accounts, 4)
    assert [one.subject.name for one in told] == ["none", "u9", "u8", "u7"]
    assert untold == 7
    assert gauges(reversed(accounts), 4)[0] == told


@pytest.mark.parametrize(
    "nodes", [[], ["x"], [{"node": "a", "maxResources": {"cpu": "many"}}], [{"maxResources": {"a": 1}}]]
)
def test_a_status_that_cannot_be_read_tells_nothing_and_stops_nobody(nodes: list[Any]) -> None:
    told, untold = gauges([account("odd", *nodes), account("ann", node("1", "2"))], 10)
    assert [one.subject.name for one in told] == ["ann"]
    assert untold == 0


@pytest.fixture
def shown() -> Iterator[None]:
    metrics.usage_amounts.show([account("dev", node("1500m", "3"), kind=GROUP)])
    yield
    metrics.usage_amounts.show([])


def test_prometheus_is_told_apart_from_what_everybody_may_know(shown: None) -> None:
    labels = {"tree": "lab", "kind": "Group", "name": "dev", "node": "vision", "resource": "cpu"}
    assert metrics.PEOPLE.get_sample_value("federation_quota_usage_used", labels) == 1.5
    assert metrics.PEOPLE.get_sample_value("federation_quota_usage_limit", labels) == 3.0
    assert metrics.PEOPLE.get_sample_value("federation_quota_usage_untold") == 0.0
    told = {family.name for family in metrics.REGISTRY.collect()}
    assert not {one for one in told if one.startswith("federation_quota_usage")}
