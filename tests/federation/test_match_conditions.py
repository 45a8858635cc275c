"""What the API server asks our hooks about, and what it passes by itself.

Beside the product's own hooks a copy is registered that nobody answers and that fails closed: whatever it is asked
about is refused, and what it is not asked about passes. So it is seen, too, that what cannot matter does not depend on
the webhook being there.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from federation_quota import hooks
from federation_quota.stamp import OWNER_ANNOTATION
from localfed.federation import Federation
from localfed.kubectl import KubectlError
from tests.federation.manifests import deployment
from tests.federation.stage import Stage, eventually

pytestmark = pytest.mark.federation

NOBODY = "https://127.0.0.1:1"
LABEL = "test.quota.karmada.io/probed"
SPACE = "karmada-es-m1"
CREATE = ["create", "--dry-run=server", "-f", "-"]


@contextlib.contextmanager
def nobody_answers(stage: Stage, hook: str, sample: dict[str, Any]) -> Iterator[None]:
    """A copy of that hook, for this test's objects alone; in force when a creation of the sample is asked about."""
    owners = {one["name"]: (owner, one) for owner in hooks.configurations(NOBODY, b"") for one in owner["webhooks"]}
    configuration, found = owners[hook]
    name = f"probe-{stage.namespace}"
    probe = {**found, "name": f"probe.{hook}", "failurePolicy": "Fail"}
    if "namespaceSelector" in found:
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
        probe["namespaceSelector"] = found["namespaceSelector"] | chosen
    else:
        probe["objectSelector"] = {"matchLabels": {LABEL: stage.namespace}}
    kubectl = stage.federation.kubectl
    stage.federation.api.apply({**configuration, "metadata": {"name": name}, "webhooks": [probe]})
    try:
        eventually(lambda: is_asked(stage, *CREATE, manifest=sample), what="it is in force")
        yield
    finally:
        kubectl("delete", configuration["kind"], name)


def is_asked(stage: Stage, *arguments: str, manifest: dict[str, Any] | None = None) -> bool:
    """Whether the copy was asked about what this kubectl command did."""
    try:
        stage.federation.kubectl(*arguments, manifest=json.dumps(manifest) if manifest else None)
    except KubectlError as error:
        if 'failed calling webhook "probe.' in error.stderr:
            return True
        raise
    return False


def labelled(stage: Stage, value: dict[str, Any]) -> dict[str, Any]:
    metadata = {"namespace": stage.namespace, **value.get("metadata", {}), "labels": {LABEL: stage.namespace}}
    return {**value, "metadata": metadata}


def work(stage: Stage, name: str, manifest: dict[str, Any], *, space: str = SPACE, of: str = "web-x") -> dict[str, Any]:
    """A Work that Karmada dispatches nowhere."""
    annotations = {"resourcebinding.karmada.io/namespace": stage.namespace, "resourcebinding.karmada.io/name": of}
    return labelled(
        stage,
        {
            "apiVersion": "work.karmada.io/v1alpha1",
            "kind": "Work",
            "metadata": {
                "name": f"{stage.namespace}-{name}",
                "namespace": space,
                "annotations": annotations if of else {},
            },
            "spec": {"suspendDispatching": True, "workload": {"manifests": [manifest]}},
        },
    )


def of_kind(api_version: str, kind: str, **fields: object) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}


@pytest.fixture
def stored_work(federation: Federation, stage: Stage) -> Iterator[dict[str, Any]]:
    """A Work that is stored, with something to wait for when it is deleted."""
    stored = work(stage, "stored", deployment("web", 1))
    stored["metadata"]["finalizers"] = ["test.quota.karmada.io/wait"]
    federation.kubectl("create", "-f", "-", manifest=json.dumps(stored))
    yield stored
    gone = ["patch", "work", stored["metadata"]["name"], "-n", SPACE, "--type=merge"]
    with contextlib.suppress(KubectlError):
        federation.kubectl("delete", "work", stored["metadata"]["name"], "-n", SPACE, "--wait=false")
        federation.kubectl(*gone, "-p", '{"metadata":{"finalizers":null}}')


def test_only_works_that_may_bring_pods_are_asked_about(stage: Stage) -> None:
    large = of_kind("v1", "ConfigMap", data={"large": "x" * 1_000_000})
    sample = work(stage, "sample", deployment("web", 1))
    with nobody_answers(stage, "works.quota.karmada.io", sample):
        for name, manifest, expected in [
            ("deployment", deployment("web", 1), True),
            ("unknown kind", of_kind("example.com/v1", "Thing", spec={"size": 1}), True),
            ("another's service", of_kind("serving.example.com/v1", "Service", spec={}), True),
            ("large", large, False),
            ("service", of_kind("v1", "Service", spec={}), False),
            ("account", of_kind("v1", "ServiceAccount"), False),
        ]:
            one = work(stage, name.replace(" ", "-").replace("'", ""), manifest)
            assert is_asked(stage, *CREATE, manifest=one) is expected, name
        of_nothing = work(stage, "of-nothing", deployment("web", 1), of="")
        assert not is_asked(stage, *CREATE, manifest=of_nothing)
        elsewhere = work(stage, "elsewhere", deployment("web", 1), space=stage.namespace)
        assert not is_asked(stage, *CREATE, manifest=elsewhere)


def test_only_changed_manifests_are_asked_about(stage: Stage, stored_work: dict[str, Any]) -> None:
    name = stored_work["metadata"]["name"]
    patch = ["patch", "work", name, "-n", SPACE, "--type=merge", "-p"]
    with nobody_answers(stage, "works.quota.karmada.io", work(stage, "sample", deployment("web", 1))):
        assert not is_asked(stage, "label", "work", name, "-n", SPACE, "touched=yes")
        assert not is_asked(stage, *patch, '{"spec":{"preserveResourcesOnDeletion":true}}')
        changed = json.dumps({"spec": {"workload": {"manifests": [deployment("web", 2)]}}})
        assert is_asked(stage, *patch, changed)
        stage.federation.kubectl("delete", "work", name, "-n", SPACE, "--wait=false")
        assert not is_asked(stage, *patch, '{"metadata":{"finalizers":null}}'), "nothing stands in a deletion's way"


@pytest.mark.alone  # the API server takes seconds of its own for it
def test_a_large_manifest_is_compared_within_what_conditions_may_cost(stage: Stage) -> None:
    """About the largest that an API server stores, in one piece and in very many."""
    kubectl = stage.federation.kubectl
    for name, count in (("one", 1), ("many", 20_000)):
        pieces = [{"name": f"n{number}", "value": "x" * (1_000_000 // count // 2)} for number in range(count)]
        large = work(stage, name, of_kind("example.com/v1", "Thing", spec={"pieces": pieces}))
        kubectl("create", "-f", "-", manifest=json.dumps(large))
        try:
            kubectl("label", "work", large["metadata"]["name"], "-n", SPACE, "touched=yes")
        finally:
            kubectl("delete", "work", large["metadata"]["name"], "-n", SPACE, "--wait=false")


@pytest.mark.parametrize(("hook", "label"), [("warn.quota.karmada.io", "false"), ("deny.quota.karmada.io", "true")])
def test_workloads_are_asked_about_when_their_spec_changes(stage: Stage, hook: str, label: str) -> None:
    namespace = stage.namespace
    kubectl = stage.federation.kubectl
    kubectl("create", "-f", "-", manifest=json.dumps(labelled(stage, deployment("web", 1))))
    kubectl("label", "namespace", namespace, f"{hooks.DENY_AT_APPLY_LABEL}={label}")
    sample = labelled(stage, deployment("sample", 1))
    pod = sample["spec"]["template"]["spec"]
    job = of_kind("batch/v1", "Job", spec={"template": {"spec": {**pod, "restartPolicy": "Never"}}})
    on = ["deployment", "web", "-n", namespace]
    with nobody_answers(stage, hook, sample):
        assert is_asked(stage, *CREATE, manifest=labelled(stage, of_kind("v1", "Pod", spec=pod)))
        assert is_asked(stage, *CREATE, manifest=labelled(stage, job))
        assert is_asked(stage, "set", "image", *on, "main=registry.example/none:2")
        assert not is_asked(stage, "label", *on, "touched=yes")
        assert not is_asked(stage, "annotate", *on, "touched=yes")
        assert not is_asked(stage, *CREATE, manifest=labelled(stage, of_kind("v1", "ConfigMap")))
        assert not is_asked(stage, "scale", *on, "--replicas=1"), "as many as there are"
        assert is_asked(stage, "scale", *on, "--replicas=2")
        other = "false" if label == "true" else "true"
        kubectl("label", "namespace", namespace, f"{hooks.DENY_AT_APPLY_LABEL}={other}", "--overwrite")
        eventually(lambda: not is_asked(stage, *CREATE, manifest=sample), what="the other hook is asked instead")


@pytest.mark.parametrize("kind", ["KarmadaQuota", "ElasticQuota"])
def test_the_systems_own_users_write_quotas_like_anybody_else(stage: Stage, kind: str) -> None:
    """A condition that fails refuses the request: where an object itself is written, there is no subresource."""
    spec = {"hard": {"cpu": "1"}} if kind == "KarmadaQuota" else {"min": {"cpu": "1"}}
    value = of_kind("quota.karmada.io/v1alpha1", kind, spec=spec)
    value["metadata"]["namespace"] = stage.namespace
    system = ["--as=federation-quota-controllers", "--as-group=system:masters"]
    kubectl = stage.federation.kubectl
    kubectl("create", "-f", "-", *system, manifest=json.dumps(value))
    kubectl("annotate", kind, "x", "-n", stage.namespace, "touched=yes", *system)
    kubectl("patch", kind, "x", "-n", stage.namespace, *system, "--type=merge", "-p", json.dumps({"spec": spec}))
    kubectl("delete", kind, "x", "-n", stage.namespace, *system)


def test_owners_are_asked_about_at_creation_and_where_they_change(stage: Stage) -> None:
    stored = labelled(stage, deployment("stored", 1))
    stage.apply(stored)
    where = ["deployment", "stored", "-n", stage.namespace]
    # Of all others the product's own hook, which comes first, puts it back.
    steward = ["--as=steward", "--as-group=system:masters"]
    text = '{"user":"bob","groups":[]}'
    with nobody_answers(stage, hooks.IDENTITY_HOOK, labelled(stage, deployment("web", 1))):
        assert not is_asked(stage, "scale", *where, "--replicas=2")
        assert not is_asked(stage, "annotate", *where, "note=mine")
        assert not is_asked(stage, "patch", *where, "--subresource=status", "--type=merge", "-p", '{"status":{}}')
        assert is_asked(stage, "annotate", "--overwrite", *where, f"{OWNER_ANNOTATION}={text}", *steward)
        changed = json.dumps({"metadata": {"annotations": {OWNER_ANNOTATION: text}}})
        assert is_asked(stage, "patch", *where, "--subresource=status", "--type=merge", "-p", changed, *steward)
        assert not is_asked(stage, "delete", *where)
