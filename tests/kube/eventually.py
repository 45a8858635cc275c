"""Waiting for a condition, with a bound: never a sleep that hopes."""

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], what: str, within_seconds: float = 120.0) -> float:
    """Return when it holds, with the seconds that took; fail when it never does.

    The bound is a net against a hang on a machine that does much else, and no statement about speed.
    """
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_seconds, f"{what}: not within {within_seconds:g} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - began
