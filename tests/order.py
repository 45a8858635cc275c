"""The order of tests: random, but for those that are marked `first` or `last`."""

from collections.abc import Sequence
from itertools import islice
from typing import TypeVar

import pytest

T = TypeVar("T")


def turn(item: pytest.Item) -> tuple[int, int]:
    """By which tests are sorted: below (0, 0) what comes first, above what comes last."""
    for place, name in ((-1, "first"), (1, "last")):
        if marker := item.get_closest_marker(name):
            return place, int(marker.args[0])
    return 0, 0


def deal(firsts: Sequence[T], others: Sequence[T], workers: int) -> list[T]:
    """The list of all from which every worker has its share of what comes first at the beginning of its part.

    xdist's `worksteal` cuts a list into equal parts: what stood at its beginning would be for one worker alone.
    """
    dealt: list[T] = []
    left = iter(others)
    for worker in range(workers):
        length = (len(firsts) + len(others) - len(dealt)) // (workers - worker)
        own = firsts[worker::workers]
        dealt += [*own, *islice(left, max(0, length - len(own)))]
    return dealt
