"""Managers: which quotas they may change, and which namespaces they may give quotas to."""

from typing import Any

import pytest

from federation_quota.elastic import delegation
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.quota import COMPOSITE, ELASTIC, Manager, Quota, read
from federation_quota.label_selector import LabelSelector

Spec = dict[str, Any]
RESEARCH = {"namespaceSelector": {"matchLabels": {"dept": "research"}}}


def elastic(namespace: str, **spec: object) -> Quota:
    return read({"kind": ELASTIC, "metadata": {"name": "q", "namespace": namespace}, "spec": spec})


def composite(name: str, **spec: object) -> Quota:
    return read({"kind": COMPOSITE, "metadata": {"name": name}, "spec": spec})


def user(name: str) -> list[dict[str, str]]:
    return [{"kind": "User", "name": name}]


FOREST = Forest.of(
    [
        composite(
            "dept",
            managers=[*user("dan"), {"kind": "Group", "name": "leads"}],
            managedNamespaces={"namespaces": ["extra", "a", "to-come"], **RESEARCH},
        ),
        composite("sub", parent="dept", managers=user("ann"), managedNamespaces={"namespaces": ["a", "strange"]}),
        composite("other", managers=user("ann")),
        elastic("mine", parent="sub"),
        elastic("elsewhere"),
    ],
    namespaces={
        "lab": {"dept": "research"},
        **{name: {} for name in ("extra", "a", "strange", "mine", "elsewhere", "free")},
    },
)
MINE, SUB, DEPARTMENT = FOREST.quotas["mine/q"], FOREST.quotas["sub"], FOREST.quotas["dept"]


def test_managers_change_what_is_below_their_node_and_nothing_else() -> None:
    def may(name: str, *changed: Quota | None, groups: tuple[str, ...] = ()) -> bool:
        return delegation.may_manage(FOREST, name, groups, *changed)

    assert may("ann", MINE, MINE)
    assert may("bob", MINE, None, groups=("leads",))
    assert may("bob", None, SUB, groups=("leads",))
    assert not may("ann", SUB, SUB)
    assert not may("dan", DEPARTMENT, DEPARTMENT)
    assert not may("bob", MINE, MINE)
    assert not may("ann", MINE, elastic("mine")), "taken away from under the one who manages it"
    assert not may("ann", elastic("mine"), MINE)
    assert not may("ann")
    assert SUB.managers == (Manager("User", "ann"),)


def claims(name: str, new: Quota, old: Quota | None = None, *, groups: tuple[str, ...] = ()) -> bool:
    return not delegation.overreach(FOREST, name, groups, new, old)


@pytest.mark.parametrize("namespace", ["extra", "lab", "to-come"])
def test_a_manager_claims_what_was_assigned_by_name_or_by_label(namespace: str) -> None:
    assert claims("dan", elastic(namespace, parent="dept"))
    assert claims("bob", elastic(namespace, parent="dept"), groups=("leads",))
    assert claims("dan", composite("new", parent="sub", namespaces=[namespace])), "however deep"


@pytest.mark.parametrize("namespace", ["free", "elsewhere", "not-there"])
def test_a_manager_claims_nothing_else(namespace: str) -> None:
    claimed = delegation.overreach(FOREST, "dan", (), composite("new", parent="dept", namespaces=["lab", namespace]))
    assert claimed == [f"namespace {namespace}"]
    assert not claims("dan", elastic(namespace, parent="dept"))


def test_a_namespace_that_a_quota_has_stays_its_own() -> None:
    assert claims("ann", elastic("mine", parent="sub", min={"cpu": 1}), MINE)
    assert claims("ann", composite("x", parent="sub", namespaces=["free"]), composite("x", namespaces=["free", "b"]))
    assert not claims("ann", elastic("mine", parent="sub")), "a new one is another quota"


def test_nobody_hands_on_more_than_they_have() -> None:
    """`strange` is assigned to ann's node, by whoever manages what is above it, and not to that."""
    assert claims("ann", elastic("a", parent="sub"))
    assert not claims("ann", elastic("strange", parent="sub"))
    assert not claims("ann", elastic("extra", parent="sub")), "nor is all that is above assigned below"
    assert not claims("dan", elastic("strange", parent="sub"))


def test_nothing_is_assigned_where_nothing_is_said() -> None:
    assert not claims("ann", elastic("free", parent="other"))
    assert claims("ann", composite("parent", parent="other", min={"cpu": 1}))
    assert claims("ann", composite("offering", parent="other", offeredTo={"namespaces": ["free"]})), "that is no claim"


@pytest.mark.parametrize(
    ("selector", "is_within"),
    [
        ({"matchLabels": {"dept": "research"}}, True),
        ({"matchLabels": {"dept": "research", "team": "vision"}}, True),
        ({"matchExpressions": [{"key": "dept", "operator": "In", "values": ["research"]}]}, True),
        ({"matchLabels": {"team": "vision"}}, False),
        ({"matchLabels": {"dept": "shop"}}, False),
        ({"matchExpressions": [{"key": "dept", "operator": "In", "values": ["research", "shop"]}]}, False),
        ({"matchExpressions": [{"key": "dept", "operator": "Exists"}]}, False),
        ({}, False),
    ],
)
def test_a_managers_selector_asks_for_what_was_assigned(selector: Spec, is_within: bool) -> None:
    new = composite("new", parent="dept", namespaceSelector=selector)
    assert claims("dan", new) is is_within
    before = composite("new", parent="dept", namespaceSelector=selector)
    assert claims("dan", new, before), "which an administrator may have let take anything"
    assert not claims("ann", composite("new", parent="other", namespaceSelector=selector))


A, B, NONE = {"matchLabels": {"k": "a"}}, {"matchLabels": {"k": "b"}}, {"matchLabels": {"other": "x"}}


def where(operator: str, *values: str) -> Spec:
    one: Spec = {"key": "k", "operator": operator}
    return {"matchExpressions": [{**one, "values": list(values)} if values else one]}


@pytest.mark.parametrize(
    ("narrow", "wide", "implies"),
    [
        (A, {}, True),
        ({}, A, False),
        (A, A, True),
        (A, B, False),
        (A, where("In", "a", "b"), True),
        (where("In", "a", "b"), A, False),
        (A, where("Exists"), True),
        (where("Exists"), A, False),
        (where("NotIn", "a"), where("Exists"), False),
        (A, where("NotIn", "b"), True),
        (A, where("NotIn", "a"), False),
        (where("NotIn", "a", "b"), where("NotIn", "a"), True),
        (where("NotIn", "a"), where("NotIn", "a", "b"), False),
        (where("DoesNotExist"), where("NotIn", "a"), True),
        (where("DoesNotExist"), where("DoesNotExist"), True),
        (where("NotIn", "a"), where("DoesNotExist"), False),
        (where("Exists"), where("NotIn", "a"), False),
        (NONE, A, False),
    ],
)
def test_a_selector_implies_another(narrow: Spec, wide: Spec, implies: bool) -> None:
    one, other = LabelSelector.read(narrow), LabelSelector.read(wide)
    assert one.implies(other) is implies
    labels: list[dict[str, str]] = [{}, {"k": "a"}, {"k": "b"}, {"k": "c"}, {"other": "x"}, {"k": "a", "other": "x"}]
    if implies:
        assert all(other.matches(some) for some in labels if one.matches(some))
