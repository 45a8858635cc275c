"""How a run of the suite ends: everything passed, something failed, a worker crashed, somebody pressed Ctrl-C."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localfed import marker
from localfed.guard import Guard
from suite.lanes import Lane, Stage
from suite.runner import Runner

pytestmark = pytest.mark.own

HACK = Path(__file__).resolve().parents[2] / "hack"
RUN = """
import sys
from pathlib import Path
from suite.__main__ import ending, finish
from suite.lanes import Lane
from suite.runner import Runner
from localfed.guard import Guard
from localfed.interruption import interruptible

def main():
    here = Path.cwd()
    lanes = [Lane("one", ("test_one.py",), workers=1), Lane("two", ("test_two.py",), after="one")]
    with interruptible(), Guard() as guard:
        print(guard.run, flush=True)
        report = Runner(lanes, guard=guard, root=here, folder=here, seed=1).run()
    return finish(report, here)

sys.exit(ending(main))
"""
PASSES = "def test_passes():\n    pass\n"


class Project:
    """A tiny project with two lanes of tests, and one run of them."""

    def __init__(self, folder: Path, one: str, two: str = PASSES) -> None:
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_one.py").write_text(one)
        (folder / "test_two.py").write_text(two)
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUN],
            cwd=folder,
            env={"PYTHONPATH": str(HACK), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout
        self._run = self._process.stdout.readline().strip()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """How it ended, and what it printed; nothing that it started is left."""
        printed, _ = self._process.communicate(timeout=120)
        assert marker.find(marker.RUN, self._run) == []
        return self._process.returncode, printed


def test_everything_passes(tmp_path: Path) -> None:
    code, printed = Project(tmp_path, PASSES).end()
    assert code == 0, printed
    assert printed.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"


def test_a_failure_is_shown_whole_and_named_in_the_end(tmp_path: Path) -> None:
    one = "def test_fails():\n    print('on the way')\n    assert 1 == 2, 'the reason'\n" + PASSES
    code, printed = Project(tmp_path, one).end()
    assert code == 1
    assert "the reason" in printed
    assert "on the way" in printed
    assert "failed: test_one.py::test_fails" in printed.splitlines()
    assert printed.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"


def test_a_fixture_that_fails_after_its_test_fails_the_test(tmp_path: Path) -> None:
    one = "import pytest\n@pytest.fixture\ndef it():\n    yield\n    assert 0\ndef test_it(it):\n    pass\n"
    code, printed = Project(tmp_path, one).end()
    assert code == 1
    assert printed.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_worker_that_crashes_is_one_clear_line(tmp_path: Path) -> None:
    one = "import os\ndef test_crashes():\n    os._exit(3)\n" + PASSES
    code, printed = Project(tmp_path, one).end()
    assert code == 1
    assert [line for line in printed.splitlines() if line.startswith("a worker of lane one crashed")]
    assert "failed: test_one.py::test_crashes" in printed.splitlines()


def test_a_module_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    code, printed = Project(tmp_path, PASSES, "import nowhere\n").end()
    assert code == 1
    assert "test_two.py cannot be collected" in printed.splitlines()
    assert "No module named 'nowhere'" in printed


@pytest.mark.parametrize("one", ["", "def test_it(:\n"])
def test_a_lane_that_runs_nothing_is_no_success_by_itself(tmp_path: Path, one: str) -> None:
    code, _ = Project(tmp_path, one, "").end()
    assert code == 1


def test_an_interruption_ends_everything_with_one_line(tmp_path: Path) -> None:
    began = tmp_path / "began"
    project = Project(tmp_path, f"import time\ndef test_long():\n    open({str(began)!r}, 'w')\n    time.sleep(600)\n")
    deadline = time.monotonic() + 60
    while not began.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    project.interrupt()
    code, printed = project.end()
    assert code == 130
    assert printed.splitlines()[-1] == "suite: interrupted; what was started has been stopped"


def test_a_lane_begins_when_what_it_needs_is_there(tmp_path: Path) -> None:
    lanes = [Lane(stage.name, (), command=("true", stage.name), needs=stage) for stage in Stage]
    with Guard() as guard:
        runner = Runner(lanes, guard=guard, root=tmp_path, folder=tmp_path, seed=1)
        runner.start_ready()
        assert list(runner.report.lanes) == ["CHECKOUT"]
        runner.use_programs()
        assert list(runner.report.lanes) == ["CHECKOUT", "PROGRAMS"]
        runner.use_federation(tmp_path)
        assert runner.run().is_good
    assert list(runner.report.lanes) == ["CHECKOUT", "PROGRAMS", "FEDERATION"]
