"""What users and groups use, as the seed document shows it; and the bodies of the peers' own vectors in its shape."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import pytest

from federation_quota import usage_report
from federation_quota.quantity import Quantity, parse
from federation_quota.resources import Resources
from federation_quota.usage_report import Path, Use

VECTORS = json.loads((File(__file__).parents[1] / "vectors" / "user_group_limits.json").read_text())["vectors"]
G = 10**9


@dataclass(frozen=True)
class Cap:
    resources: Mapping[str, Quantity] = field(default_factory=dict)
    applications: int | None = None


def path(queue: str) -> Path:
    return tuple(queue.split(".")[1:])


def amounts(written: Mapping[str, str]) -> dict[str, Quantity]:
    return {"cpu" if name == "vcore" else name: parse(text) for name, text in written.items()}


def use(application: str, user: str, group: str, queue: str, usage: Mapping[str, str]) -> Use:
    return Use(application, user, group, path(queue), Resources({**amounts(usage), "pods": parse(1)}))


def without_pods(document: Any) -> Any:  # noqa: ANN401
    """The vectors' resources alone: an application has pods here, which YuniKorn does not count."""
    if isinstance(document, list):
        return [without_pods(one) for one in document]
    if isinstance(document, dict):
        return {name: without_pods(one) for name, one in document.items() if name != "pods"}
    return document


def test_the_users_of_the_seed_document() -> None:
    six = {"memory": "6G", "vcore": "6"}
    uses = [use("app1", "user1", "tester", "root.default", six), use("app2", "user1", "", "root.test", six)]
    caps = {(): Cap(applications=10), ("default",): Cap(amounts({"memory": "50G", "vcore": "100"}), 10)}
    found = usage_report.user("user1", uses, caps).document()
    assert without_pods(found) == {
        "userName": "user1",
        "groups": {"app1": "tester"},
        "queues": {
            "queuename": "root",
            "resourceUsage": {"memory": 12 * G, "vcore": 12000},
            "runningApplications": ["app1", "app2"],
            "children": [
                {
                    "queuename": "root.default",
                    "resourceUsage": {"memory": 6 * G, "vcore": 6000},
                    "runningApplications": ["app1"],
                    "children": [],
                    "maxApplications": 10,
                    "maxResources": {"memory": 50 * G, "vcore": 100000},
                },
                {
                    "queuename": "root.test",
                    "resourceUsage": {"memory": 6 * G, "vcore": 6000},
                    "runningApplications": ["app2"],
                    "children": [],
                    "maxApplications": 0,
                    "maxResources": {},
                },
            ],
            "maxApplications": 10,
            "maxResources": {},
        },
    }
    assert list(found["queues"]) == [
        "queuename",
        "resourceUsage",
        "runningApplications",
        "children",
        "maxApplications",
        "maxResources",
    ], "in its order, for those who look at both"


def test_the_groups_of_the_seed_document() -> None:
    uses = [use("app2", "user1", "tester", "root.test", {"memory": "6G", "vcore": "6"})]
    found = usage_report.group("tester", uses, {("test",): Cap(amounts({"vcore": "10"}), 2)}).document()
    assert found["groupName"] == "tester"
    assert found["users"] == ["user1"]
    assert found["queues"]["maxApplications"] == 0
    (child,) = found["queues"]["children"]
    assert child["queuename"] == "root.test"
    assert (child["maxApplications"], child["maxResources"]) == (2, {"vcore": 10000})


def steps(name: str) -> list[dict[str, Any]]:
    (found,) = [one for one in VECTORS if one["id"] == name]
    listed: list[dict[str, Any]] = found["steps"]
    return listed


def body(name: str, operation: str) -> list[dict[str, Any]]:
    """What YuniKorn answers today, put into the shape of the document."""
    (step,) = [one for one in steps(name) if one["op"] == operation]
    return [_shaped(one) for one in step["expect"]["body"]]


def _shaped(one: dict[str, Any]) -> dict[str, Any]:
    queues = _queue(one["queues"])
    if "userName" in one:
        return {"userName": one["userName"], "groups": one.get("groups", {}), "queues": queues}
    return {"groupName": one["groupName"], "applications": one.get("applications", []), "queues": queues}


def _queue(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "queuename": one["queuePath"],
        "resourceUsage": one.get("resourceUsage", {}),
        "runningApplications": one.get("runningApplications", []),
        "children": [_queue(child) for child in one.get("children", [])],
        "maxApplications": one.get("maxApplications", 0),
        "maxResources": one.get("maxResources", {}),
    }


def config(name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every limit of the last configuration, with its queue."""
    pending = [((), [one for one in steps(name) if one["op"] == "update_config"][-1]["root"])]
    while pending:
        where, queue = pending.pop()
        for limit in queue.get("limits", []):
            yield where, limit
        pending += [((*where, child["name"]), child) for child in queue.get("queues", [])]


def caps(name: str, field_name: str, who: str) -> tuple[dict[Path, Cap], list[Path]]:
    """The limits of one user or group, and the queues on which they are named."""
    found: dict[Path, Cap] = {}
    named = []
    for where, limit in config(name):
        listed = limit.get(field_name, [])
        if who in listed:
            named.append(where)
        if who in listed or ("*" in listed and field_name == "users" and where not in found):
            found[where] = Cap(amounts(limit.get("maxresources", {})), limit.get("maxapplications"))
    return found, named


def uses(name: str, groups: Mapping[str, str]) -> list[Use]:
    """What was let in, and counts for these groups."""
    total: dict[str, Use] = {}
    for step in steps(name):
        if step["op"] not in ("try_increase", "force_increase") or not step.get("expect", {}).get("allowed", True):
            continue
        more = use(step["app"], step["user"], groups.get(step["app"], ""), step["queue"], step["usage"])
        before = total.get(step["app"])
        charge = more.charge if before is None else Resources.sum([before.charge, more.charge])
        total[step["app"]] = Use(more.application, more.user, more.group, more.path, charge)
    return list(total.values())


@pytest.mark.parametrize("name", ["rest-output", "seed-example"])
def test_what_the_vectors_say_of_users(name: str) -> None:
    """Whoever was only turned away is not told of: here nothing is kept of them."""
    wanted = body(name, "rest_users")
    found = uses(name, {app: group for one in wanted for app, group in one["groups"].items()})
    present = {one.user for one in found}
    assert {one["userName"] for one in wanted} - present <= {"ian"}
    told = [usage_report.user(who, found, *caps(name, "users", who)).document() for who in sorted(present)]
    assert without_pods(told) == [one for one in wanted if one["userName"] in present]


@pytest.mark.parametrize("name", ["rest-output", "seed-example", "leaf-wildcard-shadows-parent-group"])
def test_what_the_vectors_say_of_groups(name: str) -> None:
    wanted = body(name, "rest_groups")
    groups = {app: one["groupName"] for one in wanted for app in one["applications"]}
    found = uses(name, groups)
    for one in wanted:
        applications, who = one.pop("applications"), one["groupName"]
        document = usage_report.group(who, found, *caps(name, "groups", who)).document()
        assert document.pop("users") == sorted({each.user for each in found if each.application in applications})
        assert without_pods(document) == one


def test_what_has_no_replicas_is_used_and_is_no_application() -> None:
    config_map = Use("map", "ann", "dev", ("a",), Resources({"count/configmaps": parse(1)}))
    found = usage_report.user("ann", [config_map], {})
    assert (found.groups, found.queues.applications) == ({}, ())
    assert found.document()["queues"]["resourceUsage"] == {"count/configmaps": 1}


def test_nobody_uses_nothing_and_it_says_so() -> None:
    assert usage_report.user("nobody", [], {}).document() == {
        "userName": "nobody",
        "groups": {},
        "queues": {
            "queuename": "root",
            "resourceUsage": {},
            "runningApplications": [],
            "children": [],
            "maxApplications": 0,
            "maxResources": {},
        },
    }


def test_a_limit_by_wildcard_is_told_where_something_is_used_and_a_named_one_always() -> None:
    wide = {("a",): Cap(applications=1), ("b", "c"): Cap(applications=2)}
    used = [use("x", "ann", "", "root.a", {"vcore": "1"})]
    (child,) = usage_report.user("ann", used, wide).queues.children
    assert child.name == "root.a"
    named = usage_report.user("ann", used, wide, [("b", "c")]).queues
    assert [one.name for one in named.children] == ["root.a", "root.b"]
    assert named.children[1].children[0].max_applications == 2


def test_amounts_are_rounded_up_never_down() -> None:
    odd = Use("x", "ann", "", (), Resources({"cpu": parse("100u"), "memory": parse("1500m")}))
    assert usage_report.user("ann", [odd], {}).document()["queues"]["resourceUsage"] == {"memory": 2, "vcore": 1}
