"""What became of every test, and the summary of a run."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

SLOWEST = 10


@dataclass(slots=True)
class Result:
    """One test."""

    lane: str
    seconds: dict[str, float] = field(default_factory=dict)  # by phase: setup, call, teardown
    outcome: str = "running"  # passed, failed, skipped

    @property
    def total(self) -> float:
        """All phases together."""
        return sum(self.seconds.values())


@dataclass(slots=True)
class LaneResult:
    """One lane: how it ended, and what it took."""

    expected: int = 0
    code: int | None = None  # pytest's exit code; None: it has not ended
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # its own processes', the federation's apart


@dataclass(slots=True)
class Report:
    """A whole run."""

    seed: int
    results: dict[str, Result] = field(default_factory=dict)
    lanes: dict[str, LaneResult] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # what is wrong beside tests that failed, a line each
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the whole machine, in that time
    stolen_seconds: float = 0.0  # that the cores of a virtual machine wanted to work, and its host did not let them
    cores: int = 1

    def count(self, outcome: str) -> int:
        """How many tests ended so."""
        return sum(result.outcome == outcome for result in self.results.values())

    @property
    def left(self) -> int:
        """How many tests have not begun."""
        return max(0, sum(lane.expected for lane in self.lanes.values()) - len(self.results))

    @property
    def is_good(self) -> bool:
        """Whether everything ran, and passed."""
        has_run = self.count("passed") > 0 and self.left == 0 and not self.count("running")
        return has_run and not self.count("failed") and not self.problems

    def summary(self) -> list[str]:
        """For people: what was slow, what each lane took, what failed; the numbers last."""
        lines = ["", "slowest (setup, call, teardown in seconds):"]
        slowest = sorted(self.results.items(), key=lambda item: -item[1].total)[:SLOWEST]
        for name, result in slowest:
            phases = "  ".join(f"{result.seconds.get(phase, 0):6.1f}" for phase in ("setup", "call", "teardown"))
            lines.append(f"  {phases}  {name}")
        lines += ["", "lane        tests     wall      CPU"]
        for name, lane in self.lanes.items():
            tests = sum(result.lane == name for result in self.results.values())
            lines.append(f"{name:10} {tests:6} {duration(lane.seconds):>8} {duration(lane.cpu_seconds):>8}")
        there_was = max(self.seconds * self.cores, 0.001)
        busy = f"{self.cpu_seconds / there_was:.0%} of {self.cores} cores"
        if self.stolen_seconds >= 0.01 * there_was:
            busy += f"; the machine's host kept {self.stolen_seconds / there_was:.0%} for others"
        lines.append(f"in all            {duration(self.seconds):>8} {duration(self.cpu_seconds):>8}  ({busy})")
        failed = sorted(name for name, result in self.results.items() if result.outcome == "failed")
        if failed or self.problems:
            lines += ["", *(f"failed: {name}" for name in failed), *self.problems]
        lines += ["", f"{self.count('passed')} passed, {len(failed)} failed, {self.count('skipped')} skipped"]
        return lines

    def save(self, path: Path) -> None:
        """Everything, for programs: durations of every test and phase."""
        path.write_text(json.dumps(asdict(self), indent=1))


def duration(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
