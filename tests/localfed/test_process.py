"""Whether a process that was started still runs is known by its pid and its start, whatever the clock says."""

import os

import psutil
import pytest
from psutil import _pslinux

from localfed.directory import Started
from localfed.process import is_running, since_boot


def test_a_process_is_the_same_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    myself = psutil.Process()
    started = Started(os.getpid(), since_boot(myself))
    known = myself.create_time()
    boot_time = _pslinux.boot_time
    monkeypatch.setattr(_pslinux, "boot_time", lambda: boot_time() + 3600)
    assert psutil.Process().create_time() - known > 3500, "as an hour ahead looks"
    assert is_running(started)


def test_another_of_the_same_pid_is_another() -> None:
    assert not is_running(Started(os.getpid(), since_boot(psutil.Process()) - 60))


def test_one_that_has_ended_does_not_run() -> None:
    child = psutil.Popen(["true"])
    started = Started(child.pid, since_boot(child))
    child.wait()
    assert not is_running(started)
