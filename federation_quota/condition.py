"""Conditions of an object's status, as every Kubernetes API has them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LONGEST: Final = 32768


@dataclass(frozen=True, slots=True)
class Finding:
    """One aspect of an object's state as it was found: whether it holds, and why."""

    type: str
    holds: bool
    reason: str
    message: str


def merge(
    conditions: Sequence[Mapping[str, Any]],
    findings: Iterable[Finding],
    *,
    of: Iterable[str],
    now: str,
    generation: int,
) -> list[dict[str, Any]]:
    """The conditions with these findings in them, and without others of those types.

    The time is that of the last change of the status, not of the message.
    """
    found = {one.type: one for one in findings}
    known = {one["type"]: one for one in conditions}
    others = [dict(one) for one in conditions if one["type"] not in {*of, *found}]
    merged = others
    for kind, finding in sorted(found.items()):
        status = "True" if finding.holds else "False"
        before = known.get(kind)
        is_same = before is not None and before["status"] == status
        merged.append(
            {
                "type": kind,
                "status": status,
                "reason": finding.reason,
                "message": finding.message[:_LONGEST],
                "lastTransitionTime": before["lastTransitionTime"] if before is not None and is_same else now,
                "observedGeneration": generation,
            }
        )
    return merged
