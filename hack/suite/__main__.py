"""`python -m suite`: the whole test suite; exit code 0 where everything ran and passed."""

import random
import shutil
import sys
from pathlib import Path

from localfed.console import say
from localfed.errors import FederationError, InterruptedByUserError
from localfed.federation import Federation
from localfed.fixtures import SHAPE
from localfed.guard import Guard
from localfed.interruption import interruptible
from suite.lanes import LANES
from suite.runner import Runner

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".suite"


def main() -> int:
    """Run all lanes on one federation."""
    seed = random.SystemRandom().randrange(2**32)
    say(f"random order with seed {seed}; logs and durations in {FOLDER.name}/")
    FOLDER.mkdir(exist_ok=True)
    federation = Federation(FOLDER / "federation")
    federation.down()  # what a run that was killed has left
    with interruptible(), Guard() as guard:
        runner = Runner(LANES, guard=guard, root=ROOT, folder=FOLDER, seed=seed)
        runner.start_ready()
        try:
            federation.up(SHAPE, guard)
            runner.use_federation(federation.directory.path)
            report = runner.run()
        finally:
            logs = federation.directory.logs
            if logs.is_dir():
                shutil.rmtree(FOLDER / "logs", ignore_errors=True)
                logs.rename(FOLDER / "logs")
            federation.down()
    report.save(FOLDER / "report.json")
    print("\n".join(report.summary()))
    return 0 if report.is_good else 1


if __name__ == "__main__":
    try:
        code = main()
    except InterruptedByUserError as error:
        say(f"suite: {error}")
        code = 130
    except FederationError as error:
        say(f"suite: {error}")
        code = 1
    sys.exit(code)
