"""The bodies of requests: how large they may be, how long they may take, and how much of them is held at once.

A review holds an object and its old self. An API server takes requests of up to 3 MiB and stores objects of up to
1.5 MiB, and a third more leaves room for how it spells them out. More than that is no review.

Who sends slowly, or sends nothing, loses the connection. Small bodies, which nearly all are, are read as they come;
larger ones share a fixed amount of memory, and wait for each other.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

LARGEST_BODY: Final = 6 * 1024 * 1024
SMALL_BODY: Final = 32 * 1024
MEMORY: Final = 8 * LARGEST_BODY
"""What all bodies that are not small may hold together."""
READ_SECONDS: Final = 10.0
"""In which a body has to arrive, its wait for others included."""


class Intake:
    """Reads the bodies of one server."""

    def __init__(self, *, read_seconds: float = READ_SECONDS, memory: int = MEMORY) -> None:
        self._read_seconds = read_seconds
        self._free = memory
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many bodies wait for others."""
        return len(self._queue)

    @asynccontextmanager
    async def body(self, request: web.Request) -> AsyncIterator[bytes]:
        """The whole body, for as long as it is needed; a refusal in HTTP's terms where it does not come."""
        # Without a length it may become as large as any.
        size = LARGEST_BODY if request.content_length is None else request.content_length
        if size > LARGEST_BODY:
            raise _too_large(f"a body of {size} bytes")
        if size <= SMALL_BODY:
            yield await self._read(request)
            return
        until = asyncio.get_running_loop().time() + self._read_seconds
        has_waited = await self._take(size, until)
        try:
            yield await self._read(request, until, has_waited=has_waited)
        finally:
            self._give(size)

    async def _read(self, request: web.Request, until: float | None = None, *, has_waited: bool = False) -> bytes:
        deadline = asyncio.get_running_loop().time() + self._read_seconds if until is None else until
        try:
            async with asyncio.timeout_at(deadline):
                return await request.read()
        except TimeoutError:
            if has_waited:  # for others: what was left of its time is not its sender's fault
                raise _crowded() from None
            raise _closing(web.HTTPRequestTimeout(text="the body did not arrive in time")) from None
        except web.HTTPRequestEntityTooLarge:
            raise _too_large("a body of more bytes") from None

    async def _take(self, size: int, until: float) -> bool:
        """Wait for so much memory, behind those who came before; whether that took any time."""
        if not self._queue and size <= self._free:
            self._free -= size
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            async with asyncio.timeout_at(until):
                await turn
        except BaseException as problem:
            if turn.done() and not turn.cancelled():
                self._give(size)  # it came in the same moment
            else:
                self._queue.remove((size, turn))
            if isinstance(problem, TimeoutError):
                raise _crowded() from None
            raise
        return True

    def _give(self, size: int) -> None:
        self._free += size
        while self._queue and self._queue[0][0] <= self._free:
            wanted, turn = self._queue.popleft()
            if not turn.done():
                self._free -= wanted
                turn.set_result(None)


def _too_large(what: str) -> web.HTTPException:
    limit = web.HTTPRequestEntityTooLarge(LARGEST_BODY, text=f"{what}: a review has {LARGEST_BODY} at most")
    return _closing(limit)


def _crowded() -> web.HTTPException:
    reason = "too many large bodies at once: try again"
    return _closing(web.HTTPServiceUnavailable(text=reason, headers={"Retry-After": "1"}))


def _closing(answer: web.HTTPException) -> web.HTTPException:
    answer.force_close()
    return answer
