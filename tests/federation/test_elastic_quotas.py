"""What of elastic quotas and trees may be stored, and by whom, on the real federation.

Each test has a tree of its own with a total of its own, so that nothing else is shared with or taken from anybody.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from localfed.federation import Federation
from localfed.kubectl import KubectlError
from tests.federation.grove import Grove, Object, as_user, growing
from tests.federation.manifests import DIVIDED, deployment, policy
from tests.federation.stage import Stage, eventually

pytestmark = pytest.mark.federation


@pytest.fixture
def grove(federation: Federation, namespace: str) -> Iterator[Grove]:
    with growing(federation, namespace) as found:
        yield found


def test_a_tree_is_applied_in_one_go_and_its_rules_hold(grove: Grove, namespace: str) -> None:
    dept = grove.composite("dept", min={"cpu": 10})
    grove.apply(dept, grove.elastic(namespace, parent=grove.called("dept"), min={"cpu": 6}, max={"cpu": 20}))

    other = grove.composite("other", parent=grove.called("dept"), namespaces=["elsewhere"], min={"cpu": 5})
    said = grove.refusal(other)
    assert "spec.min[cpu]" in said
    assert f"the mins below {grove.called('dept')} are 11, more than its own min, 10" in said

    assert "there would be a circle" in grove.refusal(
        grove.composite("a", parent=grove.called("dept"), min={"cpu": 0}),
        {**dept, "spec": {**dept["spec"], "parent": grove.called("a")}},
    )
    assert "a namespace has one quota" in grove.refusal(grove.composite("twice", namespaces=[namespace]))
    assert "must not be above max" in grove.refusal(grove.composite("b", min={"cpu": 2}, max={"cpu": 1}))
    assert "no such QuotaTree" in grove.refusal(grove.composite("c", tree=grove.called("nowhere")))

    with pytest.raises(KubectlError, match=rf"has .*{namespace}/quota.* below it"):
        grove.delete("ceq", grove.called("dept"))
    with pytest.raises(KubectlError, match="in it: delete or move those first"):
        grove.delete("quotatree", grove.name)


def test_a_status_is_the_systems_alone(grove: Grove, namespace: str) -> None:
    grove.apply(grove.elastic(namespace, min={"cpu": 1}))
    patch = ["--subresource=status", "--type=merge", "-p", '{"status": {"runtime": {"cpu": "1k"}}}']
    for kind, name, place in (("eq", "quota", ["-n", namespace]), ("quotatree", grove.name, [])):
        with pytest.raises(KubectlError, match="is written by federation-quota alone"):
            grove.kubectl("patch", kind, name, *place, *patch)


@contextmanager
def manager(grove: Grove) -> Iterator[str]:
    """Somebody with a role for quotas, and none for trees."""
    user = f"ann-{grove.name}"
    rule = {
        "apiGroups": ["quota.karmada.io"],
        "resources": ["elasticquotas", "compositeelasticquotas"],
        "verbs": ["get", "create", "update", "patch", "delete"],
    }
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [rule]}
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": grove.name}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    del binding["rules"]
    grove.apply(*({**one, "metadata": {"name": grove.name}} for one in (role, binding)))
    can = ["auth", "can-i", "create", "compositeelasticquotas.quota.karmada.io", *as_user(user)]
    try:
        eventually(lambda: "yes" in grove.kubectl(*can), what="the role is in force")
        yield user
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            grove.delete(kind, grove.name)


def department(grove: Grove, user: str, **managed: object) -> Object:
    managers = [{"kind": "User", "name": user}]
    return grove.composite("dept", min={"cpu": 10}, managers=managers, managedNamespaces=managed)


def test_managers_change_what_is_below_their_node_and_nothing_else(grove: Grove, namespace: str) -> None:
    with manager(grove) as user:
        dept = department(grove, user, namespaces=[namespace])
        grove.apply(dept)
        below = grove.elastic(namespace, parent=grove.called("dept"), min={"cpu": 6})
        assert "created" in grove.apply(below, user=user)
        assert "configured" in grove.apply({**below, "spec": {**below["spec"], "max": {"cpu": 9}}}, user=user)

        raised = {**dept, "spec": {**dept["spec"], "min": {"cpu": 50}}}
        for refused in (raised, grove.composite("mine", min={"cpu": 1})):
            assert "names them in spec.managers" in grove.refusal(refused, user=user)
        said = grove.refusal({**below, "spec": {**below["spec"], "min": {"cpu": 11}}}, user=user)
        assert "more than its own min" in said, "the rules are the same for managers"
        with pytest.raises(KubectlError, match=r"spec\.managers"):
            grove.delete("ceq", grove.called("dept"), user=user)
        assert "deleted" in grove.delete("eq", "quota", "-n", namespace, user=user)


def test_managers_give_quotas_to_namespaces_that_were_assigned_to_them(grove: Grove, namespace: str) -> None:
    with manager(grove) as user:
        mine, strange, parent = grove.called("mine"), grove.called("strange"), grove.called("dept")
        for name in (mine, strange):
            grove.kubectl("create", "namespace", name)
        try:
            grove.kubectl("label", "namespace", mine, f"dept={grove.name}")
            selector = {"matchLabels": {"dept": grove.name}}
            grove.apply(department(grove, user, namespaces=[namespace], namespaceSelector=selector))
            for place in (namespace, mine):
                eventually(partial(_claims, grove, grove.elastic(place, parent=parent), user))
            said = grove.refusal(grove.elastic(strange, parent=parent), user=user)
            assert f"namespace {strange} was not assigned to them in spec.managedNamespaces" in said
            for wide in ({}, {"matchLabels": {"team": "blue"}}):
                everything = grove.composite("all", parent=parent, namespaceSelector=wide)
                assert "every namespace that its selector takes" in grove.refusal(everything, user=user)
            narrow = {"matchLabels": {"dept": grove.name, "team": "blue"}}
            grove.apply(grove.composite("blue", parent=parent, namespaceSelector=narrow), user=user)
            below = grove.composite("sub", parent=parent, managers=[{"kind": "User", "name": user}])
            below["spec"]["managedNamespaces"] = {"namespaceSelector": {}}
            grove.apply(below, user=user)
            said = grove.refusal(grove.elastic(strange, parent=grove.called("sub")), user=user)
            assert "was not assigned to them" in said, "nobody hands on more than they have"
            grove.apply(grove.elastic(strange, parent=parent))  # an administrator may
        finally:
            for name in (mine, strange):
                grove.delete("namespace", name, "--wait=false")


def _claims(grove: Grove, one: Object, user: str) -> bool:
    """Whether it could be stored; the label may have yet to be seen."""
    try:
        grove.apply(one, user=user)
    except KubectlError as error:
        if "was not assigned" not in error.stderr:
            raise
        return False
    return True


def test_a_namespace_is_not_labelled_into_a_second_quota(grove: Grove, namespace: str) -> None:
    blue, big = (f"{grove.name}/{name}" for name in ("blue", "big"))
    grove.apply(
        grove.composite("blue", namespaceSelector={"matchLabels": {blue: "yes"}}),
        grove.composite("big", namespaceSelector={"matchLabels": {big: "yes"}}),
    )
    grove.kubectl("label", "namespace", namespace, f"{blue}=yes")
    text = f"{namespace} would fall under the quotas {grove.called('big')}, {grove.called('blue')}"
    with pytest.raises(KubectlError, match=text):
        grove.kubectl("label", "namespace", namespace, f"{big}=yes")
    metadata = {"name": grove.called("new"), "labels": {blue: "yes", big: "yes"}}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    with pytest.raises(KubectlError, match="a namespace has one quota"):
        grove.kubectl("create", "-f", "-", manifest=json.dumps(made))
    grove.kubectl("label", "namespace", namespace, f"{blue}-")
    grove.kubectl("label", "namespace", namespace, f"{big}=yes")
    grove.kubectl("annotate", "namespace", namespace, "note=its labels are as they were")


def test_a_namespace_goes_with_its_quota(grove: Grove) -> None:
    name = grove.called("going")
    grove.kubectl("create", "namespace", name)
    grove.apply(grove.elastic(name, min={"cpu": 1}))
    grove.delete("namespace", name, "--wait=false")
    eventually(lambda: not _exists(grove, "namespace", name), what="it is gone")


def _exists(grove: Grove, kind: str, name: str) -> bool:
    try:
        grove.kubectl("get", kind, name)
    except KubectlError as error:
        if "NotFound" not in error.stderr:
            raise
        return False
    return True


def test_a_namespace_stays_in_the_system_group_while_something_runs_there(grove: Grove, namespace: str) -> None:
    stage = Stage(grove.federation, namespace)
    grove.apply(grove.tree(systemGroup={"namespaces": [namespace]}), grove.composite("team", namespaces=["elsewhere"]))
    stage.apply(policy(DIVIDED), deployment("web", 2))
    eventually(lambda: sum(stage.clusters("web").values()) == 2, what="it runs, and is charged to nobody")
    text = f"{namespace} cannot leave the system group of tree {grove.name} while workloads run there"
    eventually(lambda: text in _said(grove, grove.tree()), what="every replica has seen that it runs")
    assert text in grove.refusal(grove.tree())
    stage.delete("deployment", "web")
    eventually(lambda: "configured" in _said(grove, grove.tree()), what="nothing runs there")


def _said(grove: Grove, one: Object) -> str:
    """What is said about a change that is not made."""
    try:
        return grove.kubectl("apply", "--dry-run=server", "-f", "-", manifest=json.dumps(one))
    except KubectlError as error:
        return error.stderr
