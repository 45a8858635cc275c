"""Who is connected: nobody for long without asking anything, and no more than can be served.

Whoever reaches the port may connect: API servers present no certificate of their own. So a connection that brings no
request within a few seconds is ended, and where there are too many, the one that has been idle for longest makes room.
API servers use theirs all the time, and connect anew where one was ended.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

MOST_CONNECTIONS: Final = 4096
FIRST_REQUEST_SECONDS: Final = 10.0
"""From the moment that somebody connected: a handshake, and a whole head of a request."""


class Connection(Protocol):
    """One, as aiohttp's server has it."""

    def force_close(self) -> None:
        """End it."""


class Connections:
    """Those of one listener."""

    def __init__(self, *, most: int = MOST_CONNECTIONS, first_request_seconds: float = FIRST_REQUEST_SECONDS) -> None:
        self._most = most
        self._first_request_seconds = first_request_seconds
        self._idle: dict[Connection, bool] = {}  # whether it has asked before; those idle for longest first
        self._awaited: set[Connection] = set()  # of whom a whole request has yet to arrive, or the rest of one
        self._all_have_asked = asyncio.Event()
        self._all_have_asked.set()

    def admit(self, connection: Connection, others: list[Connection]) -> None:
        """Somebody connects; `others` are connected already."""
        if len(self._idle) >= self._most or len(others) >= self._most:
            self._make_room(set(others))
        self._idle[connection] = False
        self._await(connection)
        asyncio.get_running_loop().call_later(self._first_request_seconds, self._expect, connection)

    def _make_room(self, present: set[Connection]) -> None:
        # Of those who have asked, the ones that ended are forgotten here; the others are when they were expected to.
        self._idle = {one: has_asked for one, has_asked in self._idle.items() if not has_asked or one in present}
        longest = next((one for one in self._idle if one in present), None)
        if len(present) >= self._most and longest is not None:
            del self._idle[longest]
            self.heard(longest)
            longest.force_close()

    @contextmanager
    def busy(self, connection: Connection) -> Iterator[None]:
        """It asks something, of which the head is here; meanwhile nobody takes its place."""
        self._idle.pop(connection, None)
        self._await(connection)
        try:
            yield
        finally:
            self.heard(connection)
            self._idle[connection] = True

    def heard(self, connection: Connection) -> None:
        """The whole of what it asks is here."""
        self._awaited.discard(connection)
        if not self._awaited:
            self._all_have_asked.set()

    async def until_all_have_asked(self, within_seconds: float) -> None:
        """Return when all who have connected have asked, and nobody is in the middle of it, or that time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                await self._all_have_asked.wait()

    def _expect(self, connection: Connection) -> None:
        if self._idle.get(connection) is False:
            del self._idle[connection]
            self.heard(connection)
            connection.force_close()

    def _await(self, connection: Connection) -> None:
        self._awaited.add(connection)
        self._all_have_asked.clear()
