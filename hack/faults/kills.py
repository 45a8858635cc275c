"""kill -9, and started again at once, as a supervisor does."""

from collections.abc import Awaitable, Callable

from faults.fault import Fault, Scene
from faults.ground import API_SERVER, ETCD, MEMBER, WEBHOOKS

# Every process that is killed by its name; the leader is found when its time has come.
DOOMED = (
    *WEBHOOKS,
    API_SERVER,
    ETCD,
    f"{MEMBER}-apiserver",
    "karmada-controller-manager",
    "karmada-scheduler",
    "karmada-webhook",
)


def faults() -> list[Fault]:
    """All of them."""
    return [*(Fault(f"kill {name}", _kill(name), is_kill=True) for name in DOOMED), _LEADER]


def _kill(name: str) -> Callable[[Scene], Awaitable[None]]:
    async def inject(scene: Scene) -> None:
        await scene.ground.kill(name)
        await scene.ground.start(name)

    return inject


async def _kill_leader(scene: Scene) -> None:
    name = await scene.ground.the_leader()
    await scene.ground.kill(name)
    await scene.ground.start(name)


_LEADER = Fault("kill the leader", _kill_leader, is_kill=True)
