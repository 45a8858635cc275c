"""Never over-admit, never leak: thousands of seeds of the whole protocol, and of the protocol with a part missing."""

import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation import clock, mutations
from tests.simulation.invariants import Violation
from tests.simulation.scenario import Scenario

SEEDS = int(os.environ.get("FEDQUOTA_SEEDS", "2000"))
MOST_SEEDS_FOR_A_MUTATION = 400


def run(seed: int) -> tuple[int, str | None, dict[str, int]]:
    """One seed: what was violated, if anything, and what happened in it."""
    scenario: Scenario | None = None

    async def main() -> None:
        nonlocal scenario
        scenario = Scenario(seed)
        await scenario.run()

    violation = None
    try:
        clock.run(main())
    except* Violation as found:
        violation = str(found.exceptions[0])
    assert scenario is not None
    return seed, violation, scenario.world.counts


@pytest.mark.timeout(3600)  # beside a busy federation it takes its time
def test_nothing_is_ever_over_admitted_or_leaked() -> None:
    happened: dict[str, int] = {}
    violations = []
    with ProcessPoolExecutor() as pool:
        for seed, violation, counts in pool.map(run, range(SEEDS), chunksize=20):
            if violation:
                violations.append(f"seed {seed}: {violation}")
            for what, count in counts.items():
                happened[what] = happened.get(what, 0) + count
    assert violations == []
    # A world in which nothing happens would prove nothing.
    for what in (
        "Allowed",
        "Denied",
        "Later",
        "Exists",
        "conflict",
        "lost answer",
        "relist",
        "legacy",
        "unbound",
        "advance",
        "advance of an owner",
        "two domains",
        "another leaf",
        "owner",
        "limits",
        "as before",
        "opened",
        "removed",
    ):
        assert happened.get(what, 0) > SEEDS / 10, (what, happened)


@pytest.mark.parametrize("mutation", mutations.ALL, ids=lambda mutation: mutation.__name__)
def test_the_protocol_with_a_part_missing_is_caught(
    mutation: mutations.Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(MOST_SEEDS_FOR_A_MUTATION):
        if run(seed)[1] is not None:
            return
    pytest.fail(f"{mutation.__name__}: not noticed in {MOST_SEEDS_FOR_A_MUTATION} seeds")


def test_a_seed_is_the_same_every_time() -> None:
    assert run(7) == run(7)
