"""Titles as Leases on the federation API server: read, watched, and written under their version.

What a title means, and who may write what, is `tenants.title`'s. The Leases of all tenants stand in the system's
namespace, under a label of their own; their names are made of the tenants', which need not be names of objects. Which
tenant it is stands in a label: `quota.karmada.io/tenant`, as on its namespaces, or one for namespaces of their own.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from federation_quota import names
from federation_quota.kube import error, lease
from federation_quota.kube.client import Client
from federation_quota.kube.lease import LEASES, Lease, LeaseError
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.roster import LEGACY_ANNOTATION
from federation_quota.stamp import TENANT_LABEL
from federation_quota.tenants import grants
from federation_quota.tenants.store import LostError, UnknownError
from federation_quota.tenants.tenant import OWN
from federation_quota.tenants.title import Title

WANTED_ANNOTATION: Final = "quota.karmada.io/wanted-by"
"""On a tenant's Lease: the replica that waits for it."""

OWN_LABEL: Final = "quota.karmada.io/tenant-namespace"
"""On a tenant's Lease: the namespace, where that is a tenant of its own."""


def name(tenant: str) -> str:
    """Of a tenant's Lease."""
    return f"tenant-{hashlib.sha256(tenant.encode()).hexdigest()[:20]}"


def labels(tenant: str) -> dict[str, str]:
    """That say whose a Lease is."""
    key, value = (OWN_LABEL, tenant.removeprefix(OWN)) if tenant.startswith(OWN) else (TENANT_LABEL, tenant)
    return {**names.TENANTS, key: value}


def tenant(labels: Mapping[str, str]) -> str:
    """Whose a Lease with those labels is; empty where they do not say."""
    own = labels.get(OWN_LABEL)
    return f"{OWN}{own}" if own else labels.get(TENANT_LABEL, "")


def decode(body: bytes) -> Title:
    """The title in a Lease's bytes."""
    return read(lease.decode(body))


def read(found: Lease) -> Title:
    """The title that a Lease is; LeaseError where nobody can tell what its last holder let through."""
    annotations = found.metadata.annotations
    text = annotations.get(LEGACY_ANNOTATION, "")
    try:
        left = grants.decode(text) if text else None
    except ValueError as problem:
        raise LeaseError(f"{found.metadata.name}: {problem}") from problem
    return Title(
        tenant=tenant(found.metadata.labels),
        holder=found.spec.holder or "",
        version=found.version,
        wanted_by=annotations.get(WANTED_ANNOTATION, ""),
        left=left,
    )


class LeaseTitles:
    """The `tenants.store.TitleStore` of the product."""

    def __init__(self, client: Client, namespace: str, *, timeout_seconds: float = 2.0) -> None:
        self._client = client
        self._namespace = namespace
        self._timeout_seconds = timeout_seconds

    def reflector(self, sink: "TitleSink") -> Reflector[Title]:
        """A watch of them all."""
        return Reflector(
            self._client,
            LEASES,
            decode=decode,
            sink=sink,
            namespace=self._namespace,
            label_selector=names.selector(names.TENANTS),
        )

    async def read(self, tenant: str) -> Title | None:
        """A title as it is stored now; UnknownError where it cannot be read."""
        try:
            body = await self._client.get(LEASES, name(tenant), self._namespace, timeout_seconds=self._timeout_seconds)
            return decode(body)
        except error.NotFoundError:
            return None
        except error.KubeError as problem:
            raise UnknownError(str(problem)) from problem

    async def write(self, title: Title) -> Title:
        """Store it under its version, and what it is then; LostError where somebody else was faster."""
        now = lease.moment()
        spec = {"holderIdentity": title.holder or None, "renewTime": now}
        try:
            if not title.version:
                made = lease.manifest(name(title.tenant), {**spec, "acquireTime": now}, labels=labels(title.tenant))
                body = await self._client.create(LEASES, made, self._namespace, timeout_seconds=self._timeout_seconds)
            else:
                changed = lease.manifest(name(title.tenant), spec, version=str(title.version))
                changed["metadata"]["annotations"] = _annotations(title)
                body = await self._client.patch(
                    LEASES, name(title.tenant), changed, self._namespace, timeout_seconds=self._timeout_seconds
                )
            return decode(body)
        except (error.ConflictError, error.AlreadyExistsError, error.NotFoundError) as problem:
            raise LostError(str(problem)) from problem
        except error.KubeError as problem:
            raise UnknownError(str(problem)) from problem


def _annotations(title: Title) -> dict[str, Any]:
    left = title.left.encode() if title.left is not None else None
    return {WANTED_ANNOTATION: title.wanted_by or None, LEGACY_ANNOTATION: left or None}


class TitleSink:
    """Word of every title that changes: the sink of a reflector."""

    def __init__(self, on_stored: Callable[[Title], None], on_deleted: Callable[[str, int], None]) -> None:
        self._known: dict[str, int] = {}
        self._on_stored = on_stored
        self._on_deleted = on_deleted

    def replace(self, items: Sequence[Title], version: int) -> None:
        """Everything was listed anew."""
        for tenant in self._known.keys() - {item.tenant for item in items}:
            del self._known[tenant]
            self._on_deleted(tenant, version)
        for item in items:
            self.upsert(item)

    def upsert(self, item: Title) -> None:
        """A title was stored."""
        self._known[item.tenant] = item.version
        self._on_stored(item)

    def delete(self, item: Title) -> None:
        """A title was deleted."""
        self._known.pop(item.tenant, None)
        self._on_deleted(item.tenant, item.version)

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""
