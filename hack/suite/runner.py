"""Runs lanes side by side until all are through: starts their processes, reads their events, ends what is left.

Every process belongs to the run's guard: whatever ends the run (Ctrl-C, kill -9) ends them, and what they started.
"""

import contextlib
import json
import os
import queue
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from localfed.fixtures import SHARED
from localfed.guard import Guard
from suite import events
from suite.lanes import WHOLE, Lane, Stage
from suite.report import LaneResult, Report, Result
from suite.screen import Screen

HACK = Path(__file__).resolve().parent.parent
LOOK_SECONDS = 0.5
NO_TESTS = 5  # pytest's exit code where nothing was selected
Event = dict[str, Any]


class Runner:
    """One run of some lanes."""

    def __init__(self, lanes: Sequence[Lane], *, guard: Guard, root: Path, folder: Path, seed: int) -> None:
        self._waiting = list(lanes)
        self._names = {lane.name for lane in lanes}
        self._guard = guard
        self._root = root
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._began: dict[str, float] = {}
        self._tests: dict[str, float] = {}  # that run now, and since when
        self._events: queue.Queue[tuple[str, Event]] = queue.Queue()
        self._explained: set[str] = set()  # lanes of which a failure has been shown
        self._screen = Screen()
        self._environment: Mapping[str, str] = os.environ
        self._stage = Stage.CHECKOUT
        self._start = time.monotonic()
        self._cpu_at_start, self._stolen_at_start = _machine_cpu()
        self.report = Report(seed=seed, cores=os.cpu_count() or 1)

    def start_ready(self) -> None:
        """Start every lane that has nothing to wait for."""
        ended = {name for name, lane in self.report.lanes.items() if lane.code is not None}
        for lane in list(self._waiting):
            if lane.needs <= self._stage and (lane.after in ended or lane.after not in self._names):
                self._waiting.remove(lane)
                self._launch(lane)

    def use_programs(self) -> None:
        """From now on everything that tests start is built."""
        self._stage = Stage.PROGRAMS
        self.start_ready()

    def use_federation(self, folder: Path) -> None:
        """From now on there is a federation that lanes may share."""
        self._environment = {**os.environ, SHARED: str(folder)}
        self._stage = Stage.FEDERATION
        self.start_ready()

    def run(self) -> Report:
        """Return when every lane is through."""
        while self._waiting or self._running:
            self.start_ready()
            with contextlib.suppress(queue.Empty):
                self._take(*self._events.get(timeout=LOOK_SECONDS))
            self._screen.progress(self.report, self._tests)
        self.report.seconds = time.monotonic() - self._start
        worked, stolen = _machine_cpu()
        self.report.cpu_seconds = worked - self._cpu_at_start
        self.report.stolen_seconds = stolen - self._stolen_at_start
        return self.report

    def _launch(self, lane: Lane) -> None:
        read, write = os.pipe()
        command = ["nice", "-n", str(lane.niceness), *(lane.command or self._pytest(lane))]
        environment = {
            **self._environment,
            events.PIPE: str(write),
            "PYTHONPATH": str(HACK),
        }
        if lane.after in self._names:
            environment[WHOLE] = "1"
        with (self._folder / f"{lane.name}.log").open("wb") as output:
            process = self._guard.start(
                command, environment=environment, output=output, directory=self._root, descriptors=(write,)
            )
        os.close(write)
        if lane.niceness:
            _yield_to_other_sessions(process.pid, lane.niceness)
        self._running[lane.name] = process
        self._began[lane.name] = time.monotonic()
        self.report.lanes[lane.name] = LaneResult(expected=1 if lane.command else 0)
        if lane.command:
            self._started(lane.name, {"test": shlex.join(lane.command)})
        threading.Thread(target=self._listen, args=(lane.name, read, process), daemon=True).start()

    def _pytest(self, lane: Lane) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", *lane.arguments, "-p", "suite.events"]
        command += ["-p", "no:cacheprovider", "-p", "randomly", f"--randomly-seed={self.report.seed}"]
        if lane.workers:
            command += ["-n", str(lane.workers), "--dist", lane.distribution, "--max-worker-restart", "0"]
        return command

    def _listen(self, lane: str, pipe: int, process: subprocess.Popen[bytes]) -> None:
        with os.fdopen(pipe) as lines:
            for line in lines:
                self._events.put((lane, json.loads(line)))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        self._events.put((lane, {"event": "ended", "code": process.returncode, "cpu": cpu}))

    def _take(self, lane: str, event: Event) -> None:
        handlers: dict[str, Callable[[str, Event], None]] = {
            "collected": self._collected,
            "started": self._started,
            "finished": self._finished,
            "failed": self._failed,
            "skipped": self._skipped,
            "broken": self._broken,
            "crashed": self._crashed,
            "ended": self._ended,
        }
        handlers[event["event"]](lane, event)

    def _collected(self, lane: str, event: Event) -> None:
        self.report.lanes[lane].expected = event["count"]

    def _started(self, lane: str, event: Event) -> None:
        self._tests[event["test"]] = time.monotonic()
        self.report.results[event["test"]] = Result(lane)

    def _finished(self, lane: str, event: Event) -> None:
        self._tests.pop(event["test"], None)
        result = self._result(lane, event)
        result.seconds = event["seconds"]
        if result.outcome == "running":
            result.outcome = "passed"

    def _failed(self, lane: str, event: Event) -> None:
        self._explained.add(lane)
        self._result(lane, event).outcome = "failed"
        self._screen.failure(f"{event['test']} failed in {event['phase']}", event["text"])

    def _skipped(self, lane: str, event: Event) -> None:
        self._result(lane, event).outcome = "skipped"

    def _broken(self, lane: str, event: Event) -> None:
        self._explained.add(lane)
        self.report.problems.append(f"{event['test']} cannot be collected")
        self._screen.failure(f"{event['test']} cannot be collected", event["text"])

    def _crashed(self, lane: str, event: Event) -> None:
        self._explained.add(lane)
        self.report.problems.append(f"a worker of lane {lane} crashed ({event['worker']}: {event['text']})")

    def _ended(self, lane: str, event: Event) -> None:
        del self._running[lane]
        found = self.report.lanes[lane]
        found.code, found.cpu_seconds = event["code"], event["cpu"]
        found.seconds = time.monotonic() - self._began[lane]
        for name, result in self.report.results.items():
            if result.lane == lane and name in self._tests:  # a command, or a test whose worker is gone
                result.seconds = {"call": time.monotonic() - self._tests.pop(name)}
                result.outcome = "failed" if found.code else "passed"
        if found.code not in (0, NO_TESTS) and lane not in self._explained:
            log = self._folder / f"{lane}.log"
            self._screen.failure(f"lane {lane} ended with {found.code}", log.read_text(errors="replace")[-4000:])
            self.report.problems.append(f"lane {lane} ended with {found.code}: see above")

    def _result(self, lane: str, event: Event) -> Result:
        return self.report.results.setdefault(event["test"], Result(lane))


def _yield_to_other_sessions(pid: int, niceness: int) -> None:
    """Where Linux shares the CPU among sessions first, niceness alone counts within a session only."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))


def _machine_cpu() -> tuple[float, float]:
    """The CPU seconds that the whole machine has worked, and those that its host did not give it."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system), float(getattr(times, "steal", 0.0))
