"""Connections to member clusters, against real API servers: joined, rotated, moved, lost, found and removed.

On a small federation of its own, without Karmada: what Karmada does when a cluster leaves is not wanted here.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from controllers import members as module
from controllers.members import Members
from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.clusters import CLUSTERS, PODS, SECRETS
from federation_quota.kube.resource import Resource
from federation_quota.ledger.lens import Lens
from federation_quota.member_usage import Sighting
from federation_quota.placement import Placements
from federation_quota.resources import Resources
from federation_quota.scope import EVERYTHING
from localfed import karmada
from localfed.directory import Shape
from localfed.faultproxy import FaultProxy
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.topology import Topology
from tests.kube.eventually import eventually

pytestmark = [pytest.mark.federation, pytest.mark.own]

SHAPE = Shape(members=1, karmada=False)
LENS = Lens(EVERYTHING, frozenset({"cpu", "pods"}))


class Small:
    """A federation of one member that nobody has joined yet."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        state = federation.directory.load()
        assert state is not None
        self.member = Topology(federation.directory, state).members[0]
        self.token = self.member.tokens.read_text().split(",")[0]
        self.authority = self.member.authority.certificate.read_text()

    async def join(
        self,
        client: Client,
        token: str | None = None,
        authority: str | None = None,
        **spec: Any,  # noqa: ANN401
    ) -> None:
        data = {"token": token or self.token, "caBundle": self.authority if authority is None else authority}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m1"}, "data": encoded}
        await apply(client, SECRETS, secret, "default")
        way = {"apiEndpoint": self.member.server, "secretRef": {"namespace": "default", "name": "m1"}}
        cluster = {
            "apiVersion": CLUSTERS.api_version,
            "kind": "Cluster",
            "metadata": {"name": "m1"},
            "spec": {"syncMode": "Push", **way, **spec},
        }
        await apply(client, CLUSTERS, cluster, None)


async def apply(client: Client, resource: Resource, body: dict[str, Any], namespace: str | None) -> None:
    name = body["metadata"]["name"]
    await client.request(
        "PATCH",
        resource.item(name, namespace),
        params={"fieldManager": "test", "force": True},
        body=body,
        content_type="application/apply-patch+yaml",
    )


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.fixture(scope="module")
def small(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    federation = Federation(tmp_path_factory.mktemp("members") / "fed")
    federation.up(SHAPE, guard)
    crd = karmada.MANIFESTS / "cluster-crd.yaml"
    federation.kubectl("apply", "--server-side", "-f", str(crd))
    federation.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    yield Small(federation)
    federation.down()


@pytest.fixture
async def federation_client(small: Small) -> AsyncIterator[Client]:
    async with Client(await config.load(kubeconfig=str(small.federation.directory.kubeconfig))) as client:
        yield client


@pytest.fixture
async def member_client(small: Small) -> AsyncIterator[Client]:
    connection = config.static(small.member.server, token=small.token, authority=small.authority.encode())
    async with Client(connection) as client:
        yield client


@pytest.fixture
async def watching(federation_client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Members]:
    # So that tests need not wait for what only spares people noise.
    monkeypatch.setattr(module, "STALE_SECONDS", 0.5)
    monkeypatch.setattr(module, "RECHECK_SECONDS", 0.5)
    members = Members(federation_client, Placements(), lambda _namespaces: None, lambda _cluster: None)
    task = asyncio.create_task(members.run())
    await members.synced.wait()
    yield members
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def sighting(members: Members) -> Sighting:
    (found,) = members.sightings("default", LENS)
    return found


def observed(members: Members) -> Resources | None:
    return next((one.observed for one in members.sightings("default", LENS)), None)


def cpu(text: str, pods: int) -> Resources:
    return Resources.parse({"cpu": text, "pods": pods})


async def test_a_member_joins_moves_rotates_its_token_and_leaves(
    small: Small, federation_client: Client, member_client: Client, watching: Members
) -> None:
    assert watching.sightings("default", LENS) == []
    await small.join(federation_client, token="not-the-token")  # noqa: S106 - indeed it is not
    await eventually(lambda: watching.problems().get("m1"), "a token that is refused is a problem")
    assert sighting(watching).observed is None
    assert "401" in sighting(watching).problem
    assert "not-the-token" not in sighting(watching).problem

    await small.join(federation_client)
    await member_client.create(PODS, pod("one"), "default")
    await eventually(lambda: observed(watching) == cpu("100m", 1), "the Secret's new token is taken up")
    assert not sighting(watching).problem

    async with FaultProxy(urlsplit(small.member.server).port or 443) as way:
        await small.join(federation_client, apiEndpoint=way.url)
        await eventually(lambda: way.accepted > 0, "it is reached by its new address")
        await member_client.create(PODS, pod("two"), "default")
        await eventually(lambda: observed(watching) == cpu("200m", 2), "and followed there")
        way.refuse()
        way.cut()
        await eventually(lambda: sighting(watching).problem, "it is out of reach")
        assert observed(watching) == cpu("200m", 2), "what was seen stays"
        await member_client.delete(PODS, "one", "default")
        way.heal()
        await eventually(lambda: observed(watching) == cpu("100m", 1), "what happened meanwhile is seen")
        assert not sighting(watching).problem

    await federation_client.delete(CLUSTERS, "m1")
    await eventually(lambda: watching.sightings("default", LENS) == [], "it has left")


async def test_a_server_that_nobody_vouches_for_is_not_trusted_until_its_secret_is_mended(
    small: Small, federation_client: Client, watching: Members
) -> None:
    await small.join(federation_client, authority="")
    await eventually(lambda: "certificate" in watching.problems().get("m1", "").lower(), "its certificate is refused")
    assert observed(watching) is None
    await small.join(federation_client)
    await eventually(lambda: observed(watching) is not None, "it is trusted once its CA is known")
    await federation_client.delete(CLUSTERS, "m1")
    await eventually(lambda: not watching.problems(), "it has left")
    await small.join(federation_client, authority="", insecureSkipTLSVerification=True)
    await eventually(lambda: observed(watching) is not None, "or where its Cluster says so")
    await federation_client.delete(CLUSTERS, "m1")
