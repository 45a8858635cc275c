"""The wall clock of a replica jumps, stays wrong for a while, and is put right: see `shifted`."""

import asyncio
from collections.abc import Awaitable, Callable

from faults.fault import Fault, Scene
from faults.ground import CONTROLLERS, WEBHOOKS

HOUR, DAY = 3600.0, 86400.0
SECONDS = 5.0


def faults() -> list[Fault]:
    """All of them."""
    return [
        Fault("the webhook's clock jumps an hour ahead", _jump(WEBHOOKS, HOUR)),
        Fault("the webhook's clock jumps a month back", _jump(WEBHOOKS, -30 * DAY)),
        # Beyond the life of a serving certificate, which is a week: it has expired, for whoever asks that clock.
        Fault("the webhook's clock jumps ten days ahead: its certificate has expired", _jump(WEBHOOKS, 10 * DAY)),
        Fault("the controllers' clock jumps an hour back", _jump(CONTROLLERS, -HOUR)),
        Fault("the controllers' clock jumps ten days ahead", _jump(CONTROLLERS, 10 * DAY)),
    ]


def _jump(names: tuple[str, ...], by_seconds: float) -> Callable[[Scene], Awaitable[None]]:
    async def inject(scene: Scene) -> None:
        try:
            for name in names:
                scene.ground.clock(name).write_text(str(by_seconds))
            await asyncio.sleep(SECONDS)
        finally:
            for name in names:
                scene.ground.clock(name).write_text("0")
            # Connections of before would hide what is shown to those that come now.
            scene.ground.roads["webhook"].cut()

    return inject
