"""Which processes are ours: each carries a mark in its environment, inherited by whatever it starts.

Pid files alone would miss a process that was started a moment before its starter died, and could name a stranger
after the pid was used again. The mark does neither.
"""

import contextlib
import time
from collections.abc import Iterable

import psutil

RUN = "LOCALFED_RUN"
"""Whose guard started it."""
OUTERMOST = "LOCALFED_OUTERMOST"
"""Within whose guard all of this happens: a run of the suite ends what a demo that it tested meant to leave."""
DIRECTORY = "LOCALFED_DIRECTORY"


def find(mark: str, value: str) -> list[psutil.Process]:
    """Every live process of this user that carries the mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(mark) == value and is_running(process):
                found.append(process)
    return found


def is_running(process: psutil.Process) -> bool:
    """Whether it still runs: a zombie has ended, whoever has yet to collect it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end(processes: Iterable[psutil.Process]) -> None:
    """Kill them, and return when they are gone.

    Not asked first: what these processes keep is thrown away with them, and an API server takes its time to leave.
    """
    doomed = list(processes)
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    wait(doomed, within_seconds=10)


def wait(processes: Iterable[psutil.Process], within_seconds: float) -> bool:
    """Return when they have ended, collected or not, with True; or with False when the time is up.

    psutil's own waiting takes a zombie for alive where its parent is another process, as a suite's is for its tests.
    """
    deadline = time.monotonic() + within_seconds
    left = list(processes)
    while left := [process for process in left if is_running(process)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end_all(mark: str, value: str) -> None:
    """Kill everything that carries the mark, until a second look finds nothing.

    The second look is for a process that was being started just when its starter died.
    """
    quiet_looks = 0
    deadline = time.monotonic() + 30
    while quiet_looks < 2 and time.monotonic() < deadline:
        found = find(mark, value)
        end(found)
        quiet_looks = 0 if found else quiet_looks + 1
        if quiet_looks < 2:
            time.sleep(0.05)
