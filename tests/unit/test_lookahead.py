"""Reading ahead: the next is asked for early, and nothing else is different."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from federation_quota.kube.lookahead import look_ahead


class Source:
    """Numbers up to a count, then an error where there is one; and how it was used."""

    def __init__(self, count: int, problem: Exception | None = None) -> None:
        self.count = count
        self.problem = problem
        self.asked = 0
        self.is_closed = False

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(self.count):
                self.asked = number + 1
                await asyncio.sleep(0)
                yield number
            if self.problem is not None:
                raise self.problem
        finally:
            self.is_closed = True


@pytest.mark.parametrize("count", [0, 1, 5])
async def test_everything_comes_in_order(count: int) -> None:
    source = Source(count)
    assert [item async for item in look_ahead(source.items())] == list(range(count))
    assert source.is_closed


async def test_the_next_is_asked_for_while_one_is_worked_on() -> None:
    source = Source(5)
    async with aclosing(look_ahead(source.items())) as coming:
        async for item in coming:
            await asyncio.sleep(0)
            assert source.asked == min(item + 2, 5)


async def test_an_error_comes_after_what_came_before_it() -> None:
    source = Source(3, ValueError("lost"))
    coming = look_ahead(source.items())
    for number in range(3):
        assert await anext(coming) == number
        await asyncio.sleep(0.001)
    with pytest.raises(ValueError, match="lost"):
        await anext(coming)
    assert source.is_closed


@pytest.mark.parametrize("problem", [None, ValueError("nobody asked")])
async def test_whoever_stops_early_leaves_nothing_behind(problem: Exception | None) -> None:
    source = Source(1, problem)
    async with aclosing(look_ahead(source.items())) as coming:
        assert await anext(coming) == 0
        await asyncio.sleep(0.001)
    assert source.is_closed
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_reader_that_is_cancelled_ends_what_is_under_way() -> None:
    is_closed = asyncio.Event()

    async def never() -> AsyncGenerator[int, None]:
        try:
            await asyncio.Event().wait()
            yield 0
        finally:
            is_closed.set()

    reader = asyncio.create_task(anext(look_ahead(never())))
    await asyncio.sleep(0.001)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert is_closed.is_set()
