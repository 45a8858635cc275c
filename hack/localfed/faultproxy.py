"""A TCP proxy on loopback that can be made to fail: what networks and load balancers do to a connection, on demand.

It runs on the caller's event loop and forwards bytes as they are, so TLS passes through it. Held bytes are not lost:
like packets of a network that recovers, they arrive late, in order, once the fault is over, unless their connection was
cut meanwhile. For tests of everything that must survive an API server that hangs, vanishes or answers late.
"""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from localfed.ports import LOOPBACK

_CHUNK = 64 * 1024


class FaultProxy:
    """Forwards to one server; the faults hold for all connections, present and to come, until `heal`."""

    def __init__(self, port: int, host: str = LOOPBACK) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._requests_flow = asyncio.Event()
        self._answers_flow = asyncio.Event()
        self._delay_seconds = 0.0
        self._is_refusing = False
        self.accepted = 0
        self.heal()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        tasks = list(self._connections)
        self.cut()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        if self._server is None:
            raise RuntimeError("the proxy listens inside its `async with` block")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The address to use instead of the server's."""
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    def retarget(self, port: int) -> None:
        """Lead connections to come to another server of the same machine."""
        self._target = (self._target[0], port)

    def cut(self) -> None:
        """Reset every connection, now; what they held is lost."""
        for writers in self._connections.values():
            for writer in writers:
                writer.transport.abort()

    def refuse(self) -> None:
        """Reset every new connection at once."""
        self._is_refusing = True

    def hold(self, *, requests: bool = True, answers: bool = True) -> None:
        """Let nothing through: a black hole. New connections open, and say nothing."""
        if requests:
            self._requests_flow.clear()
        if answers:
            self._answers_flow.clear()

    def delay(self, seconds: float) -> None:
        """Let everything through later."""
        self._delay_seconds = seconds

    def heal(self) -> None:
        """No fault any more; what was held goes on its way."""
        self._is_refusing = False
        self._delay_seconds = 0.0
        self._requests_flow.set()
        self._answers_flow.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self.accepted += 1
        if self._is_refusing or task is None:
            writer.transport.abort()
            return
        self._connections[task] = [writer]
        try:
            there, back = await asyncio.open_connection(*self._target)
            self._connections[task].append(back)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back, self._requests_flow))
                group.create_task(self._pump(there, writer, self._answers_flow))
        except* (OSError, asyncio.CancelledError):
            pass  # the server is not there, a connection was cut, or the proxy ends
        finally:
            for one in self._connections.pop(task):
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: asyncio.Event) -> None:
        while chunk := await reader.read(_CHUNK):
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            await flow.wait()
            writer.write(chunk)
            await writer.drain()
        await flow.wait()  # the end, too, arrives in order
        with contextlib.suppress(OSError):
            # Half a connection is of no use to HTTP: the end of one side ends both.
            writer.close()
