"""What has lasted is the least that it was within the grace; nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.grace import Grace
from federation_quota.resources import NOTHING, Resources


def cpu(amount: int) -> Resources:
    return Resources.parse({"cpu": amount})


def test_what_stays_counts_once_the_grace_is_over() -> None:
    grace = Grace()
    grace.note(cpu(2), 100)
    assert grace.lasting(100, 10) == NOTHING
    assert grace.next_change(100, 10) == 10
    assert grace.lasting(109.9, 10) == NOTHING
    assert grace.lasting(110, 10) == cpu(2)
    assert grace.next_change(110, 10) is None


def test_a_surge_within_the_grace_never_counts_and_what_was_there_before_still_does() -> None:
    grace = Grace()
    grace.note(cpu(2), 0)
    grace.note(cpu(3), 100)
    assert grace.lasting(105, 10) == cpu(2)
    grace.note(cpu(2), 109)
    assert grace.lasting(200, 10) == cpu(2)


def test_what_goes_is_let_go_at_once() -> None:
    grace = Grace()
    grace.note(cpu(5), 0)
    grace.note(cpu(1), 100)
    assert grace.lasting(100, 10) == cpu(1)
    grace.note(NOTHING, 101)
    assert grace.lasting(101, 10) == NOTHING


def test_without_a_grace_it_counts_at_once() -> None:
    grace = Grace()
    grace.note(cpu(5), 7)
    assert grace.lasting(7, 0) == cpu(5)


def test_after_a_restart_what_had_lasted_before_still_counts_and_what_is_new_waits() -> None:
    grace = Grace(cpu(3))
    grace.note(cpu(5), 100)
    assert grace.lasting(100, 10) == cpu(3)
    assert grace.lasting(110, 10) == cpu(5)
    less = Grace(cpu(3))
    less.note(cpu(1), 100)
    assert less.lasting(100, 10) == cpu(1)


STEPS = st.lists(st.tuples(st.integers(1, 5), st.dictionaries(st.sampled_from(["cpu", "pods"]), st.integers(0, 4))))


@given(STEPS, st.integers(0, 12), st.integers(0, 10), st.integers(0, 3))
def test_it_is_the_minimum_of_the_whole_history(
    steps: list[tuple[int, dict[str, int]]], seconds: int, later: int, earlier: int
) -> None:
    grace, now = Grace(cpu(earlier)), 0
    history: list[tuple[int, Resources]] = []
    for pause, amounts in steps:
        now += pause
        excess = Resources.parse(amounts)
        grace.note(excess, now)
        grace.forget(now, seconds)
        history.append((now, excess))
        check(grace, history, earlier, now, seconds)
    check(grace, history, earlier, now + later, seconds)


def check(grace: Grace, history: list[tuple[int, Resources]], earlier: int, now: int, seconds: int) -> None:
    if not history:
        return
    for name in ("cpu", "pods"):
        # Each amount holds from when it was noted until the next.
        ends = [*(float(at) for at, _ in history), float("inf")]
        held = [cpu(earlier)[name], *(excess[name] for _, excess in history)]
        least = min(amount for amount, end in zip(held, ends, strict=True) if end > now - seconds)
        assert grace.lasting(now, seconds)[name] == least
