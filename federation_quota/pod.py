"""A pod in a member cluster, reduced to what quota needs of it.

A member has tens of thousands, most of them alike: what they come to is one `Footprint` for all that are equal, and a
pod is no more than its name and that.

Never here: how the usage comes about (`pod_usage`), bytes (`kube.codec`), sums (`census`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from federation_quota.binding import ObjectKey
from federation_quota.resources import Resources


class Workload(NamedTuple):
    """What a pod was made by, as far as the pod itself tells."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """What pods of one sort come to. Shared, and told apart by being another object: sums go by it."""

    usage: Resources
    """By canonical names; the object itself is not counted, that is the federation's business."""
    priority_class: str = ""
    workload: Workload | None = None
    is_running: bool = False
    """Whether it has been started, and has not ended: before that its node keeps the room, and nothing runs."""


class Pod(NamedTuple):
    """One pod."""

    key: ObjectKey
    footprint: Footprint | None
    """None: it has ended, and uses nothing."""
    gone_at: float | None = None
    """From when on it uses nothing, by the clock on the wall, where it is being deleted."""
