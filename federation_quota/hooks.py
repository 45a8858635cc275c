"""Our webhook configurations on the federation API server, as manifests. Pure: applying them is the controller's.

Each hook is told of as little as it can be: `matchConditions` let the API server itself pass what cannot matter, so
that deletions, finalizers and untouched specs cost no call and do not depend on us being there.
"""

import base64
from typing import Any, Final

from federation_quota.names import MUTATING, PARTS, VALIDATING
from federation_quota.pki.publishing import Hook
from federation_quota.stamp import HELD_LABEL, STAMP_ANNOTATION

VALIDATE_BINDINGS: Final = "/validate/resourcebindings"
STAMP_BINDINGS: Final = "/mutate/resourcebindings"
VALIDATE_QUOTAS: Final = "/validate/karmadaquotas"

_TIMEOUT_SECONDS: Final = 10


def configurations(url: str, bundle: bytes) -> list[dict[str, Any]]:
    """Every configuration, for hooks served at `url` and trusted by `bundle`."""
    return [
        _configuration(
            "ValidatingWebhookConfiguration",
            VALIDATING,
            [
                _hook(
                    "resourcebindings.quota.karmada.io",
                    url + VALIDATE_BINDINGS,
                    bundle,
                    _bindings(),
                    _alive(),
                    _changes(),
                ),
                _hook("karmadaquotas.quota.karmada.io", url + VALIDATE_QUOTAS, bundle, _quotas(), _alive()),
            ],
        ),
        _configuration(
            "MutatingWebhookConfiguration",
            MUTATING,
            [_hook("stamp.quota.karmada.io", url + STAMP_BINDINGS, bundle, _bindings(), _alive(), _changes())],
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


def _bindings() -> dict[str, Any]:
    return _rule("work.karmada.io", "v1alpha2", ["resourcebindings"])


def _quotas() -> dict[str, Any]:
    return _rule("quota.karmada.io", "v1alpha1", ["karmadaquotas", "karmadaquotas/status"])


def _rule(group: str, version: str, resources: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": resources,
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }


def _alive() -> dict[str, str]:
    """What is being deleted only loses finalizers: nothing must stand in its way."""
    return {"name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}


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


def _value(owner: str, field: str, key: str) -> str:
    """A label's or annotation's value, or nothing, in CEL."""
    metadata = f"{owner}.metadata"
    return f"(has({metadata}.{field}) && {key!r} in {metadata}.{field} ? {metadata}.{field}[{key!r}] : '')"
