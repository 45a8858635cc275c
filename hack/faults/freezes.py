"""SIGSTOP for longer than every deadline that the process, or whoever waits for it, goes by; then SIGCONT.

A frozen process goes on where it stopped, with what it wanted to do then. The API server cuts writes at 34 s, a
reservation may be looked at after 60 s, a replica's Lease runs out after 10 s, the leader's after 3 s.
"""

import asyncio
from collections.abc import Awaitable, Callable

from faults.fault import Fault, Scene
from faults.ground import API_SERVER, ETCD, WEBHOOKS
from localfed.errors import FederationError

BEYOND_WRITES = 38.0
BEYOND_EXPIRY = 65.0


def faults() -> list[Fault]:
    """All of them."""
    return [
        Fault("freeze a webhook replica beyond the expiry", _freeze_webhook),
        Fault("freeze the API server beyond the expiry", _freeze(API_SERVER, BEYOND_EXPIRY)),
        Fault("freeze etcd beyond every write", _freeze(ETCD, BEYOND_WRITES)),
        Fault("freeze the leader beyond its lease: two leaders", _freeze_leader),
    ]


def _freeze(name: str, seconds: float) -> Callable[[Scene], Awaitable[None]]:
    async def inject(scene: Scene) -> None:
        with scene.ground.frozen(name):
            await asyncio.sleep(seconds)

    return inject


async def _freeze_webhook(scene: Scene) -> None:
    await _freeze(scene.rng.choice(WEBHOOKS), BEYOND_EXPIRY)(scene)


async def _freeze_leader(scene: Scene) -> None:
    frozen = await scene.ground.the_leader()
    with scene.ground.frozen(frozen):
        await asyncio.sleep(BEYOND_WRITES)
        if await scene.ground.the_leader() == frozen:
            raise FederationError(f"{frozen} has been frozen for {BEYOND_WRITES:.0f} s, and nobody else leads")
