"""The audit over the histories of the simulated world."""

import pytest

from tests.simulation import seeds
from tests.simulation.catalogue import AUDIT


@pytest.mark.parametrize("seed", seeds.cases(AUDIT))
def test_what_was_reserved_is_never_alarmed_about_and_what_was_not_always_is(seed: int) -> None:
    assert seeds.check(AUDIT, seed).counts["binding event"] > 20
