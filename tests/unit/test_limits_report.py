"""What users and groups use, as the seed document shows it. `tests/conformance` has the peers' own vectors."""

import json
from collections.abc import Mapping
from typing import Any

from federation_quota.ledger.claim import Claim
from federation_quota.limits import report
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.limit import Limit
from federation_quota.limits.report import GroupUsage, UserUsage
from federation_quota.limits.scheme import Scheme
from federation_quota.limits.survey import survey
from federation_quota.quantity import Quantity, parse
from federation_quota.resources import Resources
from federation_quota.stamp import Owner

G = 10**9
POD = Resources({"pods": parse(1)})

Limits = Mapping[str, tuple[Limit, ...]]


def amounts(written: Mapping[str, str]) -> dict[str, Quantity]:
    return {"cpu" if name == "vcore" else name: parse(text) for name, text in written.items()}


def limit(
    resources: Mapping[str, str] | None = None,
    applications: int | None = None,
    *,
    users: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
) -> Limit:
    return Limit(users, groups, amounts(resources or {}), applications)


def tree(parents: Mapping[str, str], limits: Limits | None = None) -> Scheme:
    """Quotas and their parents, the root's name being empty, and what stands on each."""
    found = limits or {}
    levels = [Level(name, parent, found.get(name, ())) for name, parent in {ROOT: ROOT, **parents}.items()]
    return Scheme.of("lab", levels)


def claim(user: str, groups: tuple[str, ...], leaf: str, usage: Mapping[str, str]) -> Claim:
    return Claim(Resources(amounts(usage)) + POD, "", leaf, Owner(user, groups))


def users(scheme: Scheme, claims: Mapping[str, Claim]) -> list[UserUsage]:
    return report.users(scheme, survey(scheme, claims))


def groups(scheme: Scheme, claims: Mapping[str, Claim]) -> list[GroupUsage]:
    return report.groups(scheme, survey(scheme, claims))


def without_pods(document: Any) -> Any:  # noqa: ANN401
    """The vectors' resources alone: an application has pods here, which YuniKorn does not count."""
    if isinstance(document, list):
        return [without_pods(one) for one in document]
    if isinstance(document, dict):
        return {name: without_pods(one) for name, one in document.items() if name != "pods"}
    return document


SIX = {"memory": "6G", "vcore": "6"}
SEED = tree(
    {"default": ROOT, "test": ROOT},
    {
        ROOT: (limit(applications=10, users=("user1",)),),
        "default": (limit({"memory": "50G", "vcore": "100"}, 10, users=("user1",)),),
        "test": (limit({"vcore": "10"}, 2, groups=("tester",)),),
    },
)
CLAIMS = {
    "app1": claim("user1", ("tester",), "default", SIX),
    "app2": claim("user1", ("tester",), "test", SIX),
}


def test_the_users_of_the_seed_document() -> None:
    """The document shows app1 as the group's here, and app2 with the group itself. By its rules it is app2."""
    (found,) = users(SEED, CLAIMS)
    assert without_pods(found.document()) == {
        "userName": "user1",
        "groups": {"app2": "tester"},
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
    fields = ["queuename", "resourceUsage", "runningApplications", "children", "maxApplications", "maxResources"]
    assert list(found.document()["queues"]) == fields, "in its order, for those who look at both"


def test_the_groups_of_the_seed_document() -> None:
    (found,) = groups(SEED, CLAIMS)
    assert without_pods(found.document()) == {
        "groupName": "tester",
        "users": ["user1"],
        "queues": {
            "queuename": "root",
            "resourceUsage": {"memory": 6 * G, "vcore": 6000},
            "runningApplications": ["app2"],
            "children": [
                {
                    "queuename": "root.test",
                    "resourceUsage": {"memory": 6 * G, "vcore": 6000},
                    "runningApplications": ["app2"],
                    "children": [],
                    "maxApplications": 2,
                    "maxResources": {"vcore": 10000},
                }
            ],
            "maxApplications": 0,
            "maxResources": {},
        },
    }


# What else there is


def test_what_has_no_replicas_is_used_and_is_no_application() -> None:
    config_map = Claim(Resources({"count/configmaps": parse(1)}), "", "a", Owner("ann", ("dev",)))
    (found,) = users(tree({"a": ROOT}, {ROOT: (limit(applications=1, groups=("dev",)),)}), {"map": config_map})
    assert (found.groups, found.queues.applications) == ({}, ())
    assert found.document()["queues"]["resourceUsage"] == {"count/configmaps": 1}


def test_a_group_has_the_users_whose_use_it_is_with_applications_or_without() -> None:
    config_map = Claim(Resources({"count/configmaps": parse(1)}), "", "a", Owner("ann", ("dev",)))
    given = {"map": config_map, "web": claim("bob", ("dev",), "a", {"vcore": "1"}), "api": claim("cid", (), "a", {})}
    (found,) = groups(tree({"a": ROOT}, {"a": (limit(applications=1, groups=("dev",)),)}), given)
    assert (found.users, found.queues.applications) == (("ann", "bob"), ("web",))


def test_who_is_named_and_uses_nothing_is_told_of_with_the_queues_that_name_them() -> None:
    named = limit(applications=2, users=("ann",), groups=("dev",))
    scheme = tree({"a": ROOT, "b": "a", "c": ROOT}, {"b": (named,), "c": (limit(applications=1, users=("*",)),)})
    for (one,) in (users(scheme, {}), groups(scheme, {})):
        (a,) = one.queues.children
        (b,) = a.children
        assert (a.name, a.max_applications, b.name, b.max_applications) == ("root.a", 0, "root.a.b", 2)
    told = users(scheme, {"x": claim("bob", (), "c", {"vcore": "1"})})
    assert [one.name for one in told] == ["ann", "bob"]
    assert [one.max_applications for one in told[1].queues.children] == [1], "a wildcard's, where something is used"
    assert users(tree({}), {}) == []


def test_what_is_in_other_trees_is_left_out() -> None:
    assert users(tree({"a": ROOT}), {"x": claim("ann", (), "elsewhere", {"vcore": "1"})}) == []


def test_amounts_are_rounded_up_never_down() -> None:
    (found,) = users(tree({"a": ROOT}), {"x": claim("ann", (), "a", {"cpu": "100u", "memory": "1500m"})})
    assert without_pods(found.document())["queues"]["resourceUsage"] == {"memory": 2, "vcore": 1}


def test_equal_states_give_equal_documents() -> None:
    scheme = tree({f"q{number}": ROOT for number in range(9)})
    found = {f"a{number}": claim(f"u{number % 3}", (), f"q{number}", {"vcore": "1"}) for number in range(9)}
    turned = dict(reversed(found.items()))
    one, other = ([each.document() for each in users(scheme, given)] for given in (found, turned))
    assert json.dumps(one) == json.dumps(other)
