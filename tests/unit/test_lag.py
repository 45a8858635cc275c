"""How far a view is behind, by a clock that the test turns."""

from federation_quota.accounting.lag import Lag
from federation_quota.accounting.observation import Observation


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_counts_from_when_the_first_unseen_version_was_heard_of() -> None:
    observation, clock = Observation(), Clock()
    lag = Lag(observation, clock)
    observation.reach(10)
    lag.hear(10)
    assert lag.seconds() == 0
    lag.hear(20)
    clock.now += 3
    lag.hear(30)
    clock.now += 1
    assert lag.seconds() == 4
    observation.reach(20)  # what it was behind of first has come; the rest was heard of a second ago
    assert lag.seconds() == 1
    observation.reach(35)
    assert lag.seconds() == 0


def test_old_news_changes_nothing_and_neither_does_silence() -> None:
    observation, clock = Observation(), Clock()
    lag = Lag(observation, clock)
    observation.reach(10)
    lag.hear(5)
    clock.now += 60
    assert lag.seconds() == 0


def test_nobody_has_to_ask_for_it_to_stay_small() -> None:
    observation, clock = Observation(), Clock()
    lag = Lag(observation, clock)
    for version in range(1, 5000):
        lag.hear(version)
        observation.reach(version)
    lag.hear(6000)
    clock.now += 2
    assert lag.seconds() == 2


def test_a_store_that_went_back_in_time_is_not_waited_for() -> None:
    observation, clock = Observation(), Clock()
    lag = Lag(observation, clock)
    lag.hear(1000)
    lag.rewind()
    clock.now += 2
    assert lag.seconds() == 0
