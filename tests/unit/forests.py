"""A mirror of elastic quotas and trees that is fed by hand, and the list of changes that replicas share."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

from federation_quota.kube import error
from federation_quota.kube.client import Client
from federation_quota.kube.forest import ForestMirror
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.underway import SharedUnderway
from webhook.deliberation import Deliberation

Object = dict[str, Any]


class Nowhere:
    """A name, for the log of reflectors that nobody runs."""

    class connection:  # noqa: N801 - an attribute, not a type
        server = "https://nowhere"


class Mirror(ForestMirror):
    """A mirror that is fed by hand. What is `late` is stored already, and seen when everything is read anew."""

    def __init__(self, *stored: Object) -> None:
        super().__init__(cast(Client, Nowhere()))
        self.late: list[Object] = []
        self.refreshes = 0
        self.can_refresh = True
        for reflector in self.reflectors:
            reflector.synced.set()
        self.see(*stored)

        for reflector in self.reflectors:
            reflector.refresh = self.refresh  # type: ignore[method-assign] # nobody runs them

    def see(self, *stored: Object, version: int = 0) -> None:
        for one in stored:
            reflector = self._of(one)
            reflector._sink.upsert(reflector._decode(json.dumps(one).encode()))
            reflector.version = max(reflector.version, version)

    def lose(self, one: Object) -> None:
        reflector = self._of(one)
        reflector._sink.delete(reflector._decode(json.dumps(one).encode()))

    def _of(self, one: Object) -> Reflector[Any]:
        return next(reflector for reflector in self.reflectors if reflector.resource.kind == one["kind"])

    async def refresh(self, timeout_seconds: float) -> bool:
        self.refreshes += 1
        self.see(*self.late)
        return self.can_refresh


class Shelf:
    """An API server with one Lease, on which replicas keep what is under way."""

    class connection:  # noqa: N801 - as above
        server = "https://nowhere"

    def __init__(self) -> None:
        self.version = 0
        self.annotations: dict[str, str] = {}
        self.problem: Exception | None = None

    async def create(self, _resource: object, body: Object, _namespace: str, **_options: object) -> bytes:
        return await self._write(body, error.AlreadyExistsError(409, "AlreadyExists") if self.version else None)

    async def patch(self, _resource: object, _name: str, body: Object, _namespace: str, **_options: object) -> bytes:
        is_old = body["metadata"]["resourceVersion"] != str(self.version)
        return await self._write(body, error.ConflictError(409, "Conflict") if is_old else None)

    async def _write(self, body: Object, problem: Exception | None) -> bytes:
        if problem := problem or self.problem:
            await asyncio.sleep(0)
            raise problem
        self.version += 1
        self.annotations = body["metadata"]["annotations"]
        await asyncio.sleep(0)
        return self.stored

    @property
    def stored(self) -> bytes:
        metadata = {"name": "x", "resourceVersion": str(self.version), "annotations": self.annotations}
        return json.dumps({"metadata": metadata}).encode()


class Shared(SharedUnderway):
    """The list as one replica knows it."""

    def __init__(self, shelf: Shelf | None = None, clock: Callable[[], float] | None = None) -> None:
        self.shelf = shelf or Shelf()
        loop = asyncio.get_running_loop()
        super().__init__(cast(Client, self.shelf), "system", clock=clock or loop.time)
        self.reflector.synced.set()
        self.reflector.refresh = self.look  # type: ignore[method-assign] # nobody runs it

    async def look(self, timeout_seconds: float) -> bool:
        """Read it anew."""
        await asyncio.sleep(0)
        self.replace([self.reflector._decode(self.shelf.stored)] if self.shelf.version else [], self.shelf.version)
        return True

    def clear(self) -> None:
        """As if nothing had been let through."""
        self.shelf.version, self.shelf.annotations = 0, {}
        self.replace([], 0)


def deliberation(mirror: Mirror, shared: Shared | None = None) -> Deliberation:
    """How a replica with that mirror decides."""
    return Deliberation(mirror, shared or Shared())
