"""How many examples a test gets."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from tests.budget import scaled


def examples(count: int) -> Callable[[Any], Any]:
    """So many examples, or as many more as the environment asks for. No deadline: that would be a word about speed."""
    return settings(
        max_examples=scaled(count),
        deadline=None,
        # Documents are large, and making one smaller takes minutes: what was found is shown as it was found.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        report_multiple_bugs=False,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
