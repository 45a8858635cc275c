"""A witness of what is stored while it is measured: a watch of its own, judged by the checker of `make faults`.

What comes is put down unread, and read in the pauses: whoever is measured shares the cores with it.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from faults.allowances import Allowances
from federation_quota.kube.client import Client
from federation_quota.kube.error import NoAnswerError
from federation_quota.kube.quotas import RESOURCE_BINDINGS

_PATIENCE_SECONDS = 60.0


class Witness:
    """Every version of every binding, and what limits say to it."""

    def __init__(self, client: Client, trees: Iterable[Allowances]) -> None:
        self._client = client
        self._trees = {one.tree: one for one in trees}
        self._lines: list[bytes] = []
        self._version = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin with what is stored, and follow."""
        async for page in self._client.list(RESOURCE_BINDINGS):
            self._version = page.version
            for raw in page.items:
                self._take("ADDED", {**json.loads(bytes(raw)), "kind": RESOURCE_BINDINGS.kind})
        self._task = asyncio.create_task(self._follow())

    async def judge(self) -> None:
        """All that has been stored by now; it ends when nothing of it is missing."""
        stored = set()
        async for page in self._client.list(RESOURCE_BINDINGS, only_metadata=True):
            for raw in page.items:
                metadata = json.loads(bytes(raw))["metadata"]
                if _tree(metadata) in self._trees:
                    stored.add(f"{metadata['namespace']}/{metadata['name']}")
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                lines, self._lines = self._lines, []
                for line in lines:
                    event = json.loads(line)
                    self._take(event["type"], event["object"])
                if {name for one in self._trees.values() for name in one.held} == stored:
                    return
                if self._task and self._task.done():
                    self._task.result()
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """Follow no longer."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _take(self, kind: str, item: dict[str, Any]) -> None:
        tree = _tree(item["metadata"])
        if tree in self._trees:
            self._trees[tree].take(kind, item)

    async def _follow(self) -> None:
        while True:  # an API server drops who reads too slowly; from where it stopped nothing is missed
            with contextlib.suppress(NoAnswerError):
                watch = self._client.watch(RESOURCE_BINDINGS, version=self._version, timeout_seconds=600)
                async with watch as lines:
                    async for line in lines:
                        version, is_event = _looked_at(line)
                        self._version = max(self._version, version)
                        if is_event:
                            self._lines.append(line)


def _tree(metadata: dict[str, Any]) -> str:
    """Namespaces are called after their tree."""
    return str(metadata["namespace"]).rpartition("-")[0]


def _looked_at(line: bytes) -> tuple[int, bool]:
    """The version of an event, found without reading all of it; and whether it is one of a binding."""
    kind = line[:20]
    if b"ERROR" in kind:
        raise RuntimeError(f"history is lost: {line[:300].decode(errors='replace')}")
    _, _, rest = line.partition(b'"resourceVersion":"')
    digits, _, _ = rest.partition(b'"')
    return int(digits), b"BOOKMARK" not in kind


@asynccontextmanager
async def witnessing(client: Client, trees: Iterable[Allowances]) -> AsyncIterator[Witness]:
    """From now on, until the block is left."""
    found = Witness(client, trees)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()
