"""What tests of the product on the real federation may ask for."""

from collections.abc import Iterator

import pytest

from localfed.federation import Federation
from tests.federation.ledgers import Recorder
from tests.federation.news import NEWS
from tests.federation.stage import Stage


@pytest.fixture
def stage(federation: Federation, namespace: str) -> Iterator[Stage]:
    """A fresh namespace to act in."""
    with NEWS.about(federation, namespace):
        yield Stage(federation, namespace)


@pytest.fixture(scope="module")
def recorder(federation: Federation) -> Iterator[Recorder]:
    """Every version of quotas and bindings that is stored while the tests of a module run."""
    with Recorder(federation).recording() as found:
        yield found
