"""The fixed seeds: every mutation and every event is in them; and the fresh ones follow from the commit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import choose, seeds
from tests.simulation.catalogue import SIMULATIONS
from tests.simulation.choose import Candidate
from tests.simulation.simulation import Outcome, Simulation


@pytest.mark.parametrize("simulation", SIMULATIONS.values(), ids=SIMULATIONS)
def test_every_mutation_is_caught_and_every_event_shown_by_one_fixed_seed(simulation: Simulation) -> None:
    rows = seeds.fixed(simulation.name)
    caught = sorted(name for row in rows for name in row.catches)
    shown = sorted(name for row in rows for name in row.shows)
    assert caught == sorted(mutation.__name__ for mutation in simulation.mutations)
    assert shown == sorted(simulation.events)


def test_fresh_seeds_are_those_of_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "commit", lambda: "0000002a" + 32 * "f")
    monkeypatch.setattr(seeds, "FRESH_PERCENT", 10)
    assert seeds.fresh("protocol") == range(42, 47)
    assert "protocol 42-46" in seeds.header()


def test_outside_a_checkout_fresh_seeds_are_those_of_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert seeds.commit.__wrapped__() == seeds.NO_COMMIT


def test_a_seed_is_one_course_of_events_however_sets_are_walked() -> None:
    """Otherwise the command that repeats a failure would repeat another course."""
    said = {
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "protocol", "49"],  # of sixty, the one that told them apart
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hashing},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashing in ("1", "2")
    }
    assert len(said) == 1


def test_a_violation_names_the_seed_and_the_command_that_repeats_it() -> None:
    broken = Simulation("protocol", lambda seed: Outcome(f"{seed} is too much"))
    with pytest.raises(pytest.fail.Exception, match=r"seed 17: 17 is too much\n.*-m tests.simulation protocol 17"):
        broken.check(17)


def test_a_seed_that_does_not_catch_its_mutation_any_more_fails() -> None:
    blind = Simulation("protocol", lambda _seed: Outcome(""), mutations=(no_change,))
    with pytest.raises(pytest.fail.Exception, match="seed 17 does not catch no_change"):
        blind.check_caught("no_change", 17)
    with pytest.raises(pytest.fail.Exception, match="no fixed seed catches no_change"):
        blind.check_caught("no_change", None)


def test_the_cheapest_seeds_that_have_everything_are_chosen() -> None:
    world = Simulation("protocol", lambda _seed: Outcome(""), ("crash",), (no_change,))
    line = "federation_quota/resources.py"
    everywhere = frozenset({(line, 1, 2), (line, 2, 3)})
    among = [
        Candidate(0, 9.0, {"crash": 1}, everywhere, frozenset({"no_change"})),
        Candidate(1, 1.0, {"crash": 1}, frozenset({(line, 1, 2)})),
        Candidate(2, 1.0, {"crash": 2}, frozenset({(line, 2, 3)}), frozenset({"no_change"})),
        Candidate(3, 1.0, {}, frozenset({(line, 1, 2)})),
    ]
    chosen = choose.choose(world, among)
    assert [row.seed for row in chosen] == [1, 2]
    assert chosen[1].catches == ("no_change",)
    assert chosen[1].shows == ("crash",)
    assert seeds.read(choose.written({"protocol": chosen}), "protocol") == tuple(chosen)


def test_where_a_step_is_told_by_its_function() -> None:
    lines = (seeds.ROOT / "tests/simulation/choose.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "self.counts.get(name)" in text)
    assert choose.function_at("tests/simulation/choose.py", line) == "tests.simulation.choose.Candidate.merits"


def no_change(_patch: pytest.MonkeyPatch) -> None:
    """Takes nothing out."""
