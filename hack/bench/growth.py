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
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
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
SHAPE = Shape(members=0, karmada=False, flags={"federation-controller-manager": ["--enable-garbage-collector=false"]})
MOST_RESIDENT = 400e6
# A line through noise that is flat within a quarter is flat: caches of the processor are smaller than the view.
FLAT = 1.25


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


@dataclass(slots=True)
class _Starts:
    """Cold starts at one size, of both sides, round by round."""

    ours: list[dict[str, float]] = field(default_factory=list)
    bare: list[dict[str, float]] = field(default_factory=list)

    def median(self, side: str, key: str) -> float:
        return statistics.median(one[key] for one in (self.ours if side == "ours" else self.bare))

    def ratio(self, key: str) -> float:
        return statistics.median(mine[key] / theirs[key] for mine, theirs in zip(self.ours, self.bare, strict=True))


def run(effort: Effort) -> Findings:
    """All rows, and the picture."""
    is_thorough = effort.rounds > 10
    scale = _WHOLE if is_thorough else _GLIMPSE
    starts = _cold_starts(scale)
    costs = {
        (role, namespaces): steady.in_a_process(role, namespaces, scale.rounds, scale.calls, scale.sizes)
        for role in ("webhook", "controllers")
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
    return found


def _at(kubeconfig: str, objects: int, rounds: int) -> _Starts:
    found = _Starts()
    coldstart.start("bare", kubeconfig)  # the API server has a cache to fill, whoever comes first
    for number in range(rounds):
        for side, starts in (("ours", found.ours), ("bare", found.bare))[:: 1 if number % 2 else -1]:
            starts.append(coldstart.start(side, kubeconfig))
    counts = {one["objects"] for one in (*found.ours, *found.bare)}
    if counts != {objects}:
        raise AssertionError(f"{objects} objects are stored, and {sorted(counts)} were listed")
    return found


Costs = dict[tuple[str, int], steady.Figures]


def _rows(scale: _Scale, starts: dict[int, _Starts], costs: Costs, working: steady.Figures) -> list[Comparison]:
    few, many = scale.sizes[0], scale.sizes[-1]
    last = starts[many]

    def start(what: str, key: str, unit: str, bar: float | None) -> Comparison:
        ours, bare = (last.median(side, key) * 1e3 for side in ("ours", "bare"))
        return Comparison(what, "bare paged list", ours, bare, last.ratio(key), bar, unit)

    def memory(what: str, key: str, bar: float | None) -> Comparison:
        mine = last.median("ours", key)
        ratio = mine / MOST_RESIDENT
        return Comparison(what, "what it may take", mine / 1e6, MOST_RESIDENT / 1e6, ratio, bar, "MB")

    def flat(role: str, what: str, namespaces: int) -> Comparison:
        found = costs[role, namespaces][what]
        ratio = statistics.median(mine / theirs for mine, theirs in zip(found[many], found[few], strict=True))
        where = "one namespace" if namespaces == 1 else f"{namespaces:,} namespaces"
        late, early = (statistics.median(found[size]) / 1e3 for size in (many, few))
        return Comparison(f"one {what}, {role}, {where}", f"with {few:,} bindings", late, early, ratio, FLAT, "us")

    decoding, recomputing = (working[what][many] for what in ("decode", "recompute"))
    again = statistics.median(mine / theirs for mine, theirs in zip(recomputing, decoding, strict=True))
    return [
        start(f"cold start, {many:,} bindings, {scale.quotas:,} quotas", "seconds", "ms", 1.5),
        start("the same in CPU time of this side alone", "cpu", "ms", None),
        memory("resident memory after it", "resident", 1.0),
        memory("peak memory on the way", "peak", None),
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
            "coldStartSeconds": starts[size].median("ours", "seconds"),
            "bareListSeconds": starts[size].median("bare", "seconds"),
            "ratio": starts[size].ratio("seconds"),
            "residentMB": starts[size].median("ours", "resident") / 1e6,
            "peakMB": starts[size].median("ours", "peak") / 1e6,
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
                    Line("list, decode, index", started("ours", "seconds", 1)),
                    Line("bare paged list", started("bare", "seconds", 1)),
                ],
                is_logarithmic=True,
            ),
            Panel("Resident memory", "MB", [Line("a process that knows it all", started("ours", "resident", 1e-6))]),
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
