"""What a process knows when it starts, as one that is started for it: every binding, and every quota.

`python -m bench.coldstart SIDE KUBECONFIG` prints what one start took: of the `webhook` and of the `controllers`, with
the product's own reflectors, mirrors and view; or `bare`, the same client reading the same pages and keeping nothing.
"""

import asyncio
import contextlib
import json
import os
import resource as limits
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psutil

from bench.leader import Leader
from federation_quota.accounting.observation import Observation
from federation_quota.kube import codec, config
from federation_quota.kube.client import Client
from federation_quota.kube.error import KubeError
from federation_quota.kube.mirrors import BindingMirror, QuotaMirror
from federation_quota.kube.quotas import KARMADA_QUOTAS, RESOURCE_BINDINGS, QuotaStore, decode_quota
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.resource import Resource
from federation_quota.kube.retry import Policy
from federation_quota.kube.roster import Roster

PAGE = 500
_CAUGHT_UP_SECONDS = 600.0


async def caught_up(kubeconfig: str) -> None:
    """Return when the API server's caches have what was put into etcd beside it: they follow in their own time."""
    async with Client(await config.load(kubeconfig=kubeconfig), retry=Policy(attempts=1)) as client:
        for resource in (RESOURCE_BINDINGS, KARMADA_QUOTAS):
            version = (await anext(client.list(resource, limit=1))).version  # of etcd itself, where the cache is behind
            params: dict[str, str | int | bool | None] = {"limit": 1, "resourceVersion": str(version)}
            async with asyncio.timeout(_CAUGHT_UP_SECONDS):
                while True:
                    with contextlib.suppress(KubeError):
                        await client.request("GET", resource.collection(None), params=params)
                        break


def start(side: str, kubeconfig: str) -> dict[str, float]:
    """One start in a process of its own: what the one before left in memory is not charged to the next."""
    command = [sys.executable, "-m", "bench.coldstart", side, kubeconfig]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ).stdout
    told: dict[str, float] = json.loads(said.splitlines()[-1])  # after what was logged
    return told


async def _webhook(client: Client) -> tuple[int, object]:
    return await _mirror(
        client,
        BindingMirror(Observation()),
        QuotaMirror(lambda _account: None, lambda _namespace, _name, _version: None),
    )


async def _controllers(client: Client) -> tuple[int, object]:
    observation = Observation()
    store = QuotaStore(client, observation, roster=Roster(float), presence_namespace="", presence_selector="")
    leader = Leader(client, observation, store)
    return await _mirror(client, leader.bindings, leader.quotas)


async def _mirror(client: Client, bindings: BindingMirror, quotas: QuotaMirror) -> tuple[int, object]:
    """As both deployables do it: the bindings into the view, the quotas beside it."""
    reflectors: list[Reflector[Any]] = [
        Reflector(client, RESOURCE_BINDINGS, decode=codec.decode_stored_binding, sink=bindings, page_size=PAGE),
        Reflector(client, KARMADA_QUOTAS, decode=decode_quota, sink=quotas, page_size=PAGE),
    ]
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    for reflector in reflectors:
        await reflector.synced.wait()
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return len(bindings.bindings) + len(quotas.accounts), (bindings, quotas)


async def _bare(client: Client) -> tuple[int, object]:
    async def read(what: Resource) -> int:
        count = 0
        async for page in client.list(what, limit=PAGE):
            count += len(page.items)
        return count

    return sum(await asyncio.gather(read(RESOURCE_BINDINGS), read(KARMADA_QUOTAS))), None


_SIDES: dict[str, Callable[[Client], Awaitable[tuple[int, object]]]] = {
    "webhook": _webhook,
    "controllers": _controllers,
    "bare": _bare,
}
SIDES = tuple(_SIDES)


async def _measure(side: str, kubeconfig: str) -> dict[str, float]:
    async with Client(await config.load(kubeconfig=kubeconfig)) as client:
        await client.request("GET", "/readyz")  # connected, and everything imported
        began, cpu = time.perf_counter(), time.process_time()
        objects, _kept = await _SIDES[side](client)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        resident = psutil.Process().memory_info().rss
    peak = limits.getrusage(limits.RUSAGE_SELF).ru_maxrss * 1024
    return {"objects": objects, "seconds": seconds, "cpu": cpu, "resident": resident, "peak": peak}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(*sys.argv[1:]))))
