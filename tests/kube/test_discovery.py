"""Discovery on the real API server, and as CRDs come and go."""

from typing import Any

import pytest

from federation_quota.kube.client import Client
from federation_quota.kube.discovery import Discovery, UnknownResourceError
from federation_quota.kube.resource import Resource
from localfed.faultproxy import FaultProxy
from tests.kube.kinds import CONFIGMAPS, DEPLOYMENTS, NAMESPACES

pytestmark = pytest.mark.federation

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)


def crd(group: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1alpha1", "v1")
    ]
    names = {"plural": "oxen", "kind": "Ox"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": versions}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": f"oxen.{group}"},
        "spec": spec,
    }


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_kinds_plurals_and_scopes_are_those_of_the_server(client: Client) -> None:
    discovery = Discovery(client)
    assert await discovery.of_kind("", "ConfigMap") == CONFIGMAPS
    assert await discovery.of_kind("apps", "Deployment") == DEPLOYMENTS
    assert await discovery.of_plural("", "namespaces") == NAMESPACES
    assert await discovery.of_object("apps/v1", "Deployment") == DEPLOYMENTS
    assert await discovery.of_object("v1", "ConfigMap") == CONFIGMAPS
    assert await discovery.of_object(CRDS.api_version, CRDS.kind) == CRDS
    assert DEPLOYMENTS in discovery.known()


async def test_it_asks_once_and_again_only_on_a_miss_and_not_too_often(proxied: Client, proxy: FaultProxy) -> None:
    clock = Clock()
    asked = 0
    request = proxied.request

    async def counting(method: str, path: str, **options: Any) -> bytes:  # noqa: ANN401 - the client's own
        nonlocal asked
        asked += 1
        return await request(method, path, **options)

    proxied.request = counting  # type: ignore[method-assign]
    discovery = Discovery(proxied, pause_seconds=10, clock=clock)
    for _ in range(5):
        await discovery.of_kind("", "ConfigMap")
    assert asked == 2  # /api and /apis, aggregated
    for _ in range(5):
        with pytest.raises(UnknownResourceError, match=r"no kind Ox in never\.example"):
            await discovery.of_kind("never.example", "Ox")
    assert asked == 2
    clock.now = 11
    with pytest.raises(UnknownResourceError):
        await discovery.of_kind("never.example", "Ox")
    assert asked == 4


async def test_a_crd_that_was_installed_meanwhile_is_found_preferred_version_first(
    client: Client, namespace: str
) -> None:
    clock = Clock()
    discovery = Discovery(client, pause_seconds=0.0, clock=clock)
    group = f"{namespace}.example"
    with pytest.raises(UnknownResourceError):
        await discovery.of_kind(group, "Ox")
    await client.create(CRDS, crd(group))
    try:
        for _ in range(1000):
            try:
                found = await discovery.of_kind(group, "Ox")
                break
            except UnknownResourceError:  # the server takes a moment to serve it
                continue
        assert (found.plural, found.version, found.namespaced) == ("oxen", "v1", False)
        assert (await discovery.of_plural(group, "oxen", "v1alpha1")).version == "v1alpha1"
    finally:
        await client.delete(CRDS, f"oxen.{group}")
