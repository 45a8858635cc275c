"""Rotation in a simulated world: seeds, seeds with a precaution taken away, and the lifetimes of the product."""

import pytest

from federation_quota.pki.rotation import Policy
from tests.pki.simulation import SHORT, lived
from tests.pki.world import Faults
from tests.simulation import seeds
from tests.simulation.catalogue import ROTATION


@pytest.mark.parametrize("seed", seeds.cases(ROTATION))
def test_every_leaf_verifies_everywhere_at_every_instant(seed: int) -> None:
    seeds.check(ROTATION, seed)


@pytest.mark.parametrize(("mutation", "seed"), seeds.mutated(ROTATION))
def test_with_a_precaution_taken_away_an_api_server_refuses_a_leaf(mutation: str, seed: int | None) -> None:
    assert "RefusedError" in ROTATION.check_caught(mutation, seed).violation


@pytest.mark.parametrize("years", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_years_with_the_lifetimes_of_the_product(years: int) -> None:
    faults = Faults(stall_seconds=86400, secret_deletions_per_year=0.2)
    world = lived(1, Policy(), faults, days=years * 365)
    assert len(world.promotions) >= 7 * years // 5
    assert world.leaves >= 3 * years * 365 / 7


@pytest.mark.parametrize("days", [45, pytest.param(180, marks=pytest.mark.soak)])
def test_a_secret_deleted_every_week_by_four_leaders_that_sleep(days: int) -> None:
    faults = Faults(leaders=4, stalls=0.4, secret_deletions_per_year=52)
    world = lived(1, SHORT, faults, days=days)
    assert len(world.promotions) >= 12 * days // 180
