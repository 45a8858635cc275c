"""What users and groups use of a tree, queue by queue, as the document of YuniKorn's designers has it.

A queue is a node of the tree, called by its whole path from `root`. cpu is `vcore` there, in thousandths; everything
else is in whole units under its own name. What is not there is there as nothing: an empty list, an empty map, and 0 for
as many applications as one likes. All is sorted: equal states give equal documents.

Users are told of who use something, and who are named by a limit; groups for which something counts, and those named.
Somebody's queue is told where they use something, or a limit there names them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.scheme import Scheme
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.limits.survey import Survey, Use
from federation_quota.quantity import Quantity
from federation_quota.resources import Resources

_TOP: Final = "root"
_CPU: Final = "cpu"
_VCORE: Final = "vcore"
_NOTHING: Final = Use()


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
    """Of each application the group that it counts for, if it does for one."""
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
    """Whose what counts for it is."""
    queues: Queue

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"groupName": self.name, "users": list(self.users), "queues": self.queues.document()}


def users(scheme: Scheme, found: Survey) -> list[UserUsage]:
    """Every user, by name."""
    counted = {app: subject.name for subject in _of(found, GROUP) for app in _running(found, subject)}
    told = []
    for subject in _everybody(scheme, found, USER):
        groups = {app: counted[app] for app in _running(found, subject) if app in counted}
        told.append(UserUsage(subject.name, groups, _queues(scheme, subject, found.get(subject, {}))))
    return told


def groups(scheme: Scheme, found: Survey) -> list[GroupUsage]:
    """Every group, by name."""
    told = []
    for subject in _everybody(scheme, found, GROUP):
        uses = found.get(subject, {})
        told.append(GroupUsage(subject.name, uses.get(ROOT, _NOTHING).users, _queues(scheme, subject, uses)))
    return told


def _of(found: Survey, kind: str) -> Iterator[Subject]:
    return (one for one in found if one.kind == kind)


def _everybody(scheme: Scheme, found: Survey, kind: str) -> list[Subject]:
    known = {*_of(found, kind), *(one for one in scheme.named() if one.kind == kind)}
    return sorted(known, key=lambda one: one.name)


def _running(found: Survey, subject: Subject) -> tuple[str, ...]:
    return found.get(subject, {}).get(ROOT, _NOTHING).applications


def _queues(scheme: Scheme, subject: Subject, uses: Mapping[str, Use]) -> Queue:
    """From the root down."""
    limits = scheme.limits_of(subject)
    named = {node for node, limit in limits.items() if subject.name in (*limit.users, *limit.groups)}
    shown = {ROOT, *uses, *(above for node in named for above in scheme.path(node))}
    below: dict[str, list[Queue]] = {}
    for path in sorted((_path(scheme, node) for node in shown), key=lambda one: (-len(one), one)):  # leaves first
        node = path[0] if path else ROOT
        limit, use = limits.get(node), uses.get(node, _NOTHING)
        queue = Queue(
            name=".".join((_TOP, *reversed(path))),
            usage=use.resources,
            applications=use.applications,
            children=tuple(below.get(node, ())),
            max_applications=(limit.applications or 0) if limit else 0,
            max_resources=limit.resources if limit else {},
        )
        below.setdefault(path[1] if len(path) > 1 else ROOT, []).append(queue)
    return queue


def _path(scheme: Scheme, node: str) -> tuple[str, ...]:
    """The nodes from one up to below the root; empty for the root itself."""
    return () if node == ROOT else scheme.path(node)[:-1]


def _amounts(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    shown = {_VCORE if name == _CPU else name: (name, amount) for name, amount in amounts.items()}
    return {
        name: shown[name][1].milli() if shown[name][0] == _CPU else shown[name][1].whole() for name in sorted(shown)
    }
