"""Nothing is left behind, whatever happens to the run that started it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from localfed import marker
from localfed.guard import Guard

HOLDER = """
import os, sys, time
from pathlib import Path
from localfed.guard import Guard
with Guard() as guard:
    child = guard.start(["sh", "-c", "sleep 600 & sleep 600"], environment=os.environ, output=-3, directory=Path("/"))
    print(guard.run, flush=True)
    time.sleep(600)
"""


def start_sleeper(guard: Guard) -> subprocess.Popen[bytes]:
    return guard.start(["sleep", "600"], environment=os.environ, output=subprocess.DEVNULL, directory=Path("/"))


def test_leaving_the_block_ends_what_was_started() -> None:
    with Guard() as guard:
        child = start_sleeper(guard)
        assert child.poll() is None
    assert not marker.find(marker.RUN, guard.run)


def test_what_was_released_lives_on() -> None:
    with Guard() as guard:
        child = start_sleeper(guard)
        guard.release()
    assert child.poll() is None
    child.kill()
    child.wait()


def test_what_was_released_ends_with_the_guard_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(marker.OUTERMOST, raising=False)  # there is no guard around this one
    released = "import sys; sys.path.insert(0, sys.argv[1])\n" + HOLDER.replace("time.sleep(600)", "guard.release()")
    with Guard() as outermost:
        hack = str(Path(marker.__file__).parent.parent)
        inner = outermost.start(
            [sys.executable, "-c", released, hack], environment=os.environ, output=subprocess.PIPE, directory=Path("/")
        )
        assert inner.stdout
        run = inner.stdout.readline().decode().strip()
        inner.wait()
        assert marker.find(marker.RUN, run)
    assert not marker.find(marker.RUN, run)


def test_a_released_guard_starts_nothing_more() -> None:
    with Guard() as guard:
        guard.release()
        with pytest.raises(RuntimeError, match="only while it is held"):
            start_sleeper(guard)


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_a_holder_that_is_killed_takes_its_processes_and_their_children_with_it(way: signal.Signals) -> None:
    hack = Path(marker.__file__).parent.parent
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(hack)}
    )
    assert holder.stdout
    run = holder.stdout.readline().strip()
    wait_until(lambda: len(marker.find(marker.RUN, run)) == 3)  # the shell and its two children
    holder.send_signal(way)
    holder.wait()
    wait_until(lambda: not marker.find(marker.RUN, run))


def test_only_marked_processes_are_ever_found() -> None:
    stranger = subprocess.Popen(["sleep", "600"])
    with Guard() as guard:
        ours = start_sleeper(guard)
        assert [process.pid for process in marker.find(marker.RUN, guard.run)] == [ours.pid]
    assert marker.is_running(psutil.Process(stranger.pid))
    stranger.kill()
    stranger.wait()


def wait_until(condition: Callable[[], object], within_seconds: float = 15) -> None:
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)
