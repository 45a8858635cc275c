"""One request of a tenant at a time, and no more than its validator allows: seeds, and seeds with a part missing."""

import pytest

from tests.simulation import seeds
from tests.simulation.catalogue import TENANTS


@pytest.mark.parametrize("seed", seeds.cases(TENANTS))
def test_a_validator_sees_one_request_of_a_tenant_at_a_time_and_is_told_all_that_it_uses(seed: int) -> None:
    seeds.check(TENANTS, seed)


@pytest.mark.parametrize(("mutation", "seed"), seeds.mutated(TENANTS))
def test_turns_with_a_part_missing_are_caught(mutation: str, seed: int | None) -> None:
    TENANTS.check_caught(mutation, seed)


def test_a_seed_is_the_same_every_time() -> None:
    assert TENANTS.run(5) == TENANTS.run(5)
