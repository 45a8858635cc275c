"""What must stand on the federation API server for the system to work: ensured by server-side apply, again and again.

Kinds first, then the webhook configurations, once there is a replica to answer them; a FlowSchema, so that the system's
own writes do not queue behind a tenant's flood.
"""

import asyncio
from typing import Any

import msgspec
import structlog

from federation_quota import api, hooks
from federation_quota.api.meta import GROUP
from federation_quota.group_resource import GroupResource
from federation_quota.kube import error
from federation_quota.kube.client import Client, PatchType
from federation_quota.kube.resource import Resource
from federation_quota.names import FIELD_MANAGER, PARTS, SYSTEM

log = structlog.get_logger()

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
FLOW_SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
PRIORITY_LEVELS = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False
)
CONFIGURATIONS = {
    kind: Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
}


class Installation:
    """The system's objects on the federation API server."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        url: str,
        system_users: frozenset[str],
        workloads: frozenset[GroupResource],  # the kinds that have owners
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._url = url
        self._system_users = system_users
        self._workloads = workloads
        self._looked_at: dict[str, str] = {}  # the version of each configuration when it was last read

    async def ensure_namespace(self, client: Client) -> None:
        """Where leases and Secrets are kept: needed for the election, so with a client that does not lead yet."""
        namespace = _object("v1", "Namespace", self._namespace)
        # It is about the federation itself: no member needs a copy.
        namespace["metadata"]["labels"] = {**PARTS, "namespace.karmada.io/skip-auto-propagation": "true"}
        await _apply(client, NAMESPACES, namespace)

    async def ensure_kinds(self) -> None:
        """Our kinds, served."""
        for resource in api.RESOURCES:
            await self._apply(DEFINITIONS, resource.definition())
        for resource in api.RESOURCES:
            await self._wait_until_served(resource.name)
        for role in _tenant_roles():
            await self._apply(CLUSTER_ROLES, role)
        await self._apply(PRIORITY_LEVELS, _priority_level())
        await self._apply(FLOW_SCHEMAS, _flow_schema(self._system_users))

    async def ensure_hooks(self, bundle: bytes) -> None:
        """The webhook configurations, trusting exactly that bundle."""
        for configuration in hooks.configurations(self._url, bundle, self._system_users, self._workloads):
            version = self._looked_at.get(configuration["metadata"]["name"])
            if version:
                # What it is to trust was decided on by what stood there: a leader that slept takes nothing back.
                configuration["metadata"]["resourceVersion"] = version
            await self._apply(CONFIGURATIONS[configuration["kind"]], configuration)

    async def read_hooks(self) -> list[dict[str, Any]]:
        """The configurations as they stand now; those that are not there are left out."""
        found = []
        self._looked_at.clear()
        for configuration in hooks.configurations(self._url, b"", self._system_users):
            resource = CONFIGURATIONS[configuration["kind"]]
            try:
                body = await self._client.get(resource, configuration["metadata"]["name"])
            except error.NotFoundError:
                continue
            stored = _decoded(body)
            self._looked_at[stored["metadata"]["name"]] = stored["metadata"]["resourceVersion"]
            found.append(stored)
        return found

    async def _apply(self, resource: Resource, manifest: dict[str, Any]) -> None:
        await _apply(self._client, resource, manifest)

    async def _wait_until_served(self, name: str) -> None:
        async with asyncio.timeout(60):
            while True:
                status = _decoded(await self._client.get(DEFINITIONS, name)).get("status") or {}
                conditions = status.get("conditions") or []
                if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                    return
                await asyncio.sleep(0.1)


async def _apply(client: Client, resource: Resource, manifest: dict[str, Any]) -> None:
    await client.patch(
        resource,
        manifest["metadata"]["name"],
        manifest,
        type=PatchType.APPLY,
        field_manager=FIELD_MANAGER,
        is_forced=True,
    )


def _decoded(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(body)
    return found


def _object(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": PARTS}}


def _tenant_roles() -> list[dict[str, Any]]:
    """Tenants see their own quotas, through the roles that everybody has; changing them is for administrators."""
    aggregated = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    view = _object(CLUSTER_ROLES.api_version, CLUSTER_ROLES.kind, f"{SYSTEM}-view")
    view["metadata"]["labels"] = {**PARTS, **aggregated}
    plurals = [resource.plural for resource in api.RESOURCES]
    view["rules"] = [{"apiGroups": [GROUP], "resources": plurals, "verbs": ["get", "list", "watch"]}]
    return [view]


def _priority_level() -> dict[str, Any]:
    return {
        **_object(PRIORITY_LEVELS.api_version, PRIORITY_LEVELS.kind, SYSTEM),
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 40,
                "lendablePercent": 50,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 200},
                },
            },
        },
    }


def _flow_schema(users: frozenset[str]) -> dict[str, Any]:
    everything = [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True},
    ]
    return {
        **_object(FLOW_SCHEMAS.api_version, FLOW_SCHEMAS.kind, SYSTEM),
        "spec": {
            "priorityLevelConfiguration": {"name": SYSTEM},
            "matchingPrecedence": 500,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": user}} for user in sorted(users)],
                    "resourceRules": everything,
                }
            ],
        },
    }
