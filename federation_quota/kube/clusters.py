"""Member clusters as the federation knows them, and how each is reached.

A Push cluster is spoken to directly, at its `apiEndpoint`, with the token and the CA of its Secret, which is read again
when the token is refused. A Pull cluster cannot be reached from here but through the federation's aggregated proxy,
where that is served.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec

from federation_quota.kube import codec
from federation_quota.kube.client import Client
from federation_quota.kube.config import Connection, Material, RenewedCredentials, Tls
from federation_quota.kube.error import CredentialsError, KubeError, NotFoundError
from federation_quota.kube.resource import Resource

CLUSTERS: Final = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
PODS: Final = Resource("", "v1", "pods", "Pod")

PULL: Final = "Pull"
_READ_SECONDS: Final = 10.0


class NotObservableError(KubeError):
    """There is no way to this cluster from here."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Cluster object: all that matters for reaching it."""

    name: str
    uid: str = ""
    mode: str = ""
    endpoint: str = ""
    secret: tuple[str, str] | None = None  # namespace, name
    is_verified: bool = True
    proxy: str | None = field(default=None, repr=False)  # may hold a password
    proxy_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def decode(body: bytes) -> Cluster:
    """The Cluster in an object's bytes."""
    shape = codec.decode_cluster(body)
    spec = shape.spec or codec.NO_CLUSTER_SPEC
    reference = spec.secret_ref
    return Cluster(
        name=shape.metadata.name,
        uid=shape.metadata.uid,
        mode=spec.sync_mode,
        endpoint=spec.api_endpoint.rstrip("/"),
        secret=(reference.namespace, reference.name) if reference and reference.name else None,
        is_verified=spec.insecure_skip_tls_verification is not True,
        proxy=spec.proxy_url or None,
        proxy_headers=tuple(sorted((spec.proxy_header or {}).items())),
    )


async def connect(federation: Client, cluster: Cluster) -> tuple[Connection, Material | None]:
    """The way to a cluster, and what it was made of; KubeError where there is none for now."""
    if cluster.mode == PULL:
        return await _through_proxy(federation, cluster), None
    scheme = urlsplit(cluster.proxy).scheme if cluster.proxy else "http"
    if scheme not in ("http", "https"):
        raise NotObservableError(f"its proxyURL is of {scheme}: only HTTP proxies are supported")
    material = await read(federation, cluster)
    credentials = RenewedCredentials(lambda: read(federation, cluster), material)
    headers = dict(cluster.proxy_headers)
    return Connection(cluster.endpoint, credentials, material.proxy, proxy_headers=headers), material


async def read(federation: Client, cluster: Cluster) -> Material:
    """What a Push cluster's object and Secret say by now."""
    if not cluster.endpoint.startswith(("https://", "http://")):
        raise NotObservableError("its spec.apiEndpoint is no URL" if cluster.endpoint else "it has no spec.apiEndpoint")
    if cluster.secret is None:
        raise CredentialsError("it has no spec.secretRef: nobody can say who to be there")
    namespace, name = cluster.secret
    try:
        body = await federation.get(SECRETS, name, namespace, timeout_seconds=_READ_SECONDS)
    except NotFoundError:
        raise CredentialsError(f"there is no Secret {namespace}/{name}, which its spec.secretRef names") from None
    data = codec.decode_secret(body)
    token = _value(data, "token", namespace, name).decode(errors="replace").strip()
    if not token:
        raise CredentialsError(f"the Secret {namespace}/{name} has no token")
    tls = None
    if cluster.endpoint.startswith("https://"):
        authority = _value(data, "caBundle", namespace, name) if cluster.is_verified else b""
        tls = Tls(authority=authority or None, is_verified=cluster.is_verified)
    return Material(cluster.endpoint, tls, f"Bearer {token}", proxy=cluster.proxy)


async def _through_proxy(federation: Client, cluster: Cluster) -> Connection:
    root = f"/apis/{CLUSTERS.group}/{CLUSTERS.version}"
    served = msgspec.json.decode(await federation.request("GET", root, timeout_seconds=_READ_SECONDS))
    if not any(one.get("name") == "clusters/proxy" for one in served.get("resources") or ()):
        raise NotObservableError("it is in Pull mode, and this federation serves no clusters/proxy")
    own = federation.connection
    return replace(own, server=f"{own.server.rstrip('/')}{root}/clusters/{quote(cluster.name, safe='')}/proxy")


def _value(data: Mapping[str, str], key: str, namespace: str, name: str) -> bytes:
    try:
        return base64.b64decode(data.get(key) or "", validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsError(f"{key} of the Secret {namespace}/{name} is no base64") from None
