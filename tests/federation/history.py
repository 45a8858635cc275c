"""An independent witness: every stored version of every binding in a namespace, from a watch of its own.

What a binding costs is worked out by the checker of `make faults`: nothing of the product's is used.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

from faults import charge
from federation_quota.kube.client import Client
from federation_quota.kube.error import NoAnswerError
from federation_quota.kube.quotas import RESOURCE_BINDINGS


def cpu(binding: dict[str, Any]) -> Fraction:
    """The cpu that a binding costs, in cores."""
    return charge.charge(binding).get("cpu", Fraction(0))


class History:
    """All that was stored, in order."""

    def __init__(self) -> None:
        self.stored: dict[str, Fraction] = {}
        self.highest = Fraction(0)
        self.versions = 0
        self.version = 0  # everything up to here has been seen
        self.changed = asyncio.Event()

    @property
    def total(self) -> Fraction:
        return sum(self.stored.values(), Fraction(0))

    def take(self, line: bytes) -> None:
        event = json.loads(line)
        assert event["type"] != "ERROR", f"history is lost: {event['object']}"
        self.version = int(event["object"]["metadata"]["resourceVersion"])
        if event["type"] == "BOOKMARK":
            return
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            self.stored.pop(name, None)
        else:
            self.stored[name] = cpu(event["object"])
        self.versions += 1
        self.changed.set()
        self.highest = max(self.highest, self.total)


@asynccontextmanager
async def witness(client: Client, namespace: str) -> AsyncIterator[History]:
    """Watch from now on, until the block is left and everything stored in it was seen."""
    history = History()
    async for page in client.list(RESOURCE_BINDINGS, namespace):
        history.version = page.version
        for raw in page.items:
            item = json.loads(bytes(raw))
            history.stored[item["metadata"]["name"]] = cpu(item)

    async def follow() -> None:
        while True:  # an API server drops who reads too slowly; from where it stopped nothing is missed
            with contextlib.suppress(NoAnswerError):
                watch = client.watch(RESOURCE_BINDINGS, namespace, version=history.version, timeout_seconds=600)
                async with watch as lines:
                    async for line in lines:
                        history.take(line)

    task = asyncio.create_task(follow())
    task.add_done_callback(lambda _task: history.changed.set())
    try:
        yield history
        stored = await _stored(client, namespace)
        async with asyncio.timeout(120):
            while history.stored != stored:
                await history.changed.wait()
                history.changed.clear()
                if task.done():
                    task.result()  # why nothing more will come
    finally:
        task.cancel()


async def _stored(client: Client, namespace: str) -> dict[str, Fraction]:
    found = {}
    async for page in client.list(RESOURCE_BINDINGS, namespace):
        for raw in page.items:
            item = json.loads(bytes(raw))
            found[item["metadata"]["name"]] = cpu(item)
    return found
