"""Asking for the next while the last is still being worked on: an API server needs its time for a page, and we ours."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import TypeVar

T = TypeVar("T")


async def look_ahead(source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The same items in the same order, and the source's error in its place; one is under way at any time.

    It comes closer whenever whoever works on the one before gives way to the event loop. The source is closed with it.
    """
    async with contextlib.aclosing(source):
        coming = asyncio.create_task(_next(source))
        try:
            while (found := await coming) is not None:
                coming = asyncio.create_task(_next(source))
                yield found[0]
        finally:
            coming.cancel()
            await asyncio.wait([coming])
            if not coming.cancelled():
                coming.exception()  # nobody is left who could ask for it


async def _next(source: AsyncGenerator[T, None]) -> tuple[T] | None:
    """The next item; None after the last."""
    try:
        return (await anext(source),)
    except StopAsyncIteration:
        return None
