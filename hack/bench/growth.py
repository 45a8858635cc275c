"""How everything grows with the federation: up to 100,000 bindings under 1,000 quotas.

- A cold start (list, decode, index) beside the bare paged list of the same objects: same client, same pages, read and
  dropped. On a real etcd and API server; each start is a process of its own, the two in turns, time by the clock.
- The memory of a process that knows it all.
- One change and one admission, beside 1,000 bindings and beside 100,000: spread over all namespaces, and all in one.
- Working out every account anew, beside decoding what it is worked out from.

The curve between goes into `docs/growth.svg`.
"""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import coldstart, curve, etcd, steady, stored
from bench.curve import Line, Panel
from bench.measure import Comparison, Effort, Findings
from bench.results import ROOT
from federation_quota.kube.quotas import KARMADA_QUOTAS, RESOURCE_BINDINGS
from localfed import karmada, programs
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard

PICTURE = ROOT / "docs" / "growth.svg"
# Without the collector: it would clear away bindings whose workload is not there.
# And with an API server that takes up on all processors what etcd was given.
SHAPE = Shape(
    members=0,
    karmada=False,
    flags={
        "federation-controller-manager": ["--enable-garbage-collector=false"],
        "federation-apiserver": ["--feature-gates=ConcurrentWatchObjectDecode=true"],
    },
)
MOST_RESIDENT = 400e6
# A line through noise that is flat within a quarter is flat: caches of the processor are smaller than the view.
FLAT = 1.25
_OURS = ("webhook", "controllers")


@dataclass(frozen=True, slots=True)
class _Scale:
    """How far to go, and how often."""

    sizes: Sequence[int]
    quotas: int
    starts: int
    rounds: int
    calls: int


_WHOLE = _Scale((1_000, 3_000, 10_000, 30_000, 100_000), quotas=1_000, starts=5, rounds=15, calls=200)
_GLIMPSE = _Scale((200, 400), quotas=20, starts=1, rounds=2, calls=10)


class _Starts(dict[str, list[dict[str, float]]]):
    """Cold starts at one size, by side, round by round."""

    def median(self, side: str, key: str) -> float:
        return statistics.median(one[key] for one in self[side])

    def ratio(self, side: str, key: str) -> float:
        rounds = zip(self[side], self["bare"], strict=True)
        return statistics.median(mine[key] / theirs[key] for mine, theirs in rounds)


def run(effort: Effort) -> Findings:
    """All rows, and the picture."""
    is_thorough = effort.rounds > 10
    scale = _WHOLE if is_thorough else _GLIMPSE
    starts = _cold_starts(scale)
    costs = {
        (role, namespaces): steady.in_a_process(role, namespaces, scale.rounds, scale.calls, scale.sizes)
        for role in _OURS
        for namespaces in (scale.quotas, 1)
    }
    working = steady.in_a_process("decoding", scale.quotas, min(scale.rounds, 3), 0, scale.sizes[-1:])
    if is_thorough:
        PICTURE.write_text(_picture(scale, starts, costs))
    return Findings(_rows(scale, starts, costs, working), _figures(scale, starts, costs))


def _cold_starts(scale: _Scale) -> dict[int, _Starts]:
    found: dict[int, _Starts] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-growth-")))
        guard = stack.enter_context(Guard())
        federation = Federation(folder / "fed")
        stack.callback(federation.down)
        federation.up(SHAPE, guard)
        karmada.install_api(federation.kubectl, programs.provide(programs.KARMADA, guard))
        federation.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        federation.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        asyncio.run(etcd.put(federation, KARMADA_QUOTAS, (stored.quota(number) for number in range(scale.quotas))))
        for before, size in zip((0, *scale.sizes), scale.sizes, strict=False):
            bindings = (stored.binding(index, scale.quotas) for index in range(before, size))
            asyncio.run(etcd.put(federation, RESOURCE_BINDINGS, bindings))
            found[size] = _at(str(federation.directory.kubeconfig), size + scale.quotas, scale.starts)
            seconds = ", ".join(f"{side} {found[size].median(side, 'seconds'):.2f} s" for side in coldstart.SIDES)
            print(f"growth: {size:,} bindings: {seconds}", file=sys.stderr, flush=True)
    return found


def _at(kubeconfig: str, objects: int, rounds: int) -> _Starts:
    asyncio.run(coldstart.caught_up(kubeconfig))
    coldstart.start("bare", kubeconfig)  # the API server has caches to fill, whoever comes first
    found = _Starts({side: [] for side in coldstart.SIDES})
    for number in range(rounds):
        for side in coldstart.SIDES[:: 1 if number % 2 else -1]:
            found[side].append(coldstart.start(side, kubeconfig))
    counts = {one["objects"] for starts in found.values() for one in starts}
    if counts != {objects}:
        raise AssertionError(f"{objects} objects are stored, and {sorted(counts)} were listed")
    return found


Costs = dict[tuple[str, int], steady.Figures]


def _rows(scale: _Scale, starts: dict[int, _Starts], costs: Costs, working: steady.Figures) -> list[Comparison]:
    few, many = scale.sizes[0], scale.sizes[-1]
    last = starts[many]

    def start(side: str, key: str, what: str, bar: float | None) -> Comparison:
        ours, bare = (last.median(one, key) * 1e3 for one in (side, "bare"))
        return Comparison(f"{what}, {side}", "bare paged list", ours, bare, last.ratio(side, key), bar, "ms")

    def memory(side: str, key: str, what: str, bar: float | None) -> Comparison:
        ours = last.median(side, key)
        ratio = ours / MOST_RESIDENT
        return Comparison(f"{what}, {side}", "the most it may", ours / 1e6, MOST_RESIDENT / 1e6, ratio, bar, "MB")

    def flat(role: str, what: str, namespaces: int) -> Comparison:
        found = costs[role, namespaces][what]
        ratio = statistics.median(mine / theirs for mine, theirs in zip(found[many], found[few], strict=True))
        where = "one namespace" if namespaces == 1 else f"{namespaces:,} namespaces"
        late, early = (statistics.median(found[size]) / 1e3 for size in (many, few))
        return Comparison(f"one {what}, {role}, {where}", f"with {few:,} bindings", late, early, ratio, FLAT, "us")

    decoding, recomputing = (working[what][many] for what in ("decode", "recompute"))
    again = statistics.median(mine / theirs for mine, theirs in zip(recomputing, decoding, strict=True))
    return [
        *(start(side, "seconds", "cold start", 1.5) for side in _OURS),
        *(start(side, "cpu", "its CPU time on this side", None) for side in _OURS),
        *(memory(side, "resident", "resident memory after it", 1.0) for side in _OURS),
        *(memory(side, "peak", "peak memory on the way", None) for side in _OURS),
        *(
            flat(role, what, namespaces)
            for role, what in (("webhook", "admission"), ("webhook", "change"), ("controllers", "change"))
            for namespaces in (scale.quotas, 1)
        ),
        Comparison(
            "every account anew",
            "decoding the bindings",
            statistics.median(recomputing) / 1e6,
            statistics.median(decoding) / 1e6,
            again,
            1.0,
            "ms",
        ),
    ]


def _figures(scale: _Scale, starts: dict[int, _Starts], costs: Costs) -> list[dict[str, object]]:
    return [
        {
            "bindings": size,
            "quotas": scale.quotas,
            "coldStarts": {
                side: {
                    "seconds": starts[size].median(side, "seconds"),
                    "ratio": starts[size].ratio(side, "seconds"),
                    "cpuSeconds": starts[size].median(side, "cpu"),
                    "residentMB": starts[size].median(side, "resident") / 1e6,
                    "peakMB": starts[size].median(side, "peak") / 1e6,
                }
                for side in coldstart.SIDES
            },
            "microseconds": {
                f"{what}, {role}, {'one namespace' if namespaces == 1 else 'spread'}": statistics.median(times[size])
                / 1e3
                for (role, namespaces), found in costs.items()
                for what, times in found.items()
            },
        }
        for size in scale.sizes
    ]


def _picture(scale: _Scale, starts: dict[int, _Starts], costs: Costs) -> str:
    def started(side: str, key: str, factor: float) -> list[tuple[float, float]]:
        return [(size, starts[size].median(side, key) * factor) for size in scale.sizes]

    def cost(role: str, what: str, namespaces: int) -> list[tuple[float, float]]:
        found = costs[role, namespaces][what]
        return [(size, statistics.median(found[size]) / 1e3) for size in scale.sizes]

    return curve.draw(
        [
            Panel(
                "Cold start",
                "seconds",
                [
                    Line("webhook", started("webhook", "seconds", 1)),
                    Line("controllers", started("controllers", "seconds", 1)),
                    Line("bare paged list", started("bare", "seconds", 1)),
                ],
                is_logarithmic=True,
            ),
            Panel(
                "Resident memory",
                "MB",
                [Line(side, started(side, "resident", 1e-6)) for side in _OURS],
            ),
            Panel(
                "One event",
                "µs of CPU",
                [
                    Line("admission, webhook", cost("webhook", "admission", scale.quotas)),
                    Line("change, controllers", cost("controllers", "change", scale.quotas)),
                    Line("change, webhook", cost("webhook", "change", scale.quotas)),
                ],
            ),
        ],
        across="bindings",
    )
