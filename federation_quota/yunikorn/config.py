"""A queue configuration as a value: partitions, their queues, and who may have how much of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

from federation_quota.yunikorn import document
from federation_quota.yunikorn.amount import Written
from federation_quota.yunikorn.document import Faults, Read, count, each, fields, flag, number, table, text

ROOT: Final = "root"
DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Limit:
    """What users and groups may have."""

    label: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: Written = None
    applications: int = 0
    """Zero is no limit."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, and those below it."""

    name: str = ""
    is_parent: bool = False
    guaranteed: Written = None
    most: Written = None
    applications: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    admins: str = ""
    submitters: str = ""
    template: bool = False
    """Whether it says how queues that are made below it look."""
    queues: tuple["Queue", ...] = ()
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """How a queue is found for an application that comes."""

    name: str = ""
    creates: bool = False
    filter_type: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    parent: "Rule | None" = None
    value: str = ""

    @property
    def chain(self) -> tuple["Rule", ...]:
        """The rules that lead to it, the first to be asked first, itself last."""
        return (*(self.parent.chain if self.parent else ()), self)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; `queues` is None where nothing is said of any."""

    name: str = ""
    queues: tuple[Queue, ...] | None = None
    rules: tuple[Rule, ...] = ()
    limits: tuple[Limit, ...] = ()
    sort_policy: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Fields about how nodes are chosen, which say nothing of quotas."""

    @property
    def title(self) -> str:
        """Its name; without one it is the default partition."""
        return DEFAULT if self.name.lower() in ("", DEFAULT) else self.name

    @property
    def root(self) -> Queue:
        """The root queue, with the partition's own limits; queues without a root are below one."""
        found = self.queues or ()
        root = found[0] if len(found) == 1 and found[0].name.lower() == ROOT else Queue(ROOT, queues=found)
        return replace(root, is_parent=True, limits=root.limits or self.limits)


@dataclass(frozen=True, slots=True)
class Config:
    """All of it."""

    partitions: tuple[Partition, ...] = ()
    has_more: bool = False
    """Whether more documents follow in the text, which YuniKorn does not read."""


def decode(given: str) -> Config:
    """The configuration that a text holds; ConfigError where it is none. Whether it is right is `checks`' business."""
    found, has_more = document.decode(given, _CONFIG)
    partitions = (found or {}).get("partitions") if isinstance(found, dict) else None
    return Config(tuple(map(_partition, partitions or ())), has_more)


def _lazily(node: yaml.Node, faults: Faults) -> object:
    return _QUEUE(node, faults)


def _rules_above(node: yaml.Node, faults: Faults) -> object:
    return _RULE(node, faults)


_TEXTS: Final = each(text, "string")
_MAP: Final = table(text, "string")
_RESOURCES: Final = fields({"guaranteed": _MAP, "max": _MAP}, "configs.Resources")
_LIMIT: Final = fields(
    {"limit": text, "users": _TEXTS, "groups": _TEXTS, "maxresources": _MAP, "maxapplications": count}, "configs.Limit"
)
_LIMITS: Final = each(_LIMIT, "configs.Limit")
_TEMPLATE: Final = fields(
    {"maxapplications": count, "properties": _MAP, "resources": _RESOURCES}, "configs.ChildTemplate"
)
_QUEUE: Final[Read] = fields(
    {
        "name": text,
        "parent": flag,
        "resources": _RESOURCES,
        "maxapplications": count,
        "properties": _MAP,
        "adminacl": text,
        "submitacl": text,
        "childtemplate": _TEMPLATE,
        "queues": each(_lazily, "configs.QueueConfig"),
        "limits": _LIMITS,
    },
    "configs.QueueConfig",
)
_FILTER: Final = fields({"type": text, "users": _TEXTS, "groups": _TEXTS}, "configs.Filter")
_RULE: Final[Read] = fields(
    {"name": text, "create": flag, "filter": _FILTER, "parent": _rules_above, "value": text}, "configs.PlacementRule"
)
_SORTING: Final = fields({"type": text, "resourceweights": table(number, "float64")}, "configs.NodeSortingPolicy")
_PREEMPTION: Final = fields({"enabled": flag, "quotapreemptionenabled": flag}, "configs.PartitionPreemptionConfig")
_PARTITION: Final = fields(
    {
        "name": text,
        "queues": each(_QUEUE, "configs.QueueConfig"),
        "placementrules": each(_RULE, "configs.PlacementRule"),
        "limits": _LIMITS,
        "preemption": _PREEMPTION,
        "nodesortpolicy": _SORTING,
        "statedumpfilepath": text,
    },
    "configs.PartitionConfig",
)
_CONFIG: Final = fields(
    {"partitions": each(_PARTITION, "configs.PartitionConfig"), "checksum": text}, "configs.SchedulerConfig"
)
_ABOUT_NODES: Final = ("preemption", "nodesortpolicy", "statedumpfilepath")

Fields = dict[str, Any]


def _partition(given: Fields | None) -> Partition:
    found = given or {}
    queues, sorting = found.get("queues"), found.get("nodesortpolicy") or {}
    return Partition(
        name=found.get("name") or "",
        queues=None if queues is None else tuple(map(_queue, queues)),
        rules=tuple(map(_rule, found.get("placementrules") or ())),
        limits=tuple(map(_limit, found.get("limits") or ())),
        sort_policy=sorting.get("type") or "",
        weights={name: weight or 0.0 for name, weight in (sorting.get("resourceweights") or {}).items()},
        others=tuple(name for name in _ABOUT_NODES if found.get(name)),
    )


def _queue(given: Fields | None) -> Queue:
    found = given or {}
    resources = found.get("resources") or {}
    return Queue(
        name=found.get("name") or "",
        is_parent=bool(found.get("parent")),
        guaranteed=_written(resources.get("guaranteed")),
        most=_written(resources.get("max")),
        applications=found.get("maxapplications") or 0,
        properties=_written(found.get("properties")) or {},
        admins=found.get("adminacl") or "",
        submitters=found.get("submitacl") or "",
        template=bool(found.get("childtemplate")),
        queues=tuple(map(_queue, found.get("queues") or ())),
        limits=tuple(map(_limit, found.get("limits") or ())),
    )


def _limit(given: Fields | None) -> Limit:
    found = given or {}
    return Limit(
        label=found.get("limit") or "",
        users=tuple(name or "" for name in found.get("users") or ()),
        groups=tuple(name or "" for name in found.get("groups") or ()),
        resources=_written(found.get("maxresources")),
        applications=found.get("maxapplications") or 0,
    )


def _rule(given: Fields | None) -> Rule:
    found = given or {}
    narrowed = found.get("filter") or {}
    return Rule(
        name=found.get("name") or "",
        creates=bool(found.get("create")),
        filter_type=narrowed.get("type") or "",
        users=tuple(name or "" for name in narrowed.get("users") or ()),
        groups=tuple(name or "" for name in narrowed.get("groups") or ()),
        parent=None if found.get("parent") is None else _rule(found["parent"]),
        value=found.get("value") or "",
    )


def _written(given: Mapping[str, str | None] | None) -> Written:
    return None if given is None else {name: value or "" for name, value in given.items()}
