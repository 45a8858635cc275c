"""Admissions per second on a real federation: ours beside no webhook, one that decides nothing, and Karmada's own."""

import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.admission import load, setups
from bench.admission.gauges import Gauges, Reading
from bench.admission.load import Clients, Request, Told
from bench.admission.setups import ALL, ALLOW, KARMADA, NONE, OURS, Ground
from federation_quota.kube import config


@dataclass(frozen=True, slots=True)
class Scene:
    """One kind of load."""

    name: str
    clients: int
    quotas: int = 1
    kind: str = "create"  # create, scale, deny
    replicas: int = 1


SCENES = (
    Scene("hot quota, 8 clients", 8),
    Scene("hot quota, 32 clients", 32),
    Scene("hot quota, 128 clients", 128),
    Scene("50 quotas, 64 clients", 64, quotas=50),
    Scene("updates, 32 clients", 32, kind="scale"),
    Scene("denials, 32 clients", 32, kind="deny"),
    Scene("hot quota, 32 clients, 2 replicas", 32, replicas=2),
    Scene("50 quotas, 64 clients, 2 replicas", 64, quotas=50, replicas=2),
)


async def play(ground: Ground, clients: Clients, scene: Scene, names: dict[str, list[str]], seconds: float, turn: int, setup: str):
    spaces = names[setup]
    gauges = Gauges(clients, ground.processes()[setup])
    wanted = load.is_stored
    if scene.kind == "scale":
        plans = [load.scalings(spaces[n % len(spaces)], f"s{n}") for n in range(scene.clients)]
    else:
        plans = [load.creations(spaces[n % len(spaces)], f"t{turn}-{n}") for n in range(scene.clients)]
        if scene.kind == "deny" and setup in (OURS, KARMADA):
            wanted = load.is_denied
    before = await gauges.read()
    told = await clients.turn(plans, seconds, wanted)
    await asyncio.sleep(0.3)
    after = await gauges.read()
    return told, after.since(before)


async def main(only: str) -> None:
    seconds, rounds = 4.0, 2
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, setups.ground(Path(folder)) as ground:
        connection = await config.load(kubeconfig=str(ground.federation.directory.kubeconfig))
        async with Clients(connection, 260) as clients:
            for number, scene in enumerate(one for one in SCENES if only in one.name):
                ground.replicas(scene.replicas)
                cpu = "0" if scene.kind == "deny" else "1000000"
                names = {setup: ground.namespaces(setup, f"n{number}", scene.quotas, cpu) for setup in ALL}
                if scene.kind == "scale":
                    for setup in ALL:
                        for n in range(scene.clients):
                            space = names[setup][n % scene.quotas]
                            for _ in range(20):
                                status, body = await clients.ask(Request("POST", load.BINDINGS.format(namespace=space), __import__("msgspec").json.encode(load.binding(f"s{n}", space)), load._HEADERS))
                                if status in (201, 409): break
                await asyncio.sleep(1)
                for turn in range(rounds):
                    for setup in ALL:
                        told, cost = await play(ground, clients, scene, names, seconds, turn, setup)
                        n = max(1, len(told.latencies))
                        total = n + told.others.total()
                        print(f"{scene.name:36} {setup:14} {told.rate:7.0f}/s p50 {told.percentile(.5):6.1f} p99 {told.percentile(.99):6.1f} writes/adm {cost.writes/n:.3f} cpu/req ms " + " ".join(f"{k} {1000*v/total:.2f}" for k, v in cost.seconds.items()), dict(told.others), flush=True)
                        if scene.kind != "scale":
                            for space in names[setup]:
                                await clients.ask(Request("DELETE", load.BINDINGS.format(namespace=space), b"", {}))
                        await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
