"""Never over-admit, never leak: seeds of the whole protocol, and of the protocol with a part missing."""

import pytest

from tests.simulation import seeds
from tests.simulation.catalogue import PROTOCOL


@pytest.mark.parametrize("seed", seeds.cases(PROTOCOL))
def test_nothing_is_ever_over_admitted_or_leaked(seed: int) -> None:
    seeds.check(PROTOCOL, seed)


@pytest.mark.parametrize(("mutation", "seed"), seeds.mutated(PROTOCOL))
def test_the_protocol_with_a_part_missing_is_caught(mutation: str, seed: int | None) -> None:
    PROTOCOL.check_caught(mutation, seed)


def test_a_seed_is_the_same_every_time() -> None:
    assert PROTOCOL.run(5) == PROTOCOL.run(5)
