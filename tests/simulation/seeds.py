"""Which seeds the tests run: a fixed set that was chosen, and fresh ones that follow from the commit.

The fixed set is in `seeds.toml`, with the reason for each seed. `python -m tests.simulation.choose` writes it anew.
"""

import functools
import os
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.simulation import CHOOSE, Outcome, Simulation

FILE: Final = Path(__file__).with_name("seeds.toml")
ROOT: Final = FILE.parents[2]
FRESH: Final = {"protocol": 50, "audit": 5, "tenants": 10, "deliberation": 30, "rotation": 2}
"""How many fresh seeds `make test` runs of each simulation."""
FRESH_PERCENT: Final = int(os.environ.get("FEDQUOTA_FRESH_PERCENT", "100"))
"""How many percent of these; `make unit` runs a tenth."""
NO_COMMIT: Final = "20240229"
"""Outside a git checkout, fresh seeds follow from this number."""


@dataclass(frozen=True)
class Fixed:
    """A seed of the fixed set, and why it is there."""

    seed: int
    catches: tuple[str, ...]  # mutations that the tests run with this seed
    shows: tuple[str, ...]  # events that are in the set because of this seed
    reaches: tuple[str, ...]  # functions with branches that no other seed of the set reaches


@functools.cache
def fixed(name: str) -> tuple[Fixed, ...]:
    """The fixed set of a simulation."""
    return read(FILE.read_text(), name)


def read(text: str, name: str) -> tuple[Fixed, ...]:
    """The fixed set of a simulation, in the text of the file."""
    rows = tomllib.loads(text).get(name, [])
    return tuple(Fixed(row["seed"], *(tuple(row[key]) for key in ("catches", "shows", "reaches"))) for row in rows)


@functools.cache
def commit() -> str:
    """The commit that is checked out, or NO_COMMIT."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return NO_COMMIT
    return found.stdout.strip()


def fresh(name: str) -> range:
    """The fresh seeds of a simulation: the same for every run of one commit."""
    first = int(commit()[:8], 16)
    return range(first, first + round(FRESH[name] * FRESH_PERCENT / 100))


def cases(simulation: Simulation) -> Sequence[object]:
    """All seeds, each a test case of its own."""
    chosen = [pytest.param(row.seed, id=f"fixed-{row.seed}") for row in fixed(simulation.name)]
    return chosen + [pytest.param(seed, id=f"fresh-{seed}") for seed in fresh(simulation.name)]


def check(simulation: Simulation, seed: int) -> Outcome:
    """Run a seed and fail the test where an invariant was violated, or where a fixed seed shows less than it should."""
    outcome = simulation.check(seed)
    for row in fixed(simulation.name):
        if row.seed == seed and (missing := [event for event in row.shows if not outcome.counts.get(event)]):
            pytest.fail(f"{simulation.name}, seed {seed} does not show {missing} any more: {CHOOSE}", pytrace=False)
    return outcome


def mutated(simulation: Simulation) -> Sequence[object]:
    """Every mutation, with the seed that catches it; None where the fixed set has none."""
    caught = {name: row.seed for row in fixed(simulation.name) for name in row.catches}
    names = [mutation.__name__ for mutation in simulation.mutations]
    return [pytest.param(name, caught.get(name), id=name) for name in names]


def header() -> str:
    """What a test run says about its fresh seeds."""
    ranges = ", ".join(f"{name} {_text(fresh(name))}" for name in FRESH)
    return f"simulation: fresh seeds of commit {commit()[:8]}: {ranges}"


def _text(seeds: range) -> str:
    return f"{seeds[0]}-{seeds[-1]}" if seeds else "none"
