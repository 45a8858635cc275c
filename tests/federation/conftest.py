"""What tests of the product on the real federation may ask for."""

import pytest

from localfed.federation import Federation
from tests.federation.stage import Stage


@pytest.fixture
def stage(federation: Federation, namespace: str) -> Stage:
    """A fresh namespace to act in."""
    return Stage(federation, namespace)
