"""What every test may ask for, and the order they come in."""

import asyncio
import gc
from collections.abc import Callable, Mapping

import pytest
import structlog

from tests import order
from tests.simulation import seeds
from tests.virtual_time import VirtualTimeLoop

pytest_plugins = ["localfed.fixtures"]


def pytest_configure() -> None:
    """Collect no garbage while tests are collected: all of it stays. Let no logger keep what one test configured."""
    gc.disable()
    # The programs have it kept, to be faster: whoever captures logs later would see nothing of those loggers.
    configure = structlog.configure
    structlog.configure = lambda **options: configure(**{**options, "cache_logger_on_first_use": False})


def pytest_collection_finish() -> None:
    """Keep tests and modules out of the garbage collector's rounds, which took a tenth of the run's CPU time."""
    gc.enable()
    gc.freeze()


def pytest_report_header() -> str:
    """Print the fresh seeds of the simulations: they differ from commit to commit."""
    return seeds.header()


@pytest.hookimpl(trylast=True)  # `-m` has left out what it leaves out: the rest is dealt to the workers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked so comes first, or after everything else: the end of the product, the look back at the run."""
    _leave_out_soak(config, items)
    items.sort(key=order.turn)
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    firsts = sum(order.turn(item) < (0, 0) for item in items)
    items[:] = order.deal(items[:firsts], items[firsts:], workers)


def _leave_out_soak(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `soak`, unless `-m` asks for them: an `-m` for other tests must not bring them in."""
    if "soak" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give each asynchronous test its event loop: one with a virtual clock where the test is marked so."""
    return {"loop": VirtualTimeLoop if item.get_closest_marker("virtual_time") else asyncio.new_event_loop}
