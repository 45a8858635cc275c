"""The nightly run: tests that take long, then fresh seeds of every simulation on all cores until the time is used.

`make soak MINUTES=60` runs, in this order, the tests that are marked `soak` (they wait for the real deadlines)
and those marked `prompt` (held to what is promised of a quiet machine), every mutation until a fresh seed catches it,
and seeds of every simulation in turn for as long as there is time. Where a test fails it ends there; where a seed
violates an invariant it goes on, and lists each with the command that repeats it.
"""

import argparse
import itertools
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from localfed.console import Progress, say  # noqa: E402
from tests.promises import PROMPT  # noqa: E402
from tests.simulation.catalogue import SIMULATIONS  # noqa: E402
from tests.simulation.simulation import Mutation, Outcome, Simulation, describe  # noqa: E402

SEEDS_IN_TURN = {"protocol": 10, "audit": 1, "tenants": 3, "deliberation": 5, "rotation": 1}
"""How many seeds of each simulation before the next has its turn: some three seconds of CPU for the protocol, and one
or two for each of the others."""
MOST_SEEDS_FOR_A_MUTATION = 2000
# pytest's exit code where nothing is marked so.
NO_TESTS = 5


@dataclass
class Soak:
    """Seeds from one number on, run by an executor until a deadline."""

    executor: Executor
    jobs: int  # how many seeds to have under way at once
    first: int
    deadline: float  # of the clock
    clock: Callable[[], float] = time.monotonic
    show: Callable[[str], None] = lambda _line: None
    simulations: Mapping[str, Simulation] = field(default_factory=lambda: SIMULATIONS)
    counts: Counter[str] = field(default_factory=Counter)  # seeds, by simulation
    caught: int = 0  # mutations
    failures: list[str] = field(default_factory=list)

    def run_mutations(self) -> None:
        """Run fresh seeds of each mutation until one catches it; a mutation that none catches is a failure."""
        for simulation in self.simulations.values():
            for mutation in simulation.mutations:
                tries = range(self.first, self.first + MOST_SEEDS_FOR_A_MUTATION)
                works = ((simulation, mutation, seed) for seed in tries)
                if any(outcome.violation for _, _, outcome in self._outcomes(works)):
                    self.caught += 1
                elif self.clock() < self.deadline:
                    name = f"{simulation.name}: {mutation.__name__}"
                    self._fail(f"{name} is not caught by {len(tries)} seeds from {self.first} on")
                self.show(self.summary)

    def run_seeds(self) -> None:
        """Run seeds of every simulation in turn until the deadline."""
        for simulation, seed, outcome in self._outcomes(self._turns()):
            self.counts[simulation.name] += 1
            if outcome.violation:
                self._fail(describe(simulation, seed, outcome))
            self.show(self.summary)

    @property
    def summary(self) -> str:
        """How far it is."""
        seeds = ", ".join(f"{name} {self.counts[name]:,}" for name in self.simulations)
        found = f"{len(self.failures)} failures" if self.failures else "no failure"
        return f"{self.caught} mutations caught; seeds: {seeds}; {found}"

    def _fail(self, failure: str) -> None:
        self.failures.append(failure)
        say(f"\n{failure}")

    def _turns(self) -> Iterator[tuple[Simulation, None, int]]:
        seeds = {name: itertools.count(self.first) for name in self.simulations}
        while True:
            for name, simulation in self.simulations.items():
                for _ in range(SEEDS_IN_TURN.get(name, 1)):
                    yield simulation, None, next(seeds[name])

    def _outcomes(
        self, works: Iterator[tuple[Simulation, Mutation | None, int]]
    ) -> Iterator[tuple[Simulation, int, Outcome]]:
        """The outcomes of these, as they arrive. Nothing new is started after the deadline, or once nobody asks."""
        under_way: dict[Future[Outcome], tuple[Simulation, int]] = {}
        try:
            while True:
                while len(under_way) < self.jobs and self.clock() < self.deadline:
                    work = next(works, None)
                    if work is None:
                        break
                    under_way[self.executor.submit(run, *work)] = work[0], work[2]
                if not under_way:
                    return
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    simulation, seed = under_way.pop(future)
                    yield simulation, seed, future.result()
        finally:
            for future in under_way:
                future.cancel()


def run(simulation: Simulation, mutation: Mutation | None, seed: int) -> Outcome:
    """One seed, in whichever process."""
    return simulation.run(seed) if mutation is None else simulation.run_mutated(mutation, seed)


def _run_marked_tests() -> int:
    command = [sys.executable, "-m", "pytest", "-m", "soak or prompt", "-p", "no:randomly"]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, PROMPT: "1"}, check=False).returncode
    return 0 if code == NO_TESTS else code


def _ignore_interrupts() -> None:
    """Ctrl-C is for the process that people started; that one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> int:
    """The exit code: zero if nothing failed."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; default: one for each core")
    parser.add_argument("--first", type=int, default=secrets.randbits(40), help="the first seed; default: a random one")
    parser.add_argument("--seeds-only", action="store_true", help="leave marked tests out")
    options = parser.parse_args()
    deadline = time.monotonic() + options.minutes * 60
    if not options.seeds_only and (code := _run_marked_tests()):
        return code
    progress = Progress(f"soak: mutations, and then seeds from {options.first} on, for {options.minutes:g} minutes")
    with ProcessPoolExecutor(options.jobs, initializer=_ignore_interrupts) as executor:
        soak = Soak(executor, options.jobs, options.first, deadline, show=progress.update)
        try:
            soak.run_mutations()
            soak.run_seeds()
        except KeyboardInterrupt:
            executor.shutdown(wait=True, cancel_futures=True)
            progress.done(f"interrupted; {soak.summary}")
            return 130
    progress.done(soak.summary)
    for failure in soak.failures:
        print(f"\n{failure}")
    return int(bool(soak.failures))


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        say("soak: interrupted")
        code = 130
    sys.exit(code)
