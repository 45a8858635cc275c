"""How a member cluster is reached: what its Cluster says, and what stands in the way.

A server of a few lines stands in for karmada-aggregated-apiserver, which the local federation does not have.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from federation_quota.kube import clusters, config
from federation_quota.kube.client import Client
from federation_quota.kube.clusters import PODS, Cluster, NotObservableError
from federation_quota.kube.error import CredentialsError

ROOT = "/apis/cluster.karmada.io/v1alpha1"


def document(**spec: Any) -> bytes:  # noqa: ANN401
    return json.dumps({"metadata": {"name": "m1", "uid": "u"}, "spec": spec}).encode()


def test_all_that_matters_is_read() -> None:
    found = clusters.decode(
        document(
            syncMode="Push",
            apiEndpoint="https://member.example:6443/",
            secretRef={"namespace": "karmada-cluster", "name": "m1"},
            insecureSkipTLSVerification=True,
            proxyURL="http://user:secret@proxy.example",
            proxyHeader={"X-Key": "secret"},
        )
    )
    assert found == Cluster(
        name="m1",
        uid="u",
        mode="Push",
        endpoint="https://member.example:6443",
        secret=("karmada-cluster", "m1"),
        is_verified=False,
        proxy="http://user:secret@proxy.example",
        proxy_headers=(("X-Key", "secret"),),
    )
    assert "secret@" not in repr(found)
    assert clusters.decode(b'{"metadata": {"name": "m1"}}') == Cluster("m1")


@asynccontextmanager
async def federation(resources: list[str], secret: dict[str, str] | None = None) -> AsyncIterator[Client]:
    async def discovery(_request: web.Request) -> web.Response:
        return web.json_response({"resources": [{"name": name} for name in resources]})

    async def stored(_request: web.Request) -> web.Response:
        if secret is None:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        return web.json_response({"metadata": {"name": "m1"}, "data": secret})

    async def pods(request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": [request.headers["Authorization"]]})

    app = web.Application()
    app.router.add_get(ROOT, discovery)
    app.router.add_get(f"{ROOT}/clusters/m1/proxy/api/v1/pods", pods)
    app.router.add_get("/api/v1/namespaces/karmada-cluster/secrets/m1", stored)
    async with TestServer(app) as server:
        connection = config.static(str(server.make_url("")).rstrip("/"), token="ours")  # noqa: S106 - not a real one
        async with Client(connection) as client:
            yield client


async def test_a_cluster_that_pulls_is_reached_through_the_federation_with_our_own_identity() -> None:
    async with federation(["clusters", "clusters/proxy"]) as client:
        connection, _ = await clusters.connect(client, Cluster("m1", mode="Pull"))
        async with Client(connection) as member:
            (page,) = [page async for page in member.list(PODS)]
    assert json.loads(bytes(page.items[0])) == "Bearer ours"


async def test_where_no_proxy_is_served_there_is_no_way_to_one_that_pulls() -> None:
    async with federation(["clusters", "clusters/status"]) as client:
        with pytest.raises(NotObservableError, match="Pull mode"):
            await clusters.connect(client, Cluster("m1", mode="Pull"))


def unusable() -> Iterator[tuple[Cluster, dict[str, str] | None, str]]:
    reference = ("karmada-cluster", "m1")
    yield Cluster("m1", endpoint="https://x"), {}, "no spec.secretRef"
    yield Cluster("m1", secret=reference), {}, "no spec.apiEndpoint"
    yield Cluster("m1", endpoint="x:6443", secret=reference), {}, "apiEndpoint is no URL"
    yield Cluster("m1", endpoint="https://x", secret=reference), None, "no Secret karmada-cluster/m1"
    yield Cluster("m1", endpoint="https://x", secret=reference), {}, "has no token"
    yield Cluster("m1", endpoint="https://x", secret=reference), {"token": "???"}, "no base64"
    yield Cluster("m1", endpoint="https://x", secret=reference, proxy="socks5://x"), {}, "only HTTP proxies"


@pytest.mark.parametrize(("cluster", "secret", "reason"), list(unusable()))
async def test_what_is_missing_is_named(cluster: Cluster, secret: dict[str, str] | None, reason: str) -> None:
    async with federation([], secret) as client:
        with pytest.raises((CredentialsError, NotObservableError), match=reason):
            await clusters.connect(client, cluster)
