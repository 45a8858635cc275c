"""A sink that remembers what it was told, and a reflector over it: what the tests look into."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from federation_quota.kube.backoff import Backoff
from federation_quota.kube.client import Client
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.resource import Resource
from tests.kube.kinds import CONFIGMAPS


class Meta(msgspec.Struct, frozen=True):
    name: str
    version: str = msgspec.field(name="resourceVersion")


class Item(msgspec.Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] = {}

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def version(self) -> int:
        return int(self.metadata.version)


_DECODER = msgspec.json.Decoder(Item)


def decode(body: bytes) -> Item:
    item = _DECODER.decode(body)
    if item.data.get("poison"):
        raise ValueError("poisoned")
    return item


class Mirror:
    """The objects, and every call."""

    def __init__(self) -> None:
        self.objects: dict[str, Item] = {}
        self.calls: list[tuple[str, object]] = []
        self.version = 0

    def replace(self, items: Sequence[Item], version: int) -> None:
        self.objects = {item.name: item for item in items}
        self.calls.append(("replace", version))
        self.version = version

    def upsert(self, item: Item) -> None:
        assert item.version > self.version, "versions come in order"
        self.objects[item.name] = item
        self.calls.append(("upsert", item.name))
        self.version = item.version

    def delete(self, item: Item) -> None:
        assert item.version > self.version, "versions come in order"
        self.objects.pop(item.name, None)
        self.calls.append(("delete", item.name))
        self.version = item.version

    def bookmark(self, version: int) -> None:
        assert version >= self.version, "versions come in order"
        self.calls.append(("bookmark", version))
        self.version = version

    def data(self) -> dict[str, dict[str, str]]:
        return {name: item.data for name, item in self.objects.items() if name != "kube-root-ca.crt"}


@contextlib.asynccontextmanager
async def reflecting(
    client: Client,
    namespace: str,
    mirror: Mirror,
    *,
    resource: Resource = CONFIGMAPS,
    **options: Any,  # noqa: ANN401 - the reflector's own, whatever they are
) -> AsyncIterator[Reflector[Item]]:
    """A reflector that runs for the block, and is synced when it begins."""
    quick = {"backoff": Backoff(first_seconds=0.02, most_seconds=0.2), "namespace": namespace, "decode": decode}
    reflector: Reflector[Item] = Reflector(client, resource, sink=mirror, **{**quick, **options})
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(120):
            synced = asyncio.create_task(reflector.synced.wait())
            await asyncio.wait({task, synced}, return_when=asyncio.FIRST_COMPLETED)
            synced.cancel()
        if task.done():
            task.result()
        yield reflector
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
