"""Which resources an API server has: from kinds to plurals and scopes, and back.

Asked of the server in one request where it offers aggregated discovery, else group by group. Kept; asked for again when
something is not found (a CRD may have been installed meanwhile), but not more often than `pause_seconds`, and once for
all who ask at the same time.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog

from federation_quota.kube.client import Client
from federation_quota.kube.error import ApiError, KubeError
from federation_quota.kube.resource import Resource

log = structlog.get_logger()

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_LONG_ANSWER_SECONDS = 15.0


class UnknownResourceError(KubeError):
    """The server has no such resource."""


class Discovery:
    """What one API server has."""

    def __init__(
        self, client: Client, *, pause_seconds: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._asking = asyncio.Lock()
        self._asked_at: float | None = None
        self._by_kind: dict[tuple[str, str, str], Resource] = {}
        self._by_plural: dict[tuple[str, str, str], Resource] = {}
        self._preferred: dict[str, tuple[str, ...]] = {}  # a group's versions, the preferred one first

    async def of_kind(self, group: str, kind: str, version: str | None = None) -> Resource:
        """The resource that objects of that kind belong to; the preferred version where none is given."""
        return await self._find(self._by_kind, group, version, kind, "kind")

    async def of_plural(self, group: str, plural: str, version: str | None = None) -> Resource:
        """The resource of that name."""
        return await self._find(self._by_plural, group, version, plural, "resource")

    async def of_object(self, api_version: str, kind: str) -> Resource:
        """The resource that an object with these fields belongs to."""
        group, _, version = api_version.rpartition("/")
        return await self.of_kind(group, kind, version)

    def known(self) -> list[Resource]:
        """Everything, as of the last time the server was asked."""
        return list(self._by_plural.values())

    async def _find(
        self, table: dict[tuple[str, str, str], Resource], group: str, version: str | None, name: str, what: str
    ) -> Resource:
        found = self._look_up(table, group, version, name)
        if found is None:
            asked_at = self._asked_at
            async with self._asking:
                # Whoever held the lock may have just asked for us.
                if self._asked_at == asked_at and self._may_ask():
                    await self._ask()
            found = self._look_up(table, group, version, name)
        if found is None:
            where = "/".join(part for part in (group, version) if part) or "core"
            raise UnknownResourceError(f"{self._client.connection.server} has no {what} {name} in {where}")
        return found

    def _look_up(
        self, table: dict[tuple[str, str, str], Resource], group: str, version: str | None, name: str
    ) -> Resource | None:
        versions = (version,) if version else self._preferred.get(group, ())
        return next((table[key] for one in versions if (key := (group, one, name)) in table), None)

    def _may_ask(self) -> bool:
        return self._asked_at is None or self._clock() - self._asked_at >= self._pause_seconds

    async def _ask(self) -> None:
        found: list[Resource] = []
        for path in ("/api", "/apis"):
            body = await self._client.request("GET", path, accept=_AGGREGATED, timeout_seconds=_LONG_ANSWER_SECONDS)
            answer = msgspec.json.decode(body)
            if answer.get("kind") == "APIGroupDiscoveryList":
                found += _aggregated(answer)
            else:
                found += await self._one_by_one(path, answer)
        self._adopt(found)
        self._asked_at = self._clock()
        log.debug("discovery.asked", server=self._client.connection.server, resources=len(found))

    async def _one_by_one(self, path: str, answer: dict[str, Any]) -> list[Resource]:
        if path == "/api":
            places = [("", version) for version in answer.get("versions") or []]
        else:
            places = [
                (group["name"], entry["version"])
                for group in answer.get("groups") or []
                for entry in _preferred_first(group)
            ]
        found: list[Resource] = []
        for group, version in places:
            below = f"{path}/{group}/{version}" if group else f"{path}/{version}"
            try:
                body = await self._client.request("GET", below, timeout_seconds=_LONG_ANSWER_SECONDS)
            except ApiError as problem:
                # An aggregated API server that is down must not hide everybody else's resources.
                log.warning("discovery.incomplete", group=group, version=version, error=str(problem))
                continue
            found += [
                Resource(group, version, entry["name"], entry["kind"], entry["namespaced"])
                for entry in msgspec.json.decode(body).get("resources") or []
                if "/" not in entry["name"]  # not the subresources
            ]
        return found

    def _adopt(self, found: Iterable[Resource]) -> None:
        self._by_kind.clear()
        self._by_plural.clear()
        preferred: dict[str, dict[str, None]] = {}
        for resource in found:
            # Several resources may share a kind; the first named is the one that holds the objects.
            self._by_kind.setdefault((resource.group, resource.version, resource.kind), resource)
            self._by_plural[resource.group, resource.version, resource.plural] = resource
            preferred.setdefault(resource.group, {}).setdefault(resource.version)
        self._preferred = {group: tuple(versions) for group, versions in preferred.items()}


def _aggregated(answer: dict[str, Any]) -> list[Resource]:
    """Versions come in the order of preference."""
    return [
        Resource(
            group["metadata"].get("name") or "",
            version["version"],
            entry["resource"],
            entry["responseKind"]["kind"],
            entry["scope"] == "Namespaced",
        )
        for group in answer.get("items") or []
        for version in group.get("versions") or []
        for entry in version.get("resources") or []
        if entry.get("responseKind")
    ]


def _preferred_first(group: dict[str, Any]) -> list[dict[str, Any]]:
    preferred = (group.get("preferredVersion") or {}).get("version")
    return sorted(group.get("versions") or [], key=lambda entry: entry["version"] != preferred)
