"""How the unit tests look for counterexamples, and how they let time pass."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from tests.budget import scaled

# A deadline would be an assertion about time, on machines that do other things as well; and so would this check be.
settings.register_profile(
    "federation-quota", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=scaled(15)
)
settings.load_profile("federation-quota")


@pytest.fixture
async def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of the test's event loop forward, for tests that have threads and so no virtual time."""
    loop = asyncio.get_running_loop()
    now, passed = loop.time, 0.0

    def move(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    monkeypatch.setattr(loop, "time", lambda: now() + passed)
    return move
