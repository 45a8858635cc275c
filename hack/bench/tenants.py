"""What a tenant who floods a slow validator costs another: beside the same flood without validators.

Two tenants, two replicas of our webhook. One creates bindings at a steady pace; the other floods, and the validator
takes its time for each of its requests, and none for the steady tenant's. Both are asked about, each in turns of its
own. What is compared is the steady tenant's latency while the validator is switched on, and while it is off.

As in `flood`: the sides take turns, round by round, and the flood is of the same clients and the same pace for both.
"""

import asyncio
import math
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import slow
from bench.admission import setups
from bench.admission.load import Clients
from bench.admission.setups import OURS, SHAPE, Ground
from bench.flood import Side, take_turn, told
from bench.flooder import FITTING
from bench.measure import QUICK, Comparison, Effort, Findings
from federation_quota.kube import config
from localfed import packages
from localfed.quota import webhook_name

BAR: Final = 1.2
SLOW_SECONDS: Final = 0.05
WITH: Final = "with a slow validator"
WITHOUT: Final = "without"
_STEADY: Final = "steady"
_FLOOD: Final = "flood"


def run(effort: Effort) -> Findings:
    """Both sides."""
    rounds, seconds = (1, 2.0) if effort is QUICK else (6, 8.0)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        switch = Path(folder) / "on"
        replicas = [webhook_name(number) for number in (1, 2)]
        made = packages.package(Path(folder) / "packages", "slow", {"slow": "slow:Slow"}, Path(slow.__file__))
        settings = [f"slow.switch={switch}", f"slow.seconds={SLOW_SECONDS}", f"slow.namespaces={_FLOOD}"]
        flags = ["--validators=slow", f"--validator-settings={','.join(settings)}"]
        shape = replace(
            SHAPE,
            flags={**SHAPE.flags, **dict.fromkeys(replicas, flags)},
            runners={name: [packages.__file__, str(made)] for name in replicas},
        )
        with setups.ground(Path(folder), shape) as ground:
            ground.replicas(2)
            return Findings(asyncio.run(_measure(ground, switch, rounds, seconds)))


async def _measure(ground: Ground, switch: Path, rounds: int, seconds: float) -> list[Comparison]:
    kubeconfig = str(ground.federation.directory.kubeconfig)
    [steady], [flooded] = (ground.namespaces(OURS, name, 1, "1000000") for name in (_STEADY, _FLOOD))
    async with Clients(await config.load(kubeconfig=kubeconfig), 200) as clients:
        first = Side()
        await take_turn(clients, first, steady, flooded, kubeconfig, FITTING, seconds, rounds, math.inf)
        pace = first.flood[0]["stored"] / first.flood[0]["seconds"]
        sides = {WITH: Side(), WITHOUT: Side()}
        for turn in range(rounds):
            for name in (WITH, WITHOUT) if turn % 2 else (WITHOUT, WITH):
                _set(switch, name == WITH)
                await take_turn(clients, sides[name], steady, flooded, kubeconfig, FITTING, seconds, turn, pace)
    for name, side in sides.items():
        print(f"tenants: {name}: {told(side)}", file=sys.stderr, flush=True)
    return [_compared(what, share, sides, bar) for what, share, bar in (("p50", 0.5, None), ("p99", 0.99, BAR))]


def _set(switch: Path, is_on: bool) -> None:
    if is_on:
        switch.touch()
    else:
        switch.unlink(missing_ok=True)


def _compared(what: str, share: float, sides: dict[str, Side], bar: float | None) -> Comparison:
    pairs = zip(sides[WITH].rounds, sides[WITHOUT].rounds, strict=True)
    ratios = [slowed.percentile(share) / free.percentile(share) for slowed, free in pairs]
    return Comparison(
        what=f"beside a tenant who floods a slow validator: the other tenant's {what}",
        yardstick="the same flood without validators",
        ours=sides[WITH].percentile(share),
        theirs=sides[WITHOUT].percentile(share),
        ratio=statistics.median(ratios),
        bar=bar,
        unit="ms",
    )
