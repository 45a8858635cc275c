"""A mirror of elastic quotas and trees that is fed by hand."""

import json
from typing import Any, cast

from federation_quota.kube.client import Client
from federation_quota.kube.forest import ForestMirror
from federation_quota.kube.reflector import Reflector

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

    def see(self, *stored: Object) -> None:
        for one in stored:
            reflector = self._of(one)
            reflector._sink.upsert(reflector._decode(json.dumps(one).encode()))

    def lose(self, one: Object) -> None:
        reflector = self._of(one)
        reflector._sink.delete(reflector._decode(json.dumps(one).encode()))

    def _of(self, one: Object) -> Reflector[Any]:
        return next(reflector for reflector in self.reflectors if reflector._resource.kind == one["kind"])

    async def refresh(self, timeout_seconds: float) -> bool:
        self.refreshes += 1
        self.see(*self.late)
        return self.can_refresh
