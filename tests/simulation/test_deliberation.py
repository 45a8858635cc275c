"""All or nothing, whichever replica is asked: seeds, and seeds with a part missing."""

import pytest

from federation_quota.elastic.underway import Change, Identity, Underway
from tests.simulation import seeds
from tests.simulation.catalogue import DELIBERATION


@pytest.mark.parametrize("seed", seeds.cases(DELIBERATION))
def test_of_changes_that_fit_only_one_by_one_never_two_are_stored(seed: int) -> None:
    seeds.check(DELIBERATION, seed)


@pytest.mark.parametrize(("mutation", "seed"), seeds.mutated(DELIBERATION))
def test_with_a_part_missing_it_is_noticed(mutation: str, seed: int | None) -> None:
    DELIBERATION.check_caught(mutation, seed)


def test_a_seed_is_the_same_every_time() -> None:
    assert DELIBERATION.run(5) == DELIBERATION.run(5)


def test_nothing_is_struck_off_without_a_word() -> None:
    """What the simulation stands on."""
    one = Change("x", "ElasticQuota", "a/quota", Identity("u", 1), {})
    assert Underway((one,)).without({"x"}, {"ElasticQuota": 5}).observed == {"ElasticQuota": 5}
