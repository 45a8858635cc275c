"""What every test may ask for, and the order they come in."""

import pytest

from tests.simulation import seeds

pytest_plugins = ["localfed.fixtures"]


def pytest_report_header() -> str:
    """Print the fresh seeds of the simulations: they differ from commit to commit."""
    return seeds.header()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked so comes after everything else: the end of the product, and the look back at the whole run."""
    _leave_out_soak(config, items)
    items.sort(key=_turn)


def _leave_out_soak(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `soak`, unless `-m` asks for them: an `-m` for other tests must not bring them in."""
    if "soak" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


def _turn(item: pytest.Item) -> int:
    marker = item.get_closest_marker("last")
    return int(marker.args[0]) if marker else 0
