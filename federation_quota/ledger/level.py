"""Names of what is limited on one node of a tree: the account of a user holds `cpu@research` beside `cpu@vision`.

So one account judges a binding from the leaf to the root at once. No resource and no node has an `@` in its name.
"""

from collections.abc import Iterable
from typing import Final

from federation_quota.quantity import Quantity
from federation_quota.resources import Resources

APPLICATIONS: Final = "applications"
"""Bindings with replicas, beside the names of resources, none of which is called so."""

MOST_NAMES: Final = 128
"""A status does not hold amounts of more."""

_AT: Final = "@"


def qualified(resource: str, node: str) -> str:
    """The name of a resource on a node; the root has none."""
    return f"{resource}{_AT}{node}"


def is_applications(name: str) -> bool:
    """Whether it is a node's number of applications."""
    return name.startswith(APPLICATIONS + _AT)


def resource_of(name: str) -> str:
    """The resource alone; of what is limited on no node, its name."""
    return name.partition(_AT)[0]


def compact(amounts: Resources, names: Iterable[str]) -> dict[str, Quantity]:
    """Amounts of these names, told once for a resource of which there is the same on every node.

    Where that would still be more than a status can hold, each is the largest of its resource: more than there is.
    """
    by_resource: dict[str, list[str]] = {}
    for name in dict.fromkeys((*names, *amounts)):
        by_resource.setdefault(resource_of(name), []).append(name)
    found: dict[str, Quantity] = {}
    for resource, alike in by_resource.items():
        values = {amounts[name] for name in alike}
        if len(values) == 1:
            found[resource] = values.pop()
        else:
            found.update((name, amounts[name]) for name in alike)
    found = {name: amount for name, amount in found.items() if not amount.is_zero}
    if len(found) <= MOST_NAMES:
        return found
    return {resource: max(amounts[name] for name in alike) for resource, alike in by_resource.items()}


def spread(amounts: Resources, names: Iterable[str]) -> Resources:
    """The counterpart: what is told once, on every node. Where there is none that limits it, it stays as it is told:
    limits may come back, and what somebody holds must not be lost meanwhile."""
    by_resource: dict[str, list[str]] = {}
    for name in names:
        by_resource.setdefault(resource_of(name), []).append(name)
    return Resources({one: amount for name, amount in amounts.items() for one in by_resource.get(name, (name,))})


def split(name: str) -> tuple[str, str]:
    """The resource and the node."""
    resource, _, node = name.rpartition(_AT)
    return resource, node
