"""An ElasticQuota or CompositeElasticQuota as a value: its node, for whom it is, and who may manage what is below it.

Translation only, from the object that the API server stores; what may stand in one is `validation`'s business, and how
it fits beside the others is `topology`'s. A stored object that cannot be read is an error with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation_quota.elastic import unit
from federation_quota.elastic.association import NOWHERE, Leaf, Reach
from federation_quota.elastic.node import ROOT, Node
from federation_quota.elastic.tree import DEFAULT
from federation_quota.elastic.unit import Steps
from federation_quota.label_selector import LabelSelector, SelectorError
from federation_quota.limits import limit
from federation_quota.limits.limit import Limit
from federation_quota.quantity import QuantityError, parse

ELASTIC: Final = "ElasticQuota"
COMPOSITE: Final = "CompositeElasticQuota"

Object = Mapping[str, Any]


class QuotaError(ValueError):
    """A stored quota that cannot be used; validation would have refused it."""


@dataclass(frozen=True, slots=True)
class Manager:
    """Somebody who may change the quotas below a parent."""

    kind: str
    """User or Group."""
    name: str


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota, whether leaf or parent."""

    node: Node
    kind: str = ELASTIC
    tree: str = DEFAULT
    own: Reach = NOWHERE
    offered: Reach = NOWHERE
    managers: tuple[Manager, ...] = ()
    managed: Reach = NOWHERE
    """The namespaces that its managers may make quotas for."""
    admission: Steps | None = None
    """What may be asked for at most, waiting workloads included; None for no such limit."""
    strict: frozenset[str] = frozenset()
    """The resources whose max may not be set below what is used."""
    used: Steps = field(default_factory=dict, compare=False)
    request: Steps = field(default_factory=dict, compare=False)
    """What it was last found to be asked for."""
    is_occupied: bool = field(default=False, compare=False)
    """Whether any workload is charged to it, running or waiting. Like what is used, it is no part of what it says."""
    limits: tuple[Limit, ...] = ()
    """What users and groups may have of it."""

    @property
    def name(self) -> str:
        """The name by which others find it."""
        return self.node.name

    @property
    def is_parent(self) -> bool:
        """Whether it is for other quotas, and not for workloads."""
        return self.node.is_parent

    @property
    def leaf(self) -> Leaf:
        """Where its workloads come from."""
        return Leaf(self.name, self.own, self.offered)


def name_of(stored: Object) -> str:
    """The name of a stored quota in its tree."""
    metadata = stored["metadata"]
    namespace = metadata.get("namespace") if stored.get("kind") != COMPOSITE else None
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def read(stored: Object, *, is_default_group: bool = False) -> Quota:
    """The quota of a stored object; QuotaError where it cannot be read.

    A CompositeElasticQuota that is for no namespace is a parent, unless its tree made it the default group.
    """
    spec, status = stored.get("spec") or {}, stored.get("status") or {}
    name = name_of(stored)
    is_composite = stored.get("kind") == COMPOSITE
    try:
        own, offered = reach(spec) if is_composite else NOWHERE, reach(spec.get("offeredTo") or {})
        node = Node(
            name=name,
            parent=spec.get("parent") or ROOT,
            min=_steps(spec, "min"),
            max=_steps(spec, "max"),
            weight=_steps(spec, "sharedWeight"),
            lends=spec.get("allowLentResource", True) is not False,
            scales_min=spec.get("scaleMin", True) is not False,
            is_parent=is_composite and own.is_empty and offered.is_empty and not is_default_group,
        )
        return Quota(
            node=node,
            kind=COMPOSITE if is_composite else ELASTIC,
            tree=spec.get("tree") or DEFAULT,
            own=own if is_composite else Reach(frozenset({stored["metadata"]["namespace"]})),
            offered=offered,
            managers=tuple(Manager(one["kind"], one["name"]) for one in spec.get("managers") or ()),
            managed=reach(spec.get("managedNamespaces") or {}),
            admission=_steps(spec, "admission") if spec.get("admission") is not None else None,
            strict=frozenset(spec.get("strictMax") or ()),
            used=_steps(status, "used"),
            request=_steps(status, "request"),
            is_occupied=bool(status.get("held")) or any(_steps(status, "used").values()),
            limits=limit.read(spec),
        )
    except (QuantityError, SelectorError, KeyError, TypeError, AttributeError) as error:
        raise QuotaError(f"quota {name} cannot be used: {error}") from error


def reach(fields: Object) -> Reach:
    """The namespaces that an object's fields list and select."""
    selector = fields.get("namespaceSelector")
    return Reach(frozenset(fields.get("namespaces") or ()), None if selector is None else LabelSelector.read(selector))


def _steps(fields: Object, field_name: str) -> dict[str, int]:
    return unit.asked({name: parse(amount) for name, amount in (fields.get(field_name) or {}).items()})
