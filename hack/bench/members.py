"""One member with 20,000 pods: listing, decoding and counting them, beside the bare paged list of the same pods.

A real API server holds the pods, which are as large as pods are. Each side runs in a process of its own, so that what
one leaves in memory is not charged to the other; time is that of the clock, since this is what a member keeps one
waiting for. `python -m bench.members SIDE KUBECONFIG` is such a process.
"""

import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.measure import Comparison, Effort, Findings
from federation_quota.census import Census
from federation_quota.kube import codec, config
from federation_quota.kube.client import Client
from federation_quota.kube.clusters import PODS
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.resource import Resource
from federation_quota.pod import Pod
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
MANY, FEW = 20_000, 500
WORKLOADS = 200
CREATORS = 24
PAGE = 500
# Without the collector: it would clear away pods whose ReplicaSet is not there.
SHAPE = Shape(members=0, karmada=False, flags={"federation-controller-manager": ["--enable-garbage-collector=false"]})
# What a member of 50,000 pods may cost, by the pod.
MOST_BYTES = 100_000_000 / 50_000


def run(effort: Effort) -> Findings:
    """All rows, on a federation that is made for it."""
    is_thorough = effort.rounds > 10
    count, rounds = (MANY, 9) if is_thorough else (FEW, 1)
    with tempfile.TemporaryDirectory(prefix="bench-members-") as folder, Guard() as guard:
        federation = Federation(Path(folder) / "fed")
        try:
            federation.up(SHAPE, guard)
            kubeconfig = str(federation.directory.kubeconfig)
            asyncio.run(_fill(kubeconfig, count))
            ours: list[dict[str, float]] = []
            bare: list[dict[str, float]] = []
            for number in range(rounds):
                for side, found in (("ours", ours), ("bare", bare))[:: 1 if number % 2 else -1]:
                    found.append(_in_a_process(side, kubeconfig))
        finally:
            federation.down()
    listed = {one["pods"] for one in (*ours, *bare)}
    if listed != {count}:
        raise AssertionError(f"{count} pods were made, and {sorted(listed)} listed")
    return Findings(_rows(ours, bare, count))


def _rows(ours: list[dict[str, float]], bare: list[dict[str, float]], count: int) -> list[Comparison]:
    def row(what: str, key: str, unit: str, scale: float, bar: float | None) -> Comparison:
        mine, theirs = ([one[key] for one in side] for side in (ours, bare))
        ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
        sides = (statistics.median(mine) * scale, statistics.median(theirs) * scale)
        return Comparison(what, "bare paged list", *sides, ratio, bar, unit)

    own = statistics.median(one["grown"] for one in ours) / count
    return [
        row(f"list, decode and count {count} pods, each", "seconds", "us", 1e6 / count, 2.0),
        row("the same in CPU time of this side alone", "cpu", "us", 1e6 / count, None),
        row("peak memory of the process", "peak", "MB", 1e-6, 2.0),
        Comparison("memory per pod, at the peak", "100 MB / 50,000", own, MOST_BYTES, own / MOST_BYTES, 1.0, "B"),
    ]


def _in_a_process(side: str, kubeconfig: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.members", side, kubeconfig]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ).stdout
    told: dict[str, float] = json.loads(said.splitlines()[-1])  # after what was logged
    return told


async def _fill(kubeconfig: str, count: int) -> None:
    names = iter(range(count))

    async def create(client: Client) -> None:
        for number in names:
            namespace = f"team-{number % 20}"
            await client.create(PODS, _pod(number), namespace)

    async with Client(await config.load(kubeconfig=kubeconfig)) as client:
        for number in range(20):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}}
            await client.create(NAMESPACES, body)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CREATORS):
                tasks.create_task(create(client))


def _pod(number: int) -> dict[str, Any]:
    """A pod of a Deployment, with a sidecar, and with all that pods carry along."""
    workload = f"workload-{number % WORKLOADS}"
    cpu = f"{50 * (1 + number % WORKLOADS % 8)}m"

    def container(name: str, cpu: str) -> dict[str, Any]:
        environment = [{"name": f"SETTING_{index}", "value": f"value-of-{index}"} for index in range(12)]
        probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
        return {
            "name": name,
            "image": f"registry.example/{workload}/{name}:1.2.3",
            "env": environment,
            "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "livenessProbe": probe,
            "readinessProbe": probe,
        }

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{workload}-6d4cf56db6-{number:05d}",
            "labels": {"app.kubernetes.io/name": workload, "pod-template-hash": "6d4cf56db6"},
            "annotations": {"example.com/checksum": "0123456789abcdef" * 4},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{workload}-6d4cf56db6",
                    "uid": f"00000000-0000-0000-0000-{number % WORKLOADS:012d}",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "initContainers": [{**container("proxy", "10m"), "restartPolicy": "Always"}],
            "containers": [container("main", cpu)],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
    }


async def _ours(client: Client) -> int:
    census = Census()
    reflector: Reflector[Pod] = Reflector(client, PODS, decode=codec.decode_pod, sink=census, page_size=PAGE)
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return len(census)


async def _bare(client: Client) -> int:
    count = 0
    async for page in client.list(PODS, limit=PAGE):
        count += len(page.items)
    return count


async def _measure(side: str, kubeconfig: str) -> dict[str, float]:
    async with Client(await config.load(kubeconfig=kubeconfig)) as client:
        await client.request("GET", "/readyz")  # connected, and everything imported
        before, began, cpu = psutil.Process().memory_info().rss, time.perf_counter(), time.process_time()
        count = await (_ours if side == "ours" else _bare)(client)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"pods": count, "seconds": seconds, "cpu": cpu, "peak": peak, "grown": peak - before}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(*sys.argv[1:]))))
