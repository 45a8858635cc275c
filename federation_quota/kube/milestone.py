"""Waiting for a number to be reached, for many at once: nobody polls, and whoever gives up leaves nothing behind."""

import asyncio
import bisect


class Milestones:
    """A number that rises, and those who wait for it. Waiters for the same number share one place."""

    def __init__(self) -> None:
        self._reached = -1
        self._numbers: list[int] = []  # sorted; those somebody waits for
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def reach(self, number: int) -> None:
        """It is there now; those who waited for it or for less go on."""
        self._reached = max(self._reached, number)
        while self._numbers and self._numbers[0] <= self._reached:
            for future in self._waiting.pop(self._numbers.pop(0)):
                if not future.done():
                    future.set_result(None)

    def rewind(self, number: int) -> None:
        """It fell back: what was reached before no longer counts."""
        self._reached = number

    async def wait(self, number: int, timeout_seconds: float) -> bool:
        """Whether it was reached within the time."""
        if self._reached >= number:
            return True
        if number not in self._waiting:
            bisect.insort(self._numbers, number)
            self._waiting[number] = set()
        future = asyncio.get_running_loop().create_future()
        self._waiting[number].add(future)
        try:
            async with asyncio.timeout(timeout_seconds):
                await future
        except TimeoutError:
            return False
        finally:
            self._leave(number, future)
        return True

    def _leave(self, number: int, future: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(number)
        if waiting is None or future not in waiting:
            return
        waiting.discard(future)
        if not waiting:
            del self._waiting[number]
            del self._numbers[bisect.bisect_left(self._numbers, number)]
