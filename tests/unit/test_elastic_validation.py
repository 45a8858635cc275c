"""What may be stored: what a quota says of itself, how it fits beside the others, and who may change it."""

from typing import Any

import pytest

from federation_quota.elastic import topology, validation
from federation_quota.elastic.capacity import Cluster
from federation_quota.elastic.forest import FAIR_SHARE, Forest, Root, read_root
from federation_quota.elastic.quota import COMPOSITE, ELASTIC, Quota, QuotaError, name_of, read
from federation_quota.field_error import FieldError
from federation_quota.label_selector import LabelSelector
from federation_quota.resources import Resources

Stored = dict[str, Any]
OFFER = {"namespaces": ["a"]}


def elastic(name: str = "q", namespace: str = "team", status: Stored | None = None, **spec: object) -> Stored:
    metadata = {"name": name, "namespace": namespace}
    return {"kind": ELASTIC, "metadata": metadata, "spec": spec, "status": status or {}}


def composite(name: str, status: Stored | None = None, **spec: object) -> Stored:
    return {"kind": COMPOSITE, "metadata": {"name": name}, "spec": spec, "status": status or {}}


def paths(errors: list[FieldError]) -> list[str]:
    return [error.path for error in errors]


# By itself


def test_the_example_of_the_document_is_valid() -> None:
    stored = elastic(min={"cpu": 2, "n8s.nebuly.ai/gpu-memory": 16}, max={"cpu": 10})
    assert validation.validate_quota(stored) == []
    quota = read(stored)
    assert quota.node.min == {"cpu": 2000, "quota.karmada.io/gpu-memory": 16}
    assert quota.node.max == {"cpu": 10000}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"min": {"cpu": "-1"}}, "spec.min[cpu]"),
        ({"max": {"cpu": "much"}}, "spec.max[cpu]"),
        ({"min": {"cpu": 2}, "max": {"cpu": 1}}, "spec.min[cpu]"),
        ({"min": {"requests.cpu": 2}, "max": {"cpu": 1}}, "spec.min[cpu]"),
        ({"max": {"cpu": 2, "requests.cpu": 1}}, "spec.max[requests.cpu]"),
        ({"min": {"cpu": "1500u"}}, "spec.min[cpu]"),
        ({"min": {"memory": "100m"}}, "spec.min[memory]"),
        ({"min": {"count/deployments.apps": 3}}, "spec.min[count/deployments.apps]"),
        ({"min": {"limits.cpu": 3}}, "spec.min[limits.cpu]"),
        ({"min": 3}, "spec.min"),
        ({"sharedWeight": {"cpu": -1}}, "spec.sharedWeight[cpu]"),
        ({"admission": {"cpu": "x"}}, "spec.admission[cpu]"),
        ({"strictMax": ["cpu"]}, "spec.strictMax[0]"),
        ({"strictMax": "cpu"}, "spec.strictMax"),
        ({"parent": "No"}, "spec.parent"),
        ({"tree": "No"}, "spec.tree"),
        ({"offeredTo": []}, "spec.offeredTo"),
        ({"offeredTo": {"namespaces": ["a", "a"]}}, "spec.offeredTo.namespaces[1]"),
        ({"offeredTo": {"namespaces": ["a.b"]}}, "spec.offeredTo.namespaces[0]"),
    ],
)
def test_what_is_wrong_with_a_quota_is_named(spec: dict[str, Any], path: str) -> None:
    assert paths(validation.validate_quota(elastic(**spec))) == [path]
    assert validation.validate_quota(elastic(**spec), elastic(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"namespaces": "a"}, "spec.namespaces"),
        ({"namespaceSelector": {"matchLabels": 1}}, "spec.namespaceSelector.matchLabels"),
        ({"parent": "q"}, "spec.parent"),
        ({"managers": "me"}, "spec.managers"),
        ({"managers": ["me"]}, "spec.managers[0]"),
        ({"managers": [{"kind": "Robot", "name": "r"}]}, "spec.managers[0].kind"),
        ({"managers": [{"kind": "User"}]}, "spec.managers[0].name"),
        ({"managers": [{"kind": "User", "name": "me"}], "namespaces": ["a"]}, "spec.managers"),
        ({"managedNamespaces": OFFER, "namespaceSelector": {}}, "spec.managedNamespaces"),
        ({"managedNamespaces": ["a"]}, "spec.managedNamespaces"),
        ({"managedNamespaces": {"namespaces": ["A"]}}, "spec.managedNamespaces.namespaces[0]"),
        ({"managedNamespaces": {"namespaceSelector": 1}}, "spec.managedNamespaces.namespaceSelector"),
    ],
)
def test_what_is_wrong_with_a_composite_is_named(spec: dict[str, Any], path: str) -> None:
    assert paths(validation.validate_quota(composite("q", **spec))) == [path]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"mode": "Chaos"}, "spec.mode"),
        ({"total": {"cpu": -1}}, "spec.total[cpu]"),
        ({"clusterSelector": 1}, "spec.clusterSelector"),
        ({"defaultGroup": "No"}, "spec.defaultGroup"),
        ({"systemGroup": []}, "spec.systemGroup"),
        ({"systemGroup": {"namespaces": ["-"]}}, "spec.systemGroup.namespaces[0]"),
    ],
)
def test_what_is_wrong_with_a_tree_is_named(spec: dict[str, Any], path: str) -> None:
    stored = {"metadata": {"name": "default"}, "spec": spec}
    assert paths(validation.validate_root(stored)) == [path]
    assert validation.validate_root(stored, stored) == []


@pytest.mark.parametrize("spec", [None, 3, "x", []])
def test_what_has_no_shape_at_all_is_refused_or_empty_and_never_a_crash(spec: object) -> None:
    for kind in (ELASTIC, COMPOSITE):
        errors = validation.validate_quota({"kind": kind, "metadata": {"name": "A b"}, "spec": spec})
        assert "metadata.name" in paths(errors)
    assert ("spec" in paths(validation.validate_root({"metadata": {}, "spec": spec}))) is (spec is not None)


def test_max_may_not_fall_below_use_where_it_is_strict() -> None:
    used = {"used": {"cpu": "5"}}
    strict = elastic(max={"cpu": 4}, strictMax=["cpu"], status=used)
    assert paths(validation.validate_quota(strict)) == ["spec.max[cpu]"]
    assert validation.validate_quota(elastic(max={"cpu": 4}, status=used)) == []
    assert validation.validate_quota(elastic(max={"cpu": 5}, strictMax=["cpu"], status=used)) == []


def test_warnings_tell_of_what_has_no_effect() -> None:
    assert validation.warnings(elastic(min={"cpu": 1}, sharedWeight={"cpu": 1})) == []
    assert len(validation.warnings(elastic())) == 1
    assert "sharedWeight[memory]" in validation.warnings(elastic(min={"cpu": 1}, sharedWeight={"memory": 1}))[0]


def test_what_cannot_be_read_says_why() -> None:
    with pytest.raises(QuotaError, match="team/q cannot be used"):
        read(elastic(min={"cpu": "x"}))
    with pytest.raises(QuotaError, match="cannot be used"):
        read(composite("q", namespaceSelector={"matchLabels": 1}))


def test_a_composite_without_namespaces_is_a_parent_unless_it_is_the_default_group() -> None:
    assert read(composite("q")).is_parent
    assert not read(composite("q"), is_default_group=True).is_parent
    leaves = [composite("q", namespaces=["a"]), composite("q", namespaceSelector={}), composite("q", offeredTo=OFFER)]
    assert not any(read(leaf).is_parent for leaf in leaves)
    assert not read(elastic()).is_parent
    assert name_of(elastic("x", "y")) == "y/x"


# Beside the others


def quotas(*stored: dict[str, Any]) -> list[Quota]:
    return [read(one) for one in stored]


DEPARTMENT = composite("dept", min={"cpu": 10}, managers=[{"kind": "Group", "name": "leads"}])
FOREST = Forest.of(
    quotas(
        DEPARTMENT,
        composite("sub", parent="dept", min={"cpu": 4}, managers=[{"kind": "User", "name": "ann"}]),
        elastic("q", "a", parent="sub", min={"cpu": 3}),
        composite("pair", parent="dept", min={"cpu": 2}, namespaces=["x", "y"], status={"used": {"cpu": 1}}),
        composite("tenant", namespaceSelector={"matchLabels": {"tenant": "blue"}}, status={"held": 2}),
        composite("gpu-parent", tree="gpus"),
    ),
    [Root("gpus", clusters=LabelSelector.read({"matchLabels": {"kind": "gpu"}})), Root("fair", mode=FAIR_SHARE)],
    {"a": {}, "x": {}, "y": {}, "blue-1": {"tenant": "blue"}, "free": {}},
    [Cluster("m1", {"kind": "gpu", "zone": "x"}), Cluster("m2", {"zone": "x"})],
)


def refusals(new: dict[str, Any], forest: Forest = FOREST) -> list[str]:
    quota = read(new)
    return paths(topology.check_quota(forest, quota, forest.quotas.get(quota.name)))


def test_what_fits_is_accepted() -> None:
    assert refusals(elastic("q", "free", parent="dept", min={"cpu": 4})) == []
    assert refusals(elastic("q", "free", min={"cpu": 4000})) == []  # the first level may be promised more than there is
    assert refusals(elastic("q", "free", parent="dept", max={"cpu": 4000})) == []  # more than the parent's max


def test_below_the_first_level_mins_are_within_the_parents() -> None:
    assert refusals(elastic("q", "free", parent="dept", min={"cpu": 5})) == ["spec.min[cpu]"]
    assert refusals(elastic("q", "free", parent="dept", min={"memory": 1})) == ["spec.min[memory]"]
    assert refusals(composite("dept", min={"cpu": 5})) == ["spec.min[cpu]"]
    assert refusals(composite("dept", min={"cpu": 6})) == []


def test_one_that_asks_for_none_is_not_stopped_by_what_others_have() -> None:
    broken = FOREST.with_quota(read(composite("dept", min={"cpu": 1})))
    assert refusals(elastic("q", "free", parent="dept", min={}), broken) == []


@pytest.mark.parametrize(
    ("new", "path"),
    [
        (elastic("q", "free", parent="nobody"), "spec.parent"),
        (elastic("q", "free", parent="pair"), "spec.parent"),
        (elastic("q", "free", parent="gpu-parent"), "spec.parent"),
        (elastic("q", "free", tree="none"), "spec.tree"),
        (elastic("q", "free", tree="fair", parent="dept"), "spec.parent"),
        (composite("dept", parent="sub", min={"cpu": 10}), "spec.parent"),
        (composite("sub", parent="sub", min={"cpu": 4}), "spec.parent"),
        (elastic("other", "a"), "metadata.namespace"),
        (elastic("q", "x"), "metadata.namespace"),
        (elastic("q", "blue-1"), "metadata.namespace"),
        (composite("more", namespaces=["free", "a"]), "spec.namespaces"),
        (composite("more", namespaces=["y"]), "spec.namespaces"),
        (composite("more", namespaceSelector={"matchLabels": {"tenant": "blue"}}), "spec.namespaceSelector"),
        (composite("dept", min={"cpu": 10}, namespaces=["free"]), "spec.namespaces"),
        (composite("pair", parent="dept", min={"cpu": 2}), "spec.namespaces"),
        (composite("tenant"), "spec.namespaces"),
        (composite("tenant", tree="gpus", namespaceSelector={"matchLabels": {"tenant": "blue"}}), "spec.tree"),
        (composite("sub", tree="gpus", parent="gpu-parent", min={}), "spec.tree"),
        (composite("gpu-parent"), "spec.tree"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(new: dict[str, Any], path: str) -> None:
    assert path in refusals(new)


def test_an_idle_leaf_may_become_a_parent_and_a_childless_parent_a_leaf() -> None:
    idle = FOREST.with_quota(read(composite("idle", namespaces=["free"])))
    assert refusals(composite("idle"), idle) == []
    assert refusals(composite("gpu-parent", tree="gpus", namespaces=["free"])) == []


def test_a_quota_may_move_where_the_rules_hold() -> None:
    assert refusals(elastic("q", "a", parent="dept", min={"cpu": 3})) == []
    assert refusals(elastic("q", "a", parent="dept", min={"cpu": 5})) == ["spec.min[cpu]"]
    assert refusals(composite("sub", min={"cpu": 4})) == []


def test_what_is_used_is_kept_only_where_it_can_be_guaranteed() -> None:
    stored = quotas(
        composite("p", min={"cpu": 10}),
        elastic("q", "a", parent="p", status={"used": {"cpu": 2}}),
        elastic("q", "b", parent="p", status={"used": {"cpu": 7}}),
    )
    keeping = Forest.of(stored, [Root(keeps_used=True)], {"a": {}, "b": {}})
    assert refusals(elastic("q", "a", parent="p", min={"cpu": 3}), keeping) == []
    forest = keeping.with_quota(read(elastic("q", "b", parent="p", status={"used": {"cpu": 8}})))
    assert refusals(elastic("q", "a", parent="p", min={"cpu": 3}, status={"used": {"cpu": 2}}), forest) == [
        "spec.min[cpu]"
    ]
    assert refusals(elastic("q", "a", parent="p", min={"cpu": 2}, status={"used": {"cpu": 2}}), forest) == []
    assert refusals(elastic("q", "a", parent="p", min={"cpu": 3}), Forest.of(stored)) == []


def test_nothing_is_deleted_that_others_hang_on() -> None:
    def deletion(name: str, **more: bool) -> list[FieldError]:
        return topology.check_quota_deletion(FOREST, FOREST.quotas[name], **more)

    assert "sub" in deletion("dept")[0].detail
    assert "workloads" in deletion("pair")[0].detail
    assert deletion("pair", is_namespace_going=True) == []
    assert deletion("a/q") == []
    named = Forest.of(FOREST.quotas.values(), [Root(default_group="gpu-parent")])
    assert "default group" in topology.check_quota_deletion(named, named.quotas["gpu-parent"])[0].detail


def test_trees_do_not_share_clusters() -> None:
    def tree(name: str, **labels: str) -> Root:
        return Root(name, clusters=LabelSelector.read({"matchLabels": labels}))

    assert paths(topology.check_root(FOREST, tree("zone", zone="x"))) == ["spec.clusterSelector"]
    assert "m1" in topology.check_root(FOREST, tree("a-zone", zone="x"))[0].detail
    assert topology.check_root(FOREST, tree("zone", zone="y")) == []
    assert topology.check_root(FOREST, tree("gpus", kind="gpu")) == []
    assert paths(topology.check_root(FOREST, Root("more"))) == ["spec.clusterSelector"]
    assert topology.check_root(FOREST, Root("more", fixed=Resources.parse({"cpu": 1}))) == []


def test_a_tree_that_shares_fairly_has_one_level() -> None:
    assert paths(topology.check_root(FOREST, Root(mode=FAIR_SHARE))) == ["spec.mode"]
    assert topology.check_root(Forest.of(quotas(elastic())), Root(mode=FAIR_SHARE)) == []


def test_the_default_group_is_a_leaf_of_the_default_tree() -> None:
    def group(name: str, tree: str = "default") -> list[str]:
        fixed = Resources.parse({"cpu": 1})
        return paths(topology.check_root(FOREST, Root(tree, default_group=name, fixed=fixed)))

    assert group("tenant") == []
    assert group("nobody") == group("dept") == group("gpu-parent") == group("tenant", "more") == ["spec.defaultGroup"]


IN_USE = Forest.of(
    quotas(
        composite("rest", status={"used": {"cpu": 1}}),
        composite("idle"),
        composite("tenant", namespaces=["x"], status={"held": 1}),
        elastic(),
    ),
    namespaces={"kube-system": {}, "logging": {"tier": "system"}, "x": {}},
)
SYSTEM = {"namespaces": ["kube-system", "gone"], "namespaceSelector": {"matchLabels": {"tier": "system"}}}


def tree(**spec: object) -> Root:
    return read_root({"metadata": {"name": "default"}, "spec": spec})


@pytest.mark.parametrize(
    ("before", "after", "is_lost"),
    [
        ("rest", None, True),
        ("rest", "idle", True),
        ("rest", "rest", False),
        ("idle", "rest", False),
        ("tenant", None, False),
        ("nobody", None, False),
        (None, "idle", False),
    ],
)
def test_a_default_group_that_is_for_no_namespace_stays_one_while_it_has_workloads(
    before: str | None, after: str | None, is_lost: bool
) -> None:
    errors = topology.check_root(IN_USE, tree(defaultGroup=after), tree(defaultGroup=before))
    assert paths(errors) == (["spec.defaultGroup"] if is_lost else [])
    if after is None:
        assert paths(topology.check_root_deletion(IN_USE, tree(defaultGroup=before))) == paths(errors)


def test_a_namespace_stays_in_the_system_group_while_something_runs_there() -> None:
    def change(new: Root, *busy: str, forest: Forest = IN_USE) -> list[str]:
        errors = topology.check_root(forest, new, tree(systemGroup=SYSTEM), busy.__contains__)
        assert set(paths(errors)) <= {"spec.systemGroup"}
        return [error.detail.split()[0] for error in errors]

    assert change(tree(), "kube-system", "logging", "x") == ["kube-system", "logging"]
    assert change(tree(systemGroup={"namespaces": ["kube-system"]}), "kube-system", "logging") == ["logging"]
    assert change(tree(systemGroup={"namespaceSelector": {}}), "kube-system", "logging") == []
    assert change(tree(), "x") == []
    assert change(tree(), "kube-system", forest=Forest.of()) == [], "where nothing is shared nothing is lost"
    deleted = topology.check_root_deletion(IN_USE, tree(systemGroup=SYSTEM), {"logging"}.__contains__)
    assert "they would be charged to no quota" in deleted[0].detail
    assert topology.check_root_deletion(IN_USE, tree(systemGroup=SYSTEM)) == []


# Namespaces

CLAIMED = Forest.of(
    quotas(
        composite("blue", namespaceSelector={"matchLabels": {"tenant": "blue"}}),
        composite("big", namespaceSelector={"matchLabels": {"size": "big"}}),
        composite("listed", namespaces=["x"]),
        elastic("q", "own"),
    ),
    [tree(systemGroup=SYSTEM)],
)
BLUE, BIG, BOTH = {"tenant": "blue"}, {"size": "big"}, {"tenant": "blue", "size": "big"}


@pytest.mark.parametrize(
    ("name", "new", "old", "claimed"),
    [
        ("n", BOTH, None, "big, blue"),
        ("n", BOTH, BLUE, "big, blue"),
        ("n", BOTH, {}, "big, blue"),
        ("x", BLUE, {}, "blue, listed"),
        ("x", BLUE, None, "blue, listed"),
        ("own", BIG, {}, "big, own/q"),
        ("n", BIG, BLUE, ""),
        ("n", {}, BLUE, ""),
        ("n", BLUE, None, ""),
        ("n", {**BOTH, "note": "x"}, BOTH, ""),  # it was so before
    ],
)
def test_a_namespace_is_not_labelled_into_a_second_quota(
    name: str, new: dict[str, str], old: dict[str, str] | None, claimed: str
) -> None:
    errors = topology.check_namespace(CLAIMED, name, new, old)
    assert paths(errors) == (["metadata.labels"] if claimed else [])
    assert all(f"{name} would fall under the quotas {claimed}:" in error.detail for error in errors)


def test_a_namespace_is_not_labelled_out_of_the_system_group_while_something_runs_there() -> None:
    def relabelled(new: dict[str, str], old: dict[str, str] | None, *busy: str) -> list[str]:
        return paths(topology.check_namespace(CLAIMED, "logging", new, old, busy.__contains__))

    assert relabelled({}, {"tier": "system"}, "logging") == ["metadata.labels"]
    assert relabelled({}, {"tier": "system"}) == []
    assert relabelled({"tier": "system", "new": "label"}, {"tier": "system"}, "logging") == []
    assert relabelled({}, {}, "logging") == relabelled({}, None, "logging") == []


def test_a_tree_with_quotas_in_it_stays() -> None:
    assert paths(topology.check_root_deletion(FOREST, FOREST.roots["gpus"])) == ["metadata.name"]
    assert topology.check_root_deletion(FOREST, FOREST.roots["fair"]) == []
    assert topology.check_root_deletion(FOREST, Root()) == []


def test_a_tree_is_read_as_it_is_stored() -> None:
    spec = {
        "clusterSelector": {"matchLabels": {"a": "b"}},
        "total": {"cpu": 4},
        "mode": "FairShare",
        "scaleMin": False,
        "keepUsed": True,
        "reclaim": {"enabled": False, "delaySeconds": 7},
        "systemGroup": {"namespaces": ["kube-system"]},
        "defaultGroup": "rest",
    }
    root = read_root({"metadata": {"name": "t"}, "spec": spec})
    assert (root.name, root.mode, root.scales_min, root.keeps_used) == ("t", FAIR_SHARE, False, True)
    assert (root.reclaims, root.reclaim_delay_seconds, root.default_group) == (False, 7, "rest")
    assert root.system.covers("kube-system", {})
    assert root.fixed == Resources.parse({"cpu": 4})
    assert read_root({"metadata": {"name": "default"}}) == Root()
