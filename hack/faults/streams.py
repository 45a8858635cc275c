"""Watches that end, repeat themselves and expire, and storms of 429 and 5xx, between the product and its API server."""

import asyncio
from collections.abc import Awaitable, Callable

from faults import gateway
from faults.fault import Fault, Scene
from faults.gateway import Lies
from faults.ground import API_SERVER, CONTROLLERS, WEBHOOKS
from localfed.errors import FederationError

SECONDS = 10.0


def faults() -> list[Fault]:
    """All of them."""
    return [
        Fault("watches are dropped", _lying(Lies(ends_watches_after=0.7))),
        Fault("watches are repeated", _lying(Lies(repeats_watches=True))),
        Fault("watches are replayed from the past", _lying(Lies(rewinds_watches=40))),
        Fault("watches expire", _lying(Lies(expires_watches=True))),
        Fault("a storm of 429", _lying(Lies(refuses=0.8, codes=(429,)))),
        Fault("a storm of 5xx", _lying(Lies(refuses=0.4, loses=0.4, codes=(500, 502, 503, 504)))),
    ]


def _lying(lies: Lies) -> Callable[[Scene], Awaitable[None]]:
    async def inject(scene: Scene) -> None:
        ground = scene.ground
        port = ground.port(API_SERVER)
        roads = [ground.roads[name] for name in (*WEBHOOKS, *CONTROLLERS)]
        async with gateway.opened(ground.federation, port, scene.rng) as liar:
            liar.lies = lies
            try:
                for road in roads:
                    road.retarget(liar.port)
                    road.cut()
                await asyncio.sleep(SECONDS)
            finally:
                for road in roads:
                    road.retarget(port)
                    road.cut()
        if not liar.lied:
            raise FederationError("nobody came by")

    return inject
