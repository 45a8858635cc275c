"""The socket that the webhook listens on: closed without losing anybody who had connected.

A kernel resets connections that nobody has accepted yet when their socket is closed, and asyncio forgets those that it
has accepted in the same moment. Behind a Service none come by then; beside other replicas on one port they come until
the last moment, and each one lost is an admission that fails.
"""

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from aiohttp import web

from federation_quota.monitoring import Address, ListenError
from webhook.connections import Connections

BACKLOG: Final = 1024
HANDSHAKE_SECONDS: Final = 10.0
# For who has connected when listening ends, and has not asked yet, or not all of it: a handshake and a request. On a
# machine that does much else they take seconds. Who never asks is not waited for longer.
LINGER_SECONDS: Final = 3.0


class Listener:
    """Brings connections to an application that was set up."""

    def __init__(self, runner: web.AppRunner, connections: Connections) -> None:
        self._runner = runner
        self._connections = connections
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._context: ssl.SSLContext | None = None

    @property
    def is_open(self) -> bool:
        """Whether anybody can connect."""
        return self._server is not None

    async def open(self, address: Address, context: ssl.SSLContext, *, shares_port: bool = False) -> None:
        """Listen; `shares_port`: beside other replicas on the same machine, the kernel dealing connections out."""
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        place = (address.host, address.port)
        self._context = context
        try:
            self._socket = socket.create_server(place, family=family, backlog=BACKLOG, reuse_port=shares_port)
        except OSError as problem:
            raise ListenError(f"cannot listen on {address} (--listen): {problem.strerror or problem}") from None
        # Not by a site of aiohttp's: those take connections without limit, and a minute for each handshake.
        self._server = await asyncio.get_running_loop().create_server(
            self._admit,
            sock=self._socket,
            ssl=context,
            backlog=BACKLOG,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )

    async def close(self) -> None:
        """Listen no more, and give those who have connected time to ask."""
        if self._socket is None or self._server is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        await asyncio.sleep(0)  # those that the loop has accepted become connections of the server's
        last = []
        with contextlib.suppress(BlockingIOError):
            while True:
                last.append(self._socket.accept()[0])
        self._server.close()  # hardly a moment after the last was taken in
        self._server = None
        taken = [asyncio.create_task(self._take(one)) for one in last]
        await asyncio.sleep(0)  # they are connections now
        await self._connections.until_all_have_asked(LINGER_SECONDS)
        for task in taken:
            task.cancel()

    async def _take(self, connection: socket.socket) -> None:
        """As the event loop does it with those that it accepts itself."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            await loop.connect_accepted_socket(self._admit, connection, ssl=self._context)

    def _admit(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None:
            raise RuntimeError("the application was not set up")
        connection = server()
        self._connections.admit(connection, list(server.connections))
        return connection
