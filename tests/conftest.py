"""What every test may ask for, and the order they come in."""

import pytest

pytest_plugins = ["localfed.fixtures"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is marked so comes after everything else: the end of the product, and the look back at the whole run."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    marker = item.get_closest_marker("last")
    return int(marker.args[0]) if marker else 0
