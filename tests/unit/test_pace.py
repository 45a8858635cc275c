"""Seldom is at once, often is now and then: for each key, and for all together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.pace import Pace


def test_what_is_done_for_the_first_time_does_not_wait_and_again_waits_its_time() -> None:
    pace = Pace(seconds=1.0, per_second=10, burst=5, longest_seconds=5)
    assert pace.wait_seconds("a", 100.0) == 0
    pace.done("a", 100.0)
    assert pace.wait_seconds("a", 100.25) == 0.75
    assert pace.wait_seconds("b", 100.25) == 0, "another does not wait for it"
    assert pace.wait_seconds("a", 101.0) == 0


def test_many_keys_share_a_rate_once_the_burst_is_over() -> None:
    pace = Pace(seconds=0.0, per_second=10, burst=3, longest_seconds=5)
    for key in "abc":
        assert pace.wait_seconds(key, 100.0) == 0
        pace.done(key, 100.0)
    assert pace.wait_seconds("d", 100.0) == pytest.approx(0.1)
    assert pace.wait_seconds("e", 100.0) == pytest.approx(0.2), "each has its own turn"
    assert pace.wait_seconds("d", 100.1 + 1e-9) == 0


def test_a_turn_that_is_not_taken_is_another_s() -> None:
    pace = Pace(seconds=0.0, per_second=1, burst=1, longest_seconds=5)
    assert pace.wait_seconds("a", 100.0) == 0
    pace.passed("a")
    assert pace.wait_seconds("b", 100.0) == 0
    assert pace.wait_seconds("c", 100.0) > 0


def test_nobody_waits_longer_than_the_longest_and_the_crowd_is_soon_forgotten() -> None:
    pace = Pace(seconds=0.0, per_second=10, burst=5, longest_seconds=5)
    waits = [pace.wait_seconds(key, 100.0) for key in range(1000)]
    assert max(waits) == pytest.approx(5)
    for key in range(1000):
        pace.done(key, 105.0)
    assert pace.wait_seconds("new", 106.0) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 2)), max_size=200))
def test_who_waits_as_long_as_told_never_does_more_than_the_rate_allows(steps: list[tuple[str, float]]) -> None:
    pace, now, done = Pace(seconds=0.5, per_second=4, burst=6, longest_seconds=60), 0.0, list[tuple[float, str]]()
    for key, pause in steps:
        now += pause
        if pace.wait_seconds(key, now) == 0:
            pace.done(key, now)
            done.append((now, key))
    for start, _ in done:
        within = [one for one in done if start <= one[0] < start + 1.0]
        assert len(within) <= 6 + 4 + 1
        for key in "abc":
            assert len([one for one in within if one[1] == key and one[0] < start + 0.5 - 1e-6]) <= 1
