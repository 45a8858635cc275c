"""Clears away the Leases of tenants that are no more: whose title nobody holds, and who have no namespace.

A title that was given up says up to where bindings must have been seen by who takes it next. So it stays as long as the
tenant does, and for a while after: until every view there is must have seen its last bindings go.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

from federation_quota import names
from federation_quota.kube import lease, titles
from federation_quota.kube.client import Client
from federation_quota.kube.error import ConflictError, NotFoundError
from federation_quota.kube.lease import LEASES, Lease

GONE_SECONDS: Final = 900.0


class TitleSweeper:
    """For one process: the leader."""

    def __init__(self, client: Client, namespace: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}  # by name: the version, and since when it was so

    async def sweep(self, tenants: Collection[str]) -> int:
        """Delete those of others than these tenants that were given up long ago, unchanged; how many."""
        found = [one async for one in self._leases()]
        idle = {
            one.metadata.name: one
            for one in found
            if not one.spec.holder and titles.tenant(one.metadata.labels) not in tenants
        }
        now, before = self._clock(), self._seen
        self._seen = {}
        swept = 0
        for name, one in idle.items():
            version = one.metadata.version
            known, since = before.get(name, ("", now))
            self._seen[name] = (version, since if known == version else now)
            if now - self._seen[name][1] > GONE_SECONDS:
                with contextlib.suppress(NotFoundError, ConflictError):  # gone, or wanted after all
                    await self._client.delete(LEASES, name, self._namespace, uid=one.metadata.uid, version=version)
                    swept += 1
        return swept

    async def _leases(self) -> AsyncIterator[Lease]:
        pages = self._client.list(LEASES, self._namespace, label_selector=names.selector(names.TENANTS))
        async with contextlib.aclosing(pages):
            async for page in pages:
                for raw in page.items:
                    yield lease.decode(bytes(raw))
