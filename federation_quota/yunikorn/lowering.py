"""Limits as low as they are in effect: no more than what the same user or group may have above, and than all may.

YuniKorn's own rules leave gaps, in which a limit below seems to allow what one above does not. In effect it never did,
since all are asked; here it is written down.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from federation_quota.limits.limit import WILDCARD
from federation_quota.quantity import Quantity
from federation_quota.yunikorn.config import Limit

_ANY: Final = 2**31 - 1  # applications
_LONGEST_LABEL: Final = 253

Resources = Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class Most:
    """What somebody may have."""

    resources: Resources = field(default_factory=dict)
    applications: int = 0
    """Zero is any number."""

    def within(self, other: "Most") -> "Most":
        """The lower of both; resources that only the other names are left to it."""
        resources = {name: min(one, other.resources.get(name, one)) for name, one in self.resources.items()}
        counts = [one for one in (self.applications, other.applications) if one]
        return Most(resources, min(counts, default=0))

    @property
    def stated(self) -> "Most":
        """As an entry can say it. Who is named must stay so, whatever is left: it decides which limits are theirs.

        Of nothing but zeros, which an entry may not say, those above say enough; and any number of applications is
        the largest one.
        """
        resources = {} if all(one.is_zero for one in self.resources.values()) else self.resources
        return Most(resources, min(self.applications or (0 if resources else _ANY), _ANY))


@dataclass(frozen=True, slots=True)
class Entry:
    """One of our limits."""

    label: str
    users: tuple[str, ...]
    groups: tuple[str, ...]
    most: Most

    def to_json(self) -> dict[str, Any]:
        """As it stands in an object."""
        said: dict[str, Any] = {
            "limit": self.label[:_LONGEST_LABEL],
            "users": list(self.users),
            "groups": list(self.groups),
            "maxResources": {name: one.to_json() for name, one in self.most.resources.items()},
            "maxApplications": self.most.applications,
        }
        return {name: value for name, value in said.items() if value}


@dataclass(slots=True)
class Bounds:
    """Everything that stands on a queue and above it."""

    levels: tuple[dict[tuple[str, str], Most], ...] = ()
    """By kind and name, what each queue says, the nearest last."""
    most: Resources = field(default_factory=dict)
    """All that there may be of each resource on the queue, and above."""
    own: dict[tuple[str, str], Most] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def below(self, most: Resources) -> "Bounds":
        """For a queue below, which may have at most that."""
        lower = {name: min(one, self.most.get(name, one)) for name, one in {**self.most, **most}.items()}
        return Bounds((*self.levels, self.own), lower)

    def of(self, kind: str, name: str) -> Iterator[Most]:
        """Whatever binds somebody here."""
        yield Most(self.most)
        for level in self.levels:
            found = level.get((kind, name)) or level.get((kind, WILDCARD))
            if found is not None:
                yield found


def entries(limit: Limit, resources: Resources, bounds: Bounds) -> list[Entry]:
    """A limit as ours: one entry, or several where not all whom it lists are bound alike."""
    wanted = Most(resources, limit.applications)
    names = [*(("user", name) for name in limit.users), *(("group", name) for name in limit.groups)]
    found: list[tuple[str, str, Most]] = []
    for kind, name in names:
        lowest = wanted
        for above in bounds.of(kind, name):
            lowest = lowest.within(above)
        if lowest != wanted:
            bounds.told.append(f"{kind} {name} has a lower limit by a queue above: that is written here, too")
        bounds.own[kind, name] = lowest.stated
        found.append((kind, name, lowest.stated))
    made = []
    for most, alike in groupby(found, key=lambda one: one[2]):
        listed = list(alike)
        users = tuple(name for kind, name, _ in listed if kind == "user")
        made.append(Entry(limit.label, users, tuple(name for kind, name, _ in listed if kind == "group"), most))
    return made
