"""`python -m suite`: the whole test suite; exit code 0 where everything ran and passed."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from localfed import programs
from localfed.console import say
from localfed.errors import FederationError, InterruptedByUserError
from localfed.federation import Federation
from localfed.fixtures import SHAPE
from localfed.guard import Guard
from localfed.interruption import interruptible
from suite.lanes import LANES, Lane, Stage
from suite.report import Report
from suite.runner import Runner

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".suite"


def main() -> int:
    """Run the lanes that are named, or all of them, on one federation."""
    parser = argparse.ArgumentParser("suite", description="The whole test suite, in lanes side by side.")
    parser.add_argument("lanes", nargs="*", metavar="LANE", help=f"of {', '.join(one.name for one in LANES)}")
    parser.add_argument("--seed", type=int, help="of the random order; default: the commit's own")
    options = parser.parse_args()
    lanes = [lane for lane in LANES if not options.lanes or lane.name in options.lanes]
    if unknown := set(options.lanes) - {lane.name for lane in lanes}:
        parser.error(f"there is no lane {', '.join(sorted(unknown))}")
    seed = _commit() if options.seed is None else options.seed
    say(f"random order with seed {seed}; logs and durations in {FOLDER.name}/")
    return run(lanes, seed)


def run(lanes: list[Lane], seed: int) -> int:
    """Run these lanes; the exit code."""
    FOLDER.mkdir(exist_ok=True)
    federation = Federation(FOLDER / "federation")
    federation.down()  # what a run that was killed has left
    with interruptible(), Guard() as guard:
        runner = Runner(lanes, guard=guard, root=ROOT, folder=FOLDER, seed=seed)
        runner.start_ready()
        try:
            furthest = max(lane.needs for lane in lanes)
            if furthest >= Stage.PROGRAMS:
                programs.provide_for_tests(guard)
                runner.use_programs()
            if furthest >= Stage.FEDERATION:
                federation.up(SHAPE, guard)
                runner.use_federation(federation.directory.path)
            report = runner.run()
        finally:
            _keep_logs(federation.directory.logs)
            federation.down()
    return finish(report, FOLDER)


def _commit() -> int:
    """A seed of the commit's own: each has another order, and whoever tests it again has the same."""
    git = shutil.which("git")
    if not git:
        return 0
    said = subprocess.run([git, "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(said.stdout[:8] or "0", 16)


def finish(report: Report, folder: Path) -> int:
    """Tell what became of the run; the exit code."""
    report.save(folder / "report.json")
    print("\n".join(report.summary()))
    return 0 if report.is_good else 1


def ending(run: Callable[[], int]) -> int:
    """The exit code of a run; an error of ours, or an interruption, is one line."""
    try:
        return run()
    except InterruptedByUserError as error:
        say(f"suite: {error}")
        return 130
    except FederationError as error:
        say(f"suite: {error}")
        return 1


def _keep_logs(logs: Path) -> None:
    if logs.is_dir():
        shutil.rmtree(FOLDER / "logs", ignore_errors=True)
        logs.rename(FOLDER / "logs")


if __name__ == "__main__":
    sys.exit(ending(main))
