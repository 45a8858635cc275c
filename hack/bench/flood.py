"""What a tenant who floods one namespace costs another: behind our webhook, and behind one that decides nothing.

Two tenants on a real federation API server. One creates bindings at a steady pace, in a namespace with a quota of its
own; the other floods its own namespace with as many clients as it can: with what fits, with what does not, and with
what is huge and malformed. Whoever floods an API server slows everybody down. What is compared is the steady tenant's
latency and throughput beside the same flood behind a webhook that lets everything through at once.

The set-ups take turns, round by round. The flood is a process of its own, and the same for both: as many requests a
second as get through behind the webhook that lets everything through. Whoever refuses sooner would else be sent more.
"""

import asyncio
import json
import math
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.admission import load, setups
from bench.admission.load import BINDINGS, Clients, Request
from bench.admission.setups import ALLOW, OURS, Ground
from bench.flooder import DENIED, KINDS
from bench.measure import QUICK, Comparison, Effort, Findings
from federation_quota.kube import config

BAR: Final = 1.2
CLIENTS: Final = 64
PER_SECOND: Final = 25
"""The pace of the steady tenant."""
_SETTLE_SECONDS: Final = 1.0
_HEAD_START_SECONDS: Final = 0.5
"""The first connections of the flood: what is measured begins after them."""


@dataclass(slots=True)
class Side:
    """What the steady tenant saw behind one webhook."""

    latencies: list[float] = field(default_factory=list)
    rounds: list[load.Told] = field(default_factory=list)
    flood: list[dict[str, float]] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """In milliseconds, over all rounds."""
        return load.Told(latencies=self.latencies).percentile(share)


def run(effort: Effort) -> Findings:
    """Every kind of flood."""
    rounds, seconds = (1, 2.0) if effort is QUICK else (6, 8.0)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, setups.ground(Path(folder)) as ground:
        return Findings(asyncio.run(_measure(ground, rounds, seconds)))


async def _measure(ground: Ground, rounds: int, seconds: float) -> list[Comparison]:
    kubeconfig = str(ground.federation.directory.kubeconfig)
    connection = await config.load(kubeconfig=kubeconfig)
    found = []
    async with Clients(connection, 200) as clients:
        for number, kind in enumerate(KINDS):
            steady = {one: ground.namespaces(one, f"steady{number}", 1, "1000000")[0] for one in (OURS, ALLOW)}
            limit = "0" if kind == DENIED else "1000000"
            flooded = {one: ground.namespaces(one, f"flood{number}", 1, limit)[0] for one in (OURS, ALLOW)}
            first = Side()
            await take_turn(clients, first, steady[ALLOW], flooded[ALLOW], kubeconfig, kind, seconds, rounds, math.inf)
            pace = first.flood[0]["stored"] / first.flood[0]["seconds"]
            sides = {OURS: Side(), ALLOW: Side()}
            for turn in range(rounds):
                # Whatever comes first finds a store that is a little smaller: they take turns at it.
                for setup in (OURS, ALLOW) if turn % 2 else (ALLOW, OURS):
                    places = steady[setup], flooded[setup]
                    await take_turn(clients, sides[setup], *places, kubeconfig, kind, seconds, turn, pace)
            found += _compared(kind, sides[OURS], sides[ALLOW])
            for setup, side in sides.items():
                print(f"flood: {kind}, {setup}: {told(side)}", file=sys.stderr, flush=True)
    return found


async def take_turn(
    clients: Clients,
    side: Side,
    steady: str,
    flooded: str,
    kubeconfig: str,
    kind: str,
    seconds: float,
    turn: int,
    pace: float,
) -> None:
    """One round: the flood, and beside it what the steady tenant sees."""
    arguments = [kubeconfig, flooded, kind, str(CLIENTS), str(seconds + _HEAD_START_SECONDS), str(turn), str(pace)]
    flood = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.flooder",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    if flood.stdout is None or await flood.stdout.readline() != b"flooding\n":
        raise RuntimeError("the flood did not begin")
    await asyncio.sleep(_HEAD_START_SECONDS)
    told = await _at_a_pace(clients, steady, seconds, f"t{turn}")
    output, _ = await flood.communicate()
    if flood.returncode:
        raise RuntimeError(f"the flood ended with {flood.returncode}")
    side.latencies += told.latencies
    side.rounds.append(told)
    side.flood.append(json.loads(output))
    for namespace in (steady, flooded):
        await clients.ask(Request("DELETE", BINDINGS.format(namespace=namespace), b"", {}))
    await asyncio.sleep(_SETTLE_SECONDS)


async def _at_a_pace(clients: Clients, namespace: str, seconds: float, prefix: str) -> load.Told:
    """Creations at fixed moments, whether or not those before are answered: waiting would hide the slowness."""
    told = load.Told()
    loop = asyncio.get_running_loop()
    plan = load.creations(namespace, prefix)
    began = loop.time()

    async def one(request: Request) -> None:
        asked = loop.time()
        while True:
            status, _ = await clients.ask(request)
            if status == 429:  # as clients of Kubernetes do
                await asyncio.sleep(1)
                continue
            break
        if load.is_stored(status, b""):
            told.latencies.append(loop.time() - asked)
        else:
            told.others[str(status)] += 1

    tasks = []
    for number in range(int(seconds * PER_SECOND)):
        await asyncio.sleep(max(0.0, began + number / PER_SECOND - loop.time()))
        tasks.append(asyncio.create_task(one(next(plan))))
    await asyncio.gather(*tasks)
    told.seconds = loop.time() - began
    return told


def _compared(kind: str, ours: Side, theirs: Side) -> list[Comparison]:
    rows = []
    for what, share in (("p50", 0.5), ("p99", 0.99)):
        ratios = [
            mine.percentile(share) / other.percentile(share)
            for mine, other in zip(ours.rounds, theirs.rounds, strict=True)
        ]
        rows.append(
            Comparison(
                what=f"{kind}: the other tenant's {what}",
                yardstick="always allow",
                ours=ours.percentile(share),
                theirs=theirs.percentile(share),
                ratio=statistics.median(ratios),
                bar=BAR,
                unit="ms",
            )
        )
    rates = [statistics.mean(told.rate for told in side.rounds) for side in (ours, theirs)]
    rows.append(
        Comparison(
            what=f"{kind}: the other tenant's time per admission",
            yardstick="always allow",
            ours=1000 / rates[0],
            theirs=1000 / rates[1],
            ratio=rates[1] / rates[0],
            bar=BAR,
            unit="ms",
        )
    )
    return rows


def told(side: Side) -> str:
    """One side, for people."""
    others = {name: count for told in side.rounds for name, count in told.others.items()}
    flooded = side.flood[-1]
    rate = sum(value for name, value in flooded.items() if name != "seconds") / flooded["seconds"]
    steady = f"p50 {side.percentile(0.5):.1f} ms, p99 {side.percentile(0.99):.1f} ms, others {others}"
    return f"{steady}; flood {rate:.0f}/s {flooded}"
