"""What of elastic quotas and trees may be stored, and by whom, on the real federation.

Each test has a tree of its own with a total of its own, so that nothing else is shared with or taken from anybody.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from localfed.federation import Federation
from localfed.kubectl import KubectlError
from tests.federation.stage import eventually

pytestmark = pytest.mark.federation

Object = dict[str, Any]


@dataclass(frozen=True)
class Grove:
    """A tree, and the verbs of a test in it. Names are the test's own."""

    federation: Federation
    name: str

    def tree(self, **spec: object) -> Object:
        return self._object("QuotaTree", self.name, {"total": {"cpu": 100}, **spec})

    def composite(self, name: str, **spec: object) -> Object:
        return self._object("CompositeElasticQuota", self.called(name), {"tree": self.name, **spec})

    def elastic(self, namespace: str, **spec: object) -> Object:
        found = self._object("ElasticQuota", "quota", {"tree": self.name, **spec})
        return {**found, "metadata": {**found["metadata"], "namespace": namespace}}

    def called(self, name: str) -> str:
        return f"{self.name}-{name}"

    def apply(self, *objects: Object, user: str = "") -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self.kubectl("apply", "-f", "-", *_as(user), manifest=json.dumps(listed))

    def refusal(self, *objects: Object, user: str = "") -> str:
        """Why these are not stored."""
        with pytest.raises(KubectlError) as refused:
            self.apply(*objects, user=user)
        return refused.value.stderr

    def delete(self, kind: str, name: str, *more: str, user: str = "") -> str:
        return self.kubectl("delete", kind, name, *more, *_as(user))

    def kubectl(self, *arguments: str, manifest: str | None = None) -> str:
        return self.federation.kubectl(*arguments, manifest=manifest)

    def _object(self, kind: str, name: str, spec: Object) -> Object:
        metadata = {"name": name, "labels": {"test": self.name}}
        return {"apiVersion": "quota.karmada.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _as(user: str) -> list[str]:
    return [f"--as={user}"] if user else []


@pytest.fixture
def grove(federation: Federation, namespace: str) -> Iterator[Grove]:
    found = Grove(federation, namespace)
    found.apply(found.tree())
    yield found
    for kind in ("elasticquotas", "compositeelasticquotas"):  # leaves first, then what is above them
        eventually(partial(_is_clear, found, kind), what=f"no {kind} of this test are left")
    found.delete("quotatree", found.name)


def _is_clear(grove: Grove, kind: str) -> bool:
    places = ["-A"] if kind == "elasticquotas" else []
    items = grove.federation.kubectl.json("get", kind, *places, "-l", f"test={grove.name}")["items"]
    for one in items:
        place = ["-n", one["metadata"]["namespace"]] if "namespace" in one["metadata"] else []
        try:
            grove.delete(kind, one["metadata"]["name"], *place)
        except KubectlError as error:
            if "below it" not in error.stderr:  # its children come first
                raise
    return not items


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


def test_managers_change_what_is_below_their_node_and_nothing_else(grove: Grove, namespace: str) -> None:
    user = f"ann-{namespace}"
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
    try:
        managers = [{"kind": "User", "name": user}]
        dept = grove.composite("dept", min={"cpu": 10}, managers=managers)
        grove.apply(dept)
        below = grove.elastic(namespace, parent=grove.called("dept"), min={"cpu": 6})
        eventually(lambda: "created" in _try(grove, below, user), what="the role is in force")
        assert "configured" in grove.apply({**below, "spec": {**below["spec"], "max": {"cpu": 9}}}, user=user)

        raised = {**dept, "spec": {**dept["spec"], "min": {"cpu": 50}}}
        for refused in (raised, grove.composite("mine", min={"cpu": 1})):
            assert "names them in spec.managers" in grove.refusal(refused, user=user)
        said = grove.refusal({**below, "spec": {**below["spec"], "min": {"cpu": 11}}}, user=user)
        assert "more than its own min" in said, "the rules are the same for managers"
        with pytest.raises(KubectlError, match=r"spec\.managers"):
            grove.delete("ceq", grove.called("dept"), user=user)
        assert "deleted" in grove.delete("eq", "quota", "-n", namespace, user=user)
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            grove.delete(kind, grove.name)


def _try(grove: Grove, one: Object, user: str) -> str:
    try:
        return grove.apply(one, user=user)
    except KubectlError as error:
        if "cannot" not in error.stderr:  # RBAC has not heard of it yet
            raise
        return ""


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
