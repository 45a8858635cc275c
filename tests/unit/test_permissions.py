"""The means by which least privilege is proved can tell: what was refused, what was used, and what covers what."""

from typing import Any

from tests.federation.permissions import Grant, Use, grants, refused, uses


def entry(verb: str, resource: str, *, code: int = 200, decision: str = "allow", **reference: str) -> dict[str, Any]:
    return {
        "user": {"username": "it"},
        "verb": verb,
        "objectRef": {"resource": resource, **reference},
        "responseStatus": {"code": code},
        "annotations": {"authorization.k8s.io/decision": decision},
    }


def test_what_no_role_allowed_is_refused_and_not_used() -> None:
    found = [entry("get", "secrets", code=403, decision="forbid", namespace="a", name="b")]
    assert refused(found) == {Use("it", "get", "", "secrets", "a", "b")}
    assert uses(found) == set()


def test_what_a_webhook_refused_was_allowed_by_roles() -> None:
    found = [entry("patch", "resourcebindings", code=403, apiGroup="work.karmada.io", namespace="a", name="b")]
    assert refused(found) == set()
    assert len(uses(found)) == 1


def test_an_apply_that_created_something_used_two_rights() -> None:
    found = uses([entry("patch", "flowschemas", code=201, apiGroup="flowcontrol.apiserver.k8s.io", name="q")])
    assert {use.verb for use in found} == {"patch", "create"}
    assert {use.verb for use in uses([entry("patch", "flowschemas", code=200, name="q")])} == {"patch"}


def test_subresources_are_other_resources() -> None:
    (use,) = uses([entry("update", "karmadaquotas", subresource="status", namespace="a", name="q")])
    assert not Grant("it", "update", "", "karmadaquotas").covers(use)
    assert Grant("it", "update", "", "karmadaquotas/status").covers(use)


def test_a_grant_covers_its_namespace_and_name_alone() -> None:
    use = Use("it", "get", "", "secrets", "a", "b")
    assert Grant("it", "get", "", "secrets").covers(use)
    assert Grant("it", "get", "", "secrets", "a", "b").covers(use)
    assert not Grant("it", "get", "", "secrets", "elsewhere").covers(use)
    assert not Grant("it", "get", "", "secrets", "a", "other").covers(use)
    assert not Grant("it", "list", "", "secrets").covers(use)
    assert not Grant("another", "get", "", "secrets").covers(use)


def test_what_bindings_grant_is_found_for_every_kind_of_subject() -> None:
    rules = [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get", "watch"]}]
    role = {"kind": "Role", "metadata": {"name": "r", "namespace": "n"}, "rules": rules}
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": "r", "namespace": "n"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "m"}, {"kind": "User", "name": "u"}],
    }
    found = grants([role, binding])
    assert len(found) == 8
    assert Grant("system:serviceaccount:m:s", "watch", "", "secrets", "n", "b") in found
    assert Grant("u", "get", "", "secrets", "n", "a") in found
    assert grants([role]) == set()
