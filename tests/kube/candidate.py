"""A candidate as a process of its own, to be killed and frozen.

It says when it acts, by the machine's monotonic clock, and writes its token into a ConfigMap, over and over, and once
more when it is told to stop: work that tidies up after itself, in the worst place.
"""

import asyncio
import sys
import time

from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.elector import Elector, Leadership, LeadershipLostError
from federation_quota.kube.error import KubeError
from federation_quota.kube.resource import Resource

ACT_SECONDS = 0.01
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
DIARY = "diary"


async def stand(kubeconfig: str, namespace: str, identity: str) -> None:
    async def lead(leadership: Leadership) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(act(leadership))
            group.create_task(keep_diary(client.permitted(leadership.check), namespace, leadership.token))

    async def act(leadership: Leadership) -> None:
        while True:
            try:
                leadership.check()
                say(f"act {time.monotonic()} {leadership.token}")
            except LeadershipLostError:
                say(f"checked {time.monotonic()} {leadership.token}")
            await asyncio.sleep(ACT_SECONDS)

    async with Client(await config.load(kubeconfig=kubeconfig)) as client:
        elector = Elector(client, namespace, "leader", identity=identity)
        async with asyncio.TaskGroup() as group:
            group.create_task(elector.run(lead))
            group.create_task(look(elector))


async def keep_diary(client: Client, namespace: str, token: int) -> None:
    """Under no version: what is written here can only be kept back, not refused."""
    try:
        while True:
            await write(client, namespace, token)
            await asyncio.sleep(ACT_SECONDS)
    finally:
        await write(client, namespace, token)


async def write(client: Client, namespace: str, token: int) -> None:
    try:
        await client.patch(CONFIG_MAPS, DIARY, {"data": {"token": str(token)}}, namespace)
    except KubeError as problem:
        say(f"not written: {problem}")


async def look(elector: Elector) -> None:
    seen = None
    while True:
        if elector.leader != seen:
            seen = elector.leader
            say(f"saw {seen}")
        await asyncio.sleep(ACT_SECONDS)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(stand(*sys.argv[1:4]))
