"""An event loop whose time is simulated: hours pass in milliseconds, and every run of a seed is the same."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _NoSelector(selectors.BaseSelector):
    """Waits for nothing: where the loop would sleep, time jumps."""

    def __init__(self) -> None:
        self.now = 0.0
        self._map: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: ANN401
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._map[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:  # noqa: ANN401
        return self._map.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits for somebody else: the simulated world has come to a halt")
        # A little more than asked: the loop fires timers a hair early, and a world where that makes no difference to
        # the clock could turn in place for ever.
        self.now += max(timeout, 0) + 1e-7
        return []

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return self._map


class SimulatedLoop(asyncio.SelectorEventLoop):
    """asyncio with simulated time."""

    def __init__(self) -> None:
        self._simulated = _NoSelector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to completion in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(main)
