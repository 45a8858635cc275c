"""The runner under every measurement: two callables in alternation, and a table of what came out.

What is measured, and which bar is fair, is the business of the subject's own module.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to look: more calls steady a round, more rounds steady the median."""

    rounds: int
    calls: int


THOROUGH = Effort(rounds=41, calls=6000)
QUICK = Effort(rounds=3, calls=200)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row: ours against a yardstick, per call. Without a bar it informs and cannot fail."""

    what: str
    yardstick: str
    ours: float
    theirs: float
    ratio: float
    bar: float | None
    unit: str = "ns"
    at_least: bool = False  # the bar is the least that the ratio may be; else the most

    @property
    def is_missed(self) -> bool:
        """Whether there is a bar, and the ratio is on its wrong side."""
        if self.bar is None:
            return False
        return self.ratio < self.bar if self.at_least else self.ratio > self.bar

    @property
    def sign(self) -> str:
        """How the ratio must stand to the bar."""
        return "≥" if self.at_least else "≤"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a set has found: rows to judge, and the figures behind them for whoever wants to look closer."""

    rows: Sequence[Comparison]
    figures: Sequence[Mapping[str, object]] = ()

    @property
    def is_missed(self) -> bool:
        """Whether any bar was missed."""
        return any(row.is_missed for row in self.rows)


def compare(
    what: str,
    ours: Callable[[T], object],
    yardstick_name: str,
    yardstick: Callable[[T], object],
    arguments: Callable[[int, int], Sequence[T]],
    *,
    bar: float | None,
    effort: Effort,
) -> Comparison:
    """Measure both on equal arguments, round by round, and take the median of the rounds' ratios.

    `arguments` is asked for a round's arguments anew for each side, by the round's number and their count, so that
    neither finds what the other left behind in them, a string's hash for one.
    """
    ours_times: list[float] = []
    yardstick_times: list[float] = []
    for round_number in range(effort.rounds):
        sides = [(ours, ours_times), (yardstick, yardstick_times)]
        # Whatever comes first pays for a cold cache, or profits from a cool processor: they take turns at it.
        for call, times in sides if round_number % 2 else reversed(sides):
            times.append(_per_call(call, arguments(round_number, effort.calls)))
    ratios = [mine / theirs for mine, theirs in zip(ours_times, yardstick_times, strict=True)]
    return Comparison(
        what=what,
        yardstick=yardstick_name,
        ours=statistics.median(ours_times),
        theirs=statistics.median(yardstick_times),
        ratio=statistics.median(ratios),
        bar=bar,
    )


def _per_call(call: Callable[[T], object], arguments: Sequence[T]) -> float:
    # Processor time, because other processes' turns are not ours; and no collector, as timeit does it, because its
    # passes fall on whoever happens to be running.
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        start = time.process_time_ns()
        for argument in arguments:
            call(argument)
        return (time.process_time_ns() - start) / len(arguments)
    finally:
        if was_collecting:
            gc.enable()


def table(comparisons: Sequence[Comparison]) -> str:
    """The rows as text, aligned for a terminal."""
    rows = [("what", "ours", "yardstick", "", "ratio", "bar", "")]
    for row in comparisons:
        bar = "-" if row.bar is None else f"{row.sign} {row.bar:.2f}"
        verdict = "" if row.bar is None else "MISSED" if row.is_missed else "met"
        ours, theirs = f"{_short(row.ours)} {row.unit}", f"{_short(row.theirs)} {row.unit}"
        rows.append((row.what, ours, row.yardstick, theirs, f"{row.ratio:.2f}", bar, verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, 2, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"
