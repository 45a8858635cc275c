"""An event loop for tests of deadlines over real sockets: its clock stands still while anybody sends or computes.

The clock jumps to the next timer when no socket has been ready for a moment. So a deadline of ten seconds costs a test
that moment, and a busy machine makes no deadline expire early. A test asks for this loop with the marker
`virtual_time`. Both ends of its connections must be on the loop, and they must fall silent at some point: while
something is sent all the time, the clock stands still. `tests.simulation.clock` is faster, and has no sockets.
"""

import asyncio
import selectors
from typing import Final

QUIET_SECONDS: Final = 0.05
"""For how long nothing arrives before the clock jumps: longer than a kernel delays what it sends over loopback."""


class _QuietSelector(selectors.DefaultSelector):
    """Counts virtual seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(QUIET_SECONDS)
        if not events:
            # A little more than asked: the loop fires timers a hair early, and must not ask for the same one again.
            self.now += timeout + 1e-7
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio with real sockets and virtual time."""

    def __init__(self) -> None:
        self._quiet = _QuietSelector()
        super().__init__(self._quiet)

    def time(self) -> float:
        return self._quiet.now
