"""What is written on a binding under a tree: displaced, woken, labelled; each one write under the version looked at.

Made under the system's own identity, which alone may hold and release. Who, and when, is the plan's.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from controllers.alarm import Alarm, Outcome, patched
from federation_quota.binding import Binding
from federation_quota.kube.client import Client
from federation_quota.stamp import CAPACITY_LABEL, HELD_LABEL, TRUE

# The scheduler looks at a binding whenever its spec was written. This is in every spec or may be: nobody acts on it.
_NUDGES: Final[tuple[Mapping[str, Any], ...]] = (
    {"suspension": {"scheduling": False}},
    {"suspension": {"scheduling": None}},
)

Moved = tuple[Outcome, int]
"""What became of it, and the version that was stored."""


async def displace(client: Client, binding: Binding) -> Moved:
    """Take it from its clusters, and hold it: it waits in line again."""
    labels = {HELD_LABEL: TRUE, CAPACITY_LABEL: None}
    spec = {"suspension": {"scheduling": True}, "clusters": None}
    return await patched(client, binding, {"metadata": {**_at(binding), "labels": labels}, "spec": spec})


async def label(client: Client, binding: Binding, capacity: str) -> Moved:
    """Say whether it runs within its quota's min."""
    return await patched(client, binding, {"metadata": {**_at(binding), "labels": {CAPACITY_LABEL: capacity}}})


async def wake(client: Client, alarm: Alarm, binding: Binding, now: datetime) -> Moved:
    """Have the scheduler try again what it was refused. What runs is not shuffled by it."""
    if not binding.clusters:
        outcome, _ = await alarm.ring_scheduler(binding, now, "")
        return outcome, 0
    for spec in _NUDGES:
        moved = await patched(client, binding, {"metadata": _at(binding), "spec": spec})
        if moved[0] is not Outcome.DONE or moved[1] != binding.version:
            return moved  # else it said that already, and nobody has heard of it
    return Outcome.FAILED, 0


def _at(binding: Binding) -> dict[str, str]:
    return {"resourceVersion": str(binding.version)}
