"""Connections cut, delayed and swallowed, on each road that the product uses or is reached by."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from faults.fault import Fault, Scene
from faults.ground import CONTROLLERS, MEMBER, WEBHOOKS

CUT_SECONDS, CUT_EVERY_SECONDS = 4.0, 0.4
DELAY_SECONDS = 0.7

# By road: whose proxies these are, for how long it is slow, and how long it is silent: beyond the deadlines of those on
# it. A replica's Lease runs out after 10 s, the leader's after 3 s, a review is given up after 10 s.
ROADS = {
    "the API server and the webhook": (("webhook",), 8.0, 15.0),
    "the webhook and the API server": (WEBHOOKS, 8.0, 15.0),
    "the controllers and the API server": (CONTROLLERS, 6.0, 8.0),
    "the controllers and a member": ((MEMBER,), 6.0, 12.0),
}


def faults() -> list[Fault]:
    """Three for each road."""
    found = []
    for road, (names, slow_seconds, silent_seconds) in ROADS.items():
        found += [
            Fault(f"cut connections between {road}", _cut(names)),
            Fault(f"delay between {road}", _delay(names, slow_seconds)),
            Fault(f"black hole between {road}", _swallow(names, silent_seconds)),
        ]
    return found


def _cut(names: tuple[str, ...]) -> Callable[[Scene], Awaitable[None]]:
    async def inject(scene: Scene) -> None:
        end = time.monotonic() + CUT_SECONDS
        while time.monotonic() < end:
            for name in names:
                scene.ground.roads[name].cut()
            await asyncio.sleep(CUT_EVERY_SECONDS)

    return inject


def _delay(names: tuple[str, ...], seconds: float) -> Callable[[Scene], Awaitable[None]]:
    async def inject(scene: Scene) -> None:
        for name in names:
            scene.ground.roads[name].delay(DELAY_SECONDS)
        await _heal_after(scene, names, seconds)

    return inject


def _swallow(names: tuple[str, ...], seconds: float) -> Callable[[Scene], Awaitable[None]]:
    async def inject(scene: Scene) -> None:
        for name in names:
            scene.ground.roads[name].hold()
        await _heal_after(scene, names, seconds)

    return inject


async def _heal_after(scene: Scene, names: tuple[str, ...], seconds: float) -> None:
    try:
        await asyncio.sleep(seconds)
    finally:
        for name in names:
            scene.ground.roads[name].heal()
