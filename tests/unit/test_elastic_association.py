"""Which leaf a workload falls under, and which tree a cluster."""

import pytest

from federation_quota.elastic.association import AssociationError, Directory, Leaf, Reach
from federation_quota.elastic.capacity import Claim, Cluster, share_out
from federation_quota.elastic.forest import Forest, Root
from federation_quota.label_selector import LabelSelector, SelectorError, validate
from federation_quota.resources import Resources


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector.read({"matchLabels": labels})


LEAVES = (
    Leaf("web/quota"),
    Leaf("teams", Reach(frozenset({"a", "b"})), Reach(frozenset({"guest"}))),
    Leaf("tenant", Reach(selector=labelled(tenant="blue"))),
    Leaf("rest"),
)
DIRECTORY = Directory.of(LEAVES, "rest", [Reach(frozenset({"karmada-system"}))])


@pytest.mark.parametrize(
    ("namespace", "labels", "leaf"),
    [
        ("web", {}, "web/quota"),
        ("a", {}, "teams"),
        ("anything", {"tenant": "blue"}, "tenant"),
        ("other", {"tenant": "red"}, "rest"),
        ("karmada-system", {"tenant": "blue"}, None),
        ("web", {"tenant": "blue"}, "web/quota"),
        ("a", {"tenant": "blue"}, "teams"),
    ],
)
def test_a_namespace_has_its_leaf(namespace: str, labels: dict[str, str], leaf: str | None) -> None:
    assert DIRECTORY.leaf_of(namespace, labels) == leaf


@pytest.mark.parametrize(
    ("namespace", "name", "leaf"),
    [("web", "quota", "web/quota"), ("a", "teams", "teams"), ("guest", "teams", "teams"), ("guest", "rest", "rest")],
)
def test_a_quota_may_be_named_that_is_for_the_namespace_or_offered_to_it(namespace: str, name: str, leaf: str) -> None:
    assert DIRECTORY.leaf_of(namespace, {}, name) == leaf


@pytest.mark.parametrize(
    ("namespace", "name", "complaint"),
    [
        ("web", "teams", "teams is not for namespace web"),
        ("a", "quota", "there is no quota quota"),
        ("a", "nothing", "there is no quota nothing"),
    ],
)
def test_a_quota_of_somebody_else_is_refused(namespace: str, name: str, complaint: str) -> None:
    with pytest.raises(AssociationError, match=complaint):
        DIRECTORY.leaf_of(namespace, {}, name)


def test_without_a_default_group_what_has_no_quota_is_under_no_tree() -> None:
    assert Directory.of(LEAVES).leaf_of("other", {}) is None


@pytest.mark.parametrize(
    ("selector", "labels", "is_taken"),
    [
        ({}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
    ],
)
def test_selectors_are_kubernetes_own(selector: dict[str, object], labels: dict[str, str], is_taken: bool) -> None:
    assert LabelSelector.read(selector).matches(labels) is is_taken


@pytest.mark.parametrize(
    ("selector", "path"),
    [
        ("all", "s"),
        ({"matchLabels": ["a"]}, "s.matchLabels"),
        ({"matchLabels": {"-": "1"}}, "s.matchLabels"),
        ({"matchLabels": {"a": "b c"}}, "s.matchLabels[a]"),
        ({"matchExpressions": {}}, "s.matchExpressions"),
        ({"matchExpressions": ["a"]}, "s.matchExpressions[0]"),
        ({"matchExpressions": [{"key": "a", "operator": "Like"}]}, "s.matchExpressions[0].operator"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "s.matchExpressions[0].values"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]}, "s.matchExpressions[0].values"),
        ({"matchExpressions": [{"key": "A_/b", "operator": "Exists"}]}, "s.matchExpressions[0].key"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}, "s.matchExpressions[0].values[0]"),
    ],
)
def test_what_is_wrong_with_a_selector_is_named(selector: object, path: str) -> None:
    assert [error.path for error in validate(selector, "s")] == [path]
    with pytest.raises(SelectorError):
        LabelSelector.read(selector)  # type: ignore[arg-type] # whatever came


# Clusters


def cluster(name: str, cpu: int, ready: bool = True, **labels: str) -> Cluster:
    return Cluster(name, labels, Resources.parse({"cpu": cpu}), ready)


def test_every_cluster_belongs_to_one_tree() -> None:
    clusters = [cluster("m1", 1), cluster("m2", 2, zone="x"), cluster("m3", 4, zone="x", kind="gpu"), cluster("m4", 8)]
    claims = [Claim("default"), Claim("zone", labelled(zone="x")), Claim("gpus", labelled(kind="gpu"))]
    held = share_out(claims, clusters)
    assert {tree: holding.clusters for tree, holding in held.items()} == {
        "default": ("m1", "m4"),
        "gpus": ("m3",),
        "zone": ("m2",),
    }
    assert held["zone"].contested == {"m3": "gpus"}
    assert held["default"].allocatable == Resources.parse({"cpu": 9})


def test_a_cluster_that_is_not_ready_adds_nothing() -> None:
    holding = share_out([Claim("default")], [cluster("m1", 4), cluster("m2", 4, ready=False)])["default"]
    assert holding.absent == ("m2",)
    assert holding.allocatable == Resources.parse({"cpu": 4})


def test_what_the_system_uses_is_not_shared_and_a_fixed_total_goes_before_the_clusters() -> None:
    there, system = (
        Resources.parse({"cpu": "10500u", "memory": "10"}),
        Resources.parse({"cpu": "2500u", "memory": "90"}),
    )
    assert Forest().total("default", there, system) == {"cpu": 7, "memory": 0}
    fixed = Forest.of(roots=[Root(fixed=Resources.parse({"cpu": 3}))])
    assert fixed.total("default", there, system) == {"cpu": 2997}
