"""Our webhook configurations on the federation API server, as manifests. Pure: applying them is the controller's.

Each hook is told of as little as it can be: `matchConditions` let the API server itself pass what cannot matter, so
that deletions, finalizers and untouched specs cost no call and do not depend on us being there.

Three configurations, by what happens when nobody answers. What decides, and what stamps, fails closed. The early word
to people fails open: it stands in nobody's way, and what it could not say is said later by what decides. So does the
review of namespaces: everybody makes some, and of two quotas that claim the same one, one has it in any case.
"""

import base64
import json
from collections.abc import Iterable
from typing import Any, Final

from federation_quota.group_resource import WORKLOADS, GroupResource, by_group
from federation_quota.names import ADVISING, MUTATING, PARTS, VALIDATING
from federation_quota.pki.publishing import Hook
from federation_quota.stamp import (
    HELD_LABEL,
    OWNER_ANNOTATION,
    QUOTA_NAME_LABEL,
    STAMP_ANNOTATION,
    TENANT_LABEL,
    TRUE,
)

VALIDATE_BINDINGS: Final = "/validate/resourcebindings"
STAMP_BINDINGS: Final = "/mutate/resourcebindings"
STAMP_TEMPLATES: Final = "/mutate/templates"
GUARD_BINDINGS: Final = "/guard/resourcebindings"
GUARD_ACCOUNTS: Final = "/guard/usageaccounts"
VALIDATE_QUOTAS: Final = "/validate/karmadaquotas"
VALIDATE_ELASTIC: Final = "/validate/elastic"
MANAGE_ELASTIC: Final = "/manage/elastic"
VALIDATE_NAMESPACES: Final = "/validate/namespaces"
VALIDATE_WORKS: Final = "/validate/works"
VALIDATE_TENANTS: Final = "/validate/tenants"
WARN_WORKLOADS: Final = "/warn/workloads"
DENY_WORKLOADS: Final = "/deny/workloads"

BINDINGS_HOOK: Final = "resourcebindings.quota.karmada.io"
IDENTITY_HOOK: Final = "identity.quota.karmada.io"
WRITERS_HOOK: Final = "writers.quota.karmada.io"
ACCOUNTS_HOOK: Final = "usageaccounts.quota.karmada.io"

DENY_AT_APPLY_LABEL: Final = "quota.karmada.io/deny-at-apply"
"""On a namespace, `"true"`: a workload that its quota would refuse is refused when it is applied, not only later. The
API server looks at it to choose between our two hooks for workloads."""

_TIMEOUT_SECONDS: Final = 10
# Somebody waits at a terminal, and gets on without our word.
_OPEN: Final = {"failurePolicy": "Ignore", "sideEffects": "None", "timeoutSeconds": 3}

_ELASTIC: Final = ("elasticquotas", "compositeelasticquotas")
# Where an object itself is written there is no such key at all.
_IS_STATUS: Final = "(has(request.subResource) && request.subResource == 'status')"
_SETS_SPEC: Final = "request.operation != 'UPDATE' || object.spec != oldObject.spec"
# Who administers quotas is who may do the same to a tree. Kubernetes' own controllers, which delete what is in a
# namespace that goes, may.
_IS_ADMINISTRATOR: Final = (
    "authorizer.group('quota.karmada.io').resource('quotatrees').check("
    "request.operation == 'CREATE' ? 'create' : request.operation == 'DELETE' ? 'delete' : 'update').allowed()"
)

# What Karmada's Works say of themselves, and where it keeps them.
_BINDING_NAME: Final = "resourcebinding.karmada.io/name"
_EXECUTION_SPACE: Final = "karmada-es-"
# What has a spec that no pods come from. A kind that is not named here is asked about, and found to be harmless.
_WITHOUT_PODS: Final = [
    "v1/Service",
    "v1/PersistentVolumeClaim",
    "networking.k8s.io/v1/Ingress",
    "networking.k8s.io/v1/NetworkPolicy",
    "policy/v1/PodDisruptionBudget",
]


def configurations(
    url: str, bundle: bytes, system_users: Iterable[str] = (), workloads: Iterable[GroupResource] = WORKLOADS
) -> list[dict[str, Any]]:
    """Every configuration, for hooks served at `url` and trusted by `bundle`. The statuses that the system's own users
    write are nobody else's business; `workloads` are the kinds that have owners."""
    return [
        _configuration(
            "ValidatingWebhookConfiguration",
            VALIDATING,
            [
                # Also what is being deleted: it counts until it is gone, and Karmada's detector may raise it yet.
                _hook(BINDINGS_HOOK, url + VALIDATE_BINDINGS, bundle, _bindings(), _changes()),
                # What is being deleted, too: its finalizer is what has it counted until nothing of it runs.
                _hook(WRITERS_HOOK, url + GUARD_BINDINGS, bundle, _bindings("status"), _by_tenants()),
                _hook(
                    "karmadaquotas.quota.karmada.io",
                    url + VALIDATE_QUOTAS,
                    bundle,
                    _quotas(),
                    _alive(),
                    _foreign(system_users),
                ),
                _hook(
                    "elastic.quota.karmada.io",
                    url + VALIDATE_ELASTIC,
                    bundle,
                    _elastic(["quotatrees", *_ELASTIC, *(f"{one}/status" for one in ("quotatrees", *_ELASTIC))]),
                    _stays(),
                    _foreign(system_users),
                    {"name": "something-that-counts-changes", "expression": f"{_SETS_SPEC} || {_IS_STATUS}"},
                    {"name": "by-an-administrator", "expression": f"{_IS_STATUS} || {_IS_ADMINISTRATOR}"},
                ),
                _hook(
                    "managed.quota.karmada.io",
                    url + MANAGE_ELASTIC,
                    bundle,
                    _elastic(list(_ELASTIC)),
                    _stays(),
                    {"name": "by-somebody-else", "expression": f"!({_IS_ADMINISTRATOR})"},
                ),
                _hook(ACCOUNTS_HOOK, url + GUARD_ACCOUNTS, bundle, _accounts(), _alive(), _by_others(system_users)),
                _hook("works.quota.karmada.io", url + VALIDATE_WORKS, bundle, _works(), _alive(), *_dispatched()),
                _hook(
                    "tenants.quota.karmada.io", url + VALIDATE_TENANTS, bundle, _namespaces(), _alive(), *_assigned()
                ),
            ],
        ),
        _configuration(
            "MutatingWebhookConfiguration",
            MUTATING,
            [
                _hook("stamp.quota.karmada.io", url + STAMP_BINDINGS, bundle, _bindings(), _alive(), _changes()),
                _identity(url + STAMP_TEMPLATES, bundle, workloads),
            ],
        ),
        _configuration(
            "ValidatingWebhookConfiguration",
            ADVISING,
            [
                _advising("warn.quota.karmada.io", url + WARN_WORKLOADS, bundle, "NotIn"),
                _advising("deny.quota.karmada.io", url + DENY_WORKLOADS, bundle, "In"),
                {
                    **_hook(
                        "namespaces.quota.karmada.io",
                        url + VALIDATE_NAMESPACES,
                        bundle,
                        {**_rule("", "v1", ["namespaces"]), "scope": "Cluster"},
                        _alive(),
                        _labels_change(),
                    ),
                    **_OPEN,
                },
            ],
        ),
    ]


def expected() -> list[Hook]:
    """The hooks that must be there, to tell a missing one from one that is not ours."""
    return [
        Hook(configuration["kind"], configuration["metadata"]["name"], hook["name"])
        for configuration in configurations("", b"")
        for hook in configuration["webhooks"]
    ]


def _configuration(kind: str, name: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": PARTS},
        "webhooks": webhooks,
    }


def _hook(name: str, url: str, bundle: bytes, rule: dict[str, Any], *conditions: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(bundle).decode()},
        "rules": [rule],
        "matchConditions": list(conditions),
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def _advising(name: str, url: str, bundle: bytes, operator: str) -> dict[str, Any]:
    """A hook for the workloads of the namespaces whose label is, or is not, set. It fails open."""
    asked = {"key": DENY_AT_APPLY_LABEL, "operator": operator, "values": [TRUE]}
    return {
        **_hook(name, url, bundle, _workloads(), _alive(), _asks_otherwise()),
        "rules": [_workloads(), _rule("batch", "v1", ["jobs"]), _rule("", "v1", ["pods"], ["CREATE"])],
        "namespaceSelector": {"matchExpressions": [asked]},
        **_OPEN,
    }


def _identity(url: str, bundle: bytes, workloads: Iterable[GroupResource]) -> dict[str, Any]:
    """The hook for owners. What is being deleted is not left out: whose it is counts until it is gone.

    Subresources are asked about, too: a status may be written together with annotations.
    """
    rules = []
    for group, plurals in by_group(workloads).items():
        changed = [*plurals, *(f"{plural}/*" for plural in plurals)]
        rules += [_rule(group, "*", plurals, ["CREATE"]), _rule(group, "*", changed, ["UPDATE"])]
    return {
        **_hook(IDENTITY_HOOK, url, bundle, {}, _owner_changes()),
        "rules": rules,
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",  # where another hook changed something after us
    }


def _bindings(*subresources: str) -> dict[str, Any]:
    plural = "resourcebindings"
    return _rule("work.karmada.io", "v1alpha2", [plural, *(f"{plural}/{one}" for one in subresources)])


def _quotas() -> dict[str, Any]:
    return _rule("quota.karmada.io", "v1alpha1", ["karmadaquotas", "karmadaquotas/status"])


def _elastic(resources: list[str]) -> dict[str, Any]:
    """Deletions too: a parent must not go while there are quotas below it."""
    return {**_rule("quota.karmada.io", "v1alpha1", resources, ["CREATE", "UPDATE", "DELETE"]), "scope": "*"}


def _namespaces() -> dict[str, Any]:
    return {**_rule("", "v1", ["namespaces"]), "scope": "Cluster"}


def _accounts() -> dict[str, Any]:
    """One that is deleted is made anew where it is needed, and counts what is stored: that needs no guard."""
    return {**_rule("quota.karmada.io", "v1alpha1", ["usageaccounts", "usageaccounts/status"]), "scope": "Cluster"}


def _works() -> dict[str, Any]:
    return _rule("work.karmada.io", "v1alpha1", ["works"])


def _workloads() -> dict[str, Any]:
    """The kinds of which Karmada itself reads replicas and requests (`workload.replicas`), Jobs and Pods beside."""
    kinds = ["deployments", "statefulsets", "replicasets"]
    return _rule("apps", "v1", [*kinds, *(f"{kind}/scale" for kind in kinds)])


def _rule(group: str, version: str, resources: list[str], operations: list[str] | None = None) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": resources,
        "operations": operations or ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }


def _alive() -> dict[str, str]:
    """What is being deleted only loses finalizers: nothing must stand in its way."""
    return {"name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}


def _stays() -> dict[str, str]:
    """The same, where deletions are asked about: those who ask for one, not what follows of it."""
    alive = _alive()
    return {**alive, "expression": f"request.operation == 'DELETE' || {alive['expression']}"}


def _by_others(system_users: Iterable[str]) -> dict[str, str]:
    return {"name": "not-by-us", "expression": f"!({_is_ours(system_users)})"}


def _is_ours(system_users: Iterable[str]) -> str:
    return f"request.userInfo.username in {json.dumps(sorted(system_users))}"


def _foreign(system_users: Iterable[str]) -> dict[str, str]:
    """A status that we write needs no word of ours: it is written with every batch of admissions."""
    return {"name": "not-our-own-status", "expression": f"!{_IS_STATUS} || !({_is_ours(system_users)})"}


def _by_tenants() -> dict[str, str]:
    """Somebody who may write bindings, but not in all namespaces: a tenant, by the roles that Karmada gives them."""
    kind = "authorizer.group('work.karmada.io').resource('resourcebindings')"
    written = f"(has(request.subResource) && request.subResource == 'status' ? {kind}.subresource('status') : {kind})"
    verbs = ("create",), ("update", "patch")
    may_create, may_change = (" || ".join(f"{written}.check('{verb}').allowed()" for verb in one) for one in verbs)
    expression = f"!(request.operation == 'CREATE' ? {may_create} : ({may_change}))"
    return {"name": "by-who-may-not-everywhere", "expression": expression}


def _changes() -> dict[str, str]:
    """A binding's cost and protection are in its spec, our stamp and our marker; all else may change without us."""
    same = " && ".join(
        ["object.spec == oldObject.spec"]
        + [
            f"{_value('object', field, key)} == {_value('oldObject', field, key)}"
            for field, key in (("annotations", STAMP_ANNOTATION), ("labels", HELD_LABEL))
        ]
    )
    return {"name": "something-that-counts-changes", "expression": f"request.operation == 'CREATE' || !({same})"}


def _asks_otherwise() -> dict[str, str]:
    """What a workload asks for is in its spec, and of whom in its label."""
    new, old = (_value(one, "labels", QUOTA_NAME_LABEL) for one in ("object", "oldObject"))
    same = f"object.spec == oldObject.spec && {new} == {old}"
    return {"name": "asks-otherwise", "expression": f"request.operation == 'CREATE' || !({same})"}


def _labels_change() -> dict[str, str]:
    new, old = (f"(has({one}.metadata.labels) ? {one}.metadata.labels : {{}})" for one in ("object", "oldObject"))
    return {"name": "labels-change", "expression": f"request.operation == 'CREATE' || {new} != {old}"}


def _owner_changes() -> dict[str, str]:
    new, old = (_value(one, "annotations", OWNER_ANNOTATION) for one in ("object", "oldObject"))
    return {"name": "owner-is-new-or-changes", "expression": f"request.operation == 'CREATE' || {new} != {old}"}


def _assigned() -> list[dict[str, str]]:
    """Namespaces that come to be another tenant's, by somebody who may not say so: of either tenant."""
    new, old = (_value(owner, "labels", TENANT_LABEL) for owner in ("object", "oldObject"))
    old = f"(request.operation == 'CREATE' ? '' : {old})"
    may = "authorizer.group('quota.karmada.io').resource('tenants').name({}).check('assign').allowed()"
    return [
        {"name": "changes-its-tenant", "expression": f"{new} != {old}"},
        {
            "name": "by-who-may-not",
            "expression": " || ".join(f"({one} != '' && !{may.format(one)})" for one in (new, old)),
        },
    ]


def _dispatched() -> list[dict[str, str]]:
    """Works that bring a binding's pods to a member, and bring something else than before.

    A condition that is false outweighs one that fails: of what the first three rule out, the last may be too large.
    """
    manifests = "object.spec.workload.manifests"
    has_manifests = "has(object.spec) && has(object.spec.workload) && has(object.spec.workload.manifests)"
    makes_pods = f"has(one.spec) && !(one.apiVersion + '/' + one.kind in {_WITHOUT_PODS!r})"
    return [
        {"name": "in-an-execution-space", "expression": f"request.namespace.startsWith({_EXECUTION_SPACE!r})"},
        {
            "name": "for-a-binding",
            "expression": f"has(object.metadata.annotations) && {_BINDING_NAME!r} in object.metadata.annotations",
        },
        {"name": "may-bring-pods", "expression": f"{has_manifests} && {manifests}.exists(one, {makes_pods})"},
        {
            "name": "manifests-change",
            "expression": "request.operation == 'CREATE' || !has(oldObject.spec.workload)"
            " || object.spec.workload != oldObject.spec.workload",
        },
    ]


def _value(owner: str, field: str, key: str) -> str:
    """A label's or annotation's value, or nothing, in CEL."""
    metadata = f"{owner}.metadata"
    return f"(has({metadata}.{field}) && {key!r} in {metadata}.{field} ? {metadata}.{field}[{key!r}] : '')"
