"""What a validator is asked: one increase of one binding, and how its tenant stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation_quota.resources import Resources
from federation_quota.stamp import Owner


@dataclass(frozen=True, slots=True)
class Request:
    """A binding that would cost more than before. Only increases are asked about, as by quotas."""

    namespace: str
    name: str
    """Of the ResourceBinding."""
    api_version: str
    kind: str
    workload: str
    """What it propagates: apiVersion, kind and name."""
    owner: Owner | None
    """Who created that, where it is known."""
    priority_class: str
    charge: Resources
    """All that it would cost, as quotas count: replicas times requests, and objects."""
    increase: Resources
    """By how much that is more than what it is counted with already. Nothing where the same was allowed a moment ago,
    and is asked about again."""
    is_new: bool
    """Whether the binding is yet to be created."""
    is_dry_run: bool
    """Whether nothing will come of it: then a validator must have no effect anywhere."""
    binding: Mapping[str, Any]
    """The whole ResourceBinding as it would be stored. To be read only."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose request it is, and what they have."""

    name: str
    """The label `quota.karmada.io/tenant` of the namespace; for one without it `namespace:NAME`, which is a tenant of
    its own, and never the one that a label means."""
    namespaces: tuple[str, ...]
    used: Resources
    """What all bindings of these cost together, with what was allowed and is not stored yet. What is asked for comes on
    top: `used + request.increase` is what it would be."""
