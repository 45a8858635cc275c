"""The ground that everything else is judged on: Karmada really federates here."""

from typing import Any

import pytest

from localfed.federation import Federation
from localfed.kubectl import documents
from tests.federation.stage import eventually

pytestmark = pytest.mark.federation


def deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example/none:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def policy(name: str, scheduling: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
            "placement": {"replicaScheduling": scheduling},
        },
    }


DUPLICATED = {"replicaSchedulingType": "Duplicated"}
DIVIDED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


def apply(federation: Federation, namespace: str, *objects: dict[str, Any]) -> None:
    federation.kubectl("apply", "-n", namespace, "-f", "-", manifest=documents(*objects))


def replicas_in(federation: Federation, namespace: str, name: str) -> dict[str, int | None]:
    """What each member was asked to run; None where it was asked nothing."""
    found: dict[str, int | None] = {}
    for member in federation.members:
        items = federation.api.list("deployments", namespace, fields=f"metadata.name={name}", context=member)
        found[member] = items[0]["spec"]["replicas"] if items else None
    return found


def running_pods_in(federation: Federation, namespace: str) -> dict[str, int]:
    running = {"fields": "status.phase=Running"}
    return {
        member: len(federation.api.list("pods", namespace, **running, context=member)) for member in federation.members
    }


def test_two_members_are_ready(federation: Federation) -> None:
    listed = federation.kubectl("get", "clusters").splitlines()
    assert listed[0].split() == ["NAME", "VERSION", "MODE", "READY", "AGE"]
    members = [line.split()[:4] for line in listed[1:] if line.split()[0] in federation.members]
    assert members == [["m1", "v1.36.4", "Push", "True"], ["m2", "v1.36.4", "Push", "True"]]


def test_every_process_is_ready(federation: Federation) -> None:
    assert {status.name: status.state for status in federation.status() if status.state != "ready"} == {}


@pytest.mark.parametrize(("scheduling", "expected"), [(DUPLICATED, (4, 4)), (DIVIDED, (2, 2))])
def test_a_deployment_applied_to_the_federation_lands_in_the_members_and_leaves_them(
    federation: Federation, namespace: str, scheduling: dict[str, Any], expected: tuple[int, int]
) -> None:
    apply(federation, namespace, deployment("web", 4), policy("web", scheduling))
    wanted = dict(zip(federation.members, expected, strict=True))
    eventually(lambda: replicas_in(federation, namespace, "web") == wanted)

    eventually(lambda: running_pods_in(federation, namespace) == wanted)

    federation.kubectl("delete", "deployment", "web", "-n", namespace)
    eventually(lambda: set(replicas_in(federation, namespace, "web").values()) == {None})
    eventually(lambda: federation.api.list("resourcebindings", namespace) == [], what="nothing is bound any more")
    eventually(lambda: set(running_pods_in(federation, namespace).values()) == {0})


def test_members_report_what_their_nodes_have(federation: Federation) -> None:
    def allocatable() -> list[dict[str, str]]:
        clusters = [federation.api.get("cluster", member) for member in federation.members]
        return [cluster["status"].get("resourceSummary", {}).get("allocatable") for cluster in clusters]

    eventually(lambda: allocatable() == [{"cpu": "16", "memory": "64Gi", "pods": "220"}] * 2)


def test_a_namespace_deleted_on_the_federation_goes_from_the_members_too(
    federation: Federation, namespace: str
) -> None:
    name = f"{namespace}-short"
    federation.kubectl("create", "namespace", name)
    for context in federation.members:
        federation.kubectl("wait", "--for=create", f"namespace/{name}", "--timeout=180s", context=context)
    federation.kubectl("delete", "namespace", name, "--timeout=180s")
    for context in federation.members:
        federation.kubectl("wait", "--for=delete", f"namespace/{name}", "--timeout=180s", context=context)


def test_each_member_has_an_authority_of_its_own(federation: Federation) -> None:
    """A certificate for one cluster opens no other: what mixes them up must fail here, not in a company."""
    folder = federation.directory.pki
    authorities = {(folder / name / "ca.crt").read_text() for name in ("federation", *federation.members)}
    assert len(authorities) == 1 + len(federation.members)


def test_secrets_on_disk_are_readable_by_their_owner_alone(federation: Federation) -> None:
    kept = [federation.directory.kubeconfig, *federation.directory.pki.rglob("*")]
    exposed = [path for path in kept if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o077]
    assert exposed == []
