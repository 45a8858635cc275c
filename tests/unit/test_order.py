"""What comes first comes first with every worker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.order import deal


def parts(items: list[str], workers: int) -> list[list[str]]:
    """As xdist's `worksteal` cuts a list."""
    cut = []
    for left in range(workers, 0, -1):
        length = len(items) // left
        cut.append(items[:length])
        items = items[length:]
    return cut


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_worker_begins_with_its_share(workers: int) -> None:
    firsts, others = [f"first-{number}" for number in range(6)], [f"other-{number}" for number in range(20)]
    for part in parts(deal(firsts, others, workers), workers):
        begins = part[: 6 // workers]
        assert all(one.startswith("first") for one in begins)
        assert not any(one.startswith("first") for one in part[6 // workers :])


@given(st.integers(0, 9), st.integers(0, 40), st.integers(1, 6))
def test_all_are_dealt_once_and_others_stay_in_their_order(firsts: int, others: int, workers: int) -> None:
    early, late = list(range(-firsts, 0)), list(range(others))
    dealt = deal(early, late, workers)
    assert sorted(dealt) == [*early, *late]
    assert [one for one in dealt if one >= 0] == late
