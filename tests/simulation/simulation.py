"""What all simulations have in common: one seed is run and judged, with the product whole or with a part taken out."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.simulation import clock
from tests.simulation.violation import Violation

Mutation = Callable[[pytest.MonkeyPatch], None]

CHOOSE: Final = "either a check was lost, or the world has changed and `python -m tests.simulation.choose` is due"


@dataclass(frozen=True)
class Outcome:
    """How one seed went."""

    violation: str  # empty: everything held
    counts: Mapping[str, int] = field(default_factory=dict)  # how often each kind of event happened


@dataclass(frozen=True)
class Simulation:
    """One simulated world. Its functions are those of a module, so that other processes can run it."""

    name: str
    run: Callable[[int], Outcome]
    events: tuple[str, ...] = ()  # what has to happen in it: a world in which nothing happens proves nothing
    mutations: tuple[Mutation, ...] = ()
    reaches: tuple[str, ...] = ("federation_quota/*", "controllers/*", "webhook/*")  # what its seeds are to go all over

    def run_mutated(self, mutation: Mutation, seed: int) -> Outcome:
        """Run a seed while a part of the product is taken out."""
        with pytest.MonkeyPatch.context() as patch:
            mutation(patch)
            return self.run(seed)

    def mutation(self, name: str) -> Mutation:
        """The mutation of that name."""
        return next(mutation for mutation in self.mutations if mutation.__name__ == name)

    def check(self, seed: int) -> Outcome:
        """Run a seed and fail the test, with the command that repeats it alone, where an invariant was violated."""
        outcome = self.run(seed)
        if outcome.violation:
            pytest.fail(describe(self, seed, outcome), pytrace=False)
        return outcome

    def check_caught(self, mutation: str, seed: int | None) -> Outcome:
        """Run a seed while a part of the product is taken out, and fail the test where nothing was violated."""
        if seed is None:
            pytest.fail(f"no fixed seed catches {mutation}: {CHOOSE}", pytrace=False)
        outcome = self.run_mutated(self.mutation(mutation), seed)
        if not outcome.violation:
            pytest.fail(f"{self.name}, seed {seed} does not catch {mutation} any more: {CHOOSE}", pytrace=False)
        return outcome


def describe(simulation: Simulation, seed: int, outcome: Outcome) -> str:
    """A violation, in the words of a test's failure."""
    repeat = f".venv/bin/python -m tests.simulation {simulation.name} {seed}"
    return f"{simulation.name}, seed {seed}: {outcome.violation}\nrepeat it alone: {repeat}"


def violation_in(main: Coroutine[Any, Any, None]) -> str:
    """Run a world in simulated time; the first invariant that it violated, or nothing."""
    violation = ""
    try:
        clock.run(main)
    except* Violation as group:
        violation = str(_first(group))
    return violation


def _first(group: BaseExceptionGroup[Violation]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
