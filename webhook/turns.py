"""Turns: so many reviews of one namespace are in process at once, and no namespace waits for another.

Everything that is ready runs in one event loop, in the order in which it became ready: with hundreds of one tenant's
reviews under way, each step of another's would wait for a step of all of them. So most of a flood stands in its own
namespace's queue, and costs nobody anything there. A write takes up whoever is in process: enough of them that one
account's reviews still share their writes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

# Fewer would be kinder to others; but near a limit reviews wait for each other's writes, and who waits has a turn.
MOST_AT_ONCE: Final = 32


class Turns:
    """The queues of one server, by namespace; one that is empty is forgotten."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._present: dict[str, int] = {}  # in process, or waiting

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a turn, behind those of the same namespace who came before."""
        gate = self._gates.setdefault(namespace, asyncio.Semaphore(self._most))
        self._present[namespace] = self._present.get(namespace, 0) + 1
        try:
            async with gate:
                yield
        finally:
            self._present[namespace] -= 1
            if not self._present[namespace]:
                del self._present[namespace], self._gates[namespace]
