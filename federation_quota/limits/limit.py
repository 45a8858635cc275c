"""One entry of a node's limits: for whom, how much, and how many applications."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation_quota.quantity import Quantity, parse
from federation_quota.resource_name import canonical

WILDCARD: Final = "*"
"""Among users, everybody who is not named on that node, each for themselves; among groups, all others together."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What each of the users and groups that it lists may have at most. What it does not name is not limited."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: Mapping[str, Quantity] = field(default_factory=dict)
    """By canonical name."""
    applications: int | None = None
    """How many bindings with replicas."""
    label: str = ""
    """What it is called, for people."""


def read(spec: Mapping[str, Any]) -> tuple[Limit, ...]:
    """The limits in an object's spec, in their order; whatever Python raises where they are none."""
    return tuple(_read(one) for one in spec.get("limits") or ())


def _read(stored: Mapping[str, Any]) -> Limit:
    resources = {canonical(name): parse(amount) for name, amount in (stored.get("maxResources") or {}).items()}
    count = stored.get("maxApplications")
    if count is not None and not isinstance(count, int):
        raise TypeError("maxApplications of a limit is not a number")
    return Limit(
        users=tuple(_names(stored, "users")),
        groups=tuple(_names(stored, "groups")),
        resources=resources,
        applications=count or None,
        label=str(stored.get("limit") or ""),
    )


def _names(stored: Mapping[str, Any], field_name: str) -> list[str]:
    names = stored.get(field_name) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{field_name} of a limit is not a list of names")
    return names
