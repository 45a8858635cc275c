"""The world that the tests of hostile input share ends with them."""

from collections.abc import Iterator

import pytest

from tests.fuzz.world import world


@pytest.fixture(scope="session", autouse=True)
def _closed_world() -> Iterator[None]:
    yield
    if world.cache_info().currsize:
        world().close()
        world.cache_clear()
