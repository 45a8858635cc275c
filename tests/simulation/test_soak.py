"""The nightly run finds what is wrong, says how to repeat it, and ends in time."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

import soak
from tests.simulation.simulation import Outcome, Simulation


def is_blunt(_patch: pytest.MonkeyPatch) -> None:
    """Changes nothing that anybody notices."""


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def of(executor: Executor, simulation: Simulation, first: int = 0, seconds: int = 30) -> soak.Soak:
    """A run that has time for so many seeds: its clock goes on by a second whenever it is looked at."""
    ticks = iter(range(10**9))
    return soak.Soak(executor, 1, first, seconds, clock=lambda: next(ticks), simulations={simulation.name: simulation})


def test_every_violation_is_listed_with_its_command_and_the_rest_is_run(executor: Executor) -> None:
    run = of(executor, Simulation("tenants", lambda seed: Outcome("two at once" if seed == 1005 else "")), first=1000)
    run.run_seeds()
    assert run.failures == [
        "tenants, seed 1005: two at once\nrepeat it alone: .venv/bin/python -m tests.simulation tenants 1005"
    ]
    assert run.counts["tenants"] > 10
    assert "1 failures" in run.summary


def test_it_ends_when_its_time_is_used(executor: Executor) -> None:
    run = of(executor, Simulation("tenants", lambda _seed: Outcome("")), seconds=5)
    run.run_seeds()
    assert 0 < run.counts["tenants"] <= 5


def test_a_mutation_that_nothing_catches_is_a_failure(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "MOST_SEEDS_FOR_A_MUTATION", 3)
    run = of(executor, Simulation("tenants", lambda _seed: Outcome(""), mutations=(is_blunt,)))
    run.run_mutations()
    assert run.failures == ["tenants: is_blunt is not caught by 3 seeds from 0 on"]


def test_a_mutation_that_was_not_reached_in_time_is_none(executor: Executor) -> None:
    run = of(executor, Simulation("tenants", lambda _seed: Outcome(""), mutations=(is_blunt,)), seconds=4)
    run.run_mutations()
    assert (run.caught, run.failures) == (0, [])


def test_a_mutation_that_is_caught_is_counted(executor: Executor) -> None:
    run = of(executor, Simulation("tenants", lambda seed: Outcome("x" if seed == 2 else ""), mutations=(is_blunt,)))
    run.run_mutations()
    assert (run.caught, run.failures) == (1, [])
