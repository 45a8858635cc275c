"""A candidate as a process of its own, to be killed and frozen: says when it acts, by the machine's monotonic clock."""

import asyncio
import sys
import time

from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.elector import Elector, Leadership, LeadershipLostError

ACT_SECONDS = 0.01


async def stand(kubeconfig: str, namespace: str, identity: str) -> None:
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
            group.create_task(elector.run(act))
            group.create_task(look(elector))


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
