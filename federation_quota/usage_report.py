"""What users and groups use of a tree, queue by queue, as the document of YuniKorn's designers has it.

A queue is a node of the tree, called by its whole path from `root`. cpu is `vcore` there, in thousandths; everything
else is in whole units under its own name. What is not there is there as nothing: an empty list, an empty map, and 0 for
as many applications as one likes. All is sorted: equal states give equal documents.

Pure: from uses and limits to values, and from those to what JSON can be made of. Where uses come from is the caller's
business; which limits are whose is `limits`'.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from federation_quota.quantity import Quantity
from federation_quota.resource_name import PODS
from federation_quota.resources import Resources

Path = tuple[str, ...]
"""The nodes from below the root down to one; empty for the root itself."""

ROOT: Final = "root"
_CPU: Final = "cpu"
_VCORE: Final = "vcore"


class Cap(Protocol):
    """What somebody may have at most on one node."""

    @property
    def resources(self) -> Mapping[str, Quantity]:
        """By canonical name; what is not named is not limited."""

    @property
    def applications(self) -> int | None:
        """How many bindings with replicas; None for any number."""


Caps = Mapping[Path, Cap]


@dataclass(frozen=True, slots=True)
class Use:
    """What one binding costs its owner, on its leaf and on every node above that."""

    application: str
    user: str
    group: str  # the one that it counts for; empty for none
    path: Path
    charge: Resources

    @property
    def is_running(self) -> bool:
        """Whether it is an application: one with replicas."""
        return PODS in self.charge


@dataclass(frozen=True, slots=True)
class Queue:
    """What somebody uses of one node, and may use at most."""

    name: str
    usage: Resources
    applications: tuple[str, ...]
    children: tuple["Queue", ...] = ()
    max_applications: int = 0
    max_resources: Mapping[str, Quantity] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "queuename": self.name,
            "resourceUsage": _amounts(self.usage),
            "runningApplications": list(self.applications),
            "children": [child.document() for child in self.children],
            "maxApplications": self.max_applications,
            "maxResources": _amounts(self.max_resources),
        }


@dataclass(frozen=True, slots=True)
class UserUsage:
    """One user's."""

    name: str
    groups: Mapping[str, str]
    """Of each application the group that it counts for."""
    queues: Queue

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        groups = {name: self.groups[name] for name in sorted(self.groups)}
        return {"userName": self.name, "groups": groups, "queues": self.queues.document()}


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """One group's; that of `*` is of all groups that no limit names."""

    name: str
    users: tuple[str, ...]
    queues: Queue

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"groupName": self.name, "users": list(self.users), "queues": self.queues.document()}


def user(name: str, uses: Iterable[Use], caps: Caps, named: Iterable[Path] = ()) -> UserUsage:
    """What one user uses; a queue in which they use nothing is told where a limit names them there."""
    own = [one for one in uses if one.user == name]
    groups = {one.application: one.group for one in own if one.group and one.is_running}
    return UserUsage(name, groups, queues(own, caps, named))


def group(name: str, uses: Iterable[Use], caps: Caps, named: Iterable[Path] = ()) -> GroupUsage:
    """What counts for one group."""
    own = [one for one in uses if one.group == name]
    return GroupUsage(name, tuple(sorted({one.user for one in own})), queues(own, caps, named))


def queues(uses: Iterable[Use], caps: Caps, named: Iterable[Path] = ()) -> Queue:
    """The queues from the root down in which there is anything to tell."""
    found: dict[Path, list[Use]] = {(): []}
    below: dict[Path, set[Path]] = {}

    def reach(path: Path) -> None:
        while path and path not in found:
            found[path] = []
            below.setdefault(path[:-1], set()).add(path)
            path = path[:-1]

    for path in named:
        reach(path)
    for use in uses:
        reach(use.path)
        for depth in range(len(use.path) + 1):
            found[use.path[:depth]].append(use)
    made: dict[Path, Queue] = {}
    for path in sorted(found, key=len, reverse=True):  # children first
        children = tuple(made[child] for child in sorted(below.get(path, ())))
        made[path] = _queue(path, found[path], children, caps.get(path))
    return made[()]


def _queue(path: Path, uses: list[Use], children: tuple[Queue, ...], cap: Cap | None) -> Queue:
    return Queue(
        name=".".join((ROOT, *path)),
        usage=Resources.sum(use.charge for use in uses),
        applications=tuple(sorted(use.application for use in uses if use.is_running)),
        children=children,
        max_applications=(cap.applications or 0) if cap else 0,
        max_resources=cap.resources if cap else {},
    )


def _amounts(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    shown = {_VCORE if name == _CPU else name: (name, amount) for name, amount in amounts.items()}
    return {
        name: shown[name][1].milli() if shown[name][0] == _CPU else shown[name][1].whole() for name in sorted(shown)
    }
