"""How often the API server called a hook, by its own metrics: what was never called shows nowhere else."""

import re
from typing import Final

from localfed.federation import Federation

_COUNT: Final = re.compile(r"apiserver_admission_webhook_admission_duration_seconds_count\{([^}]*)\} (\S+)")


def calls(federation: Federation, hook: str) -> int:
    """The calls of the hook of that name so far."""
    metrics = federation.kubectl("get", "--raw", "/metrics")
    return sum(int(float(count)) for labels, count in _COUNT.findall(metrics) if f'name="{hook}"' in labels)
