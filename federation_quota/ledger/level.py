"""Names of what is limited on one node of a tree: the account of a user holds `cpu@research` beside `cpu@vision`.

So one account judges a binding from the leaf to the root at once. No resource and no node has an `@` in its name.
"""

from typing import Final

APPLICATIONS: Final = "applications"
"""Bindings with replicas, beside the names of resources, none of which is called so."""

_AT: Final = "@"


def qualified(resource: str, node: str) -> str:
    """The name of a resource on a node; the root has none."""
    return f"{resource}{_AT}{node}"


def is_applications(name: str) -> bool:
    """Whether it is a node's number of applications."""
    return name.startswith(APPLICATIONS + _AT)


def split(name: str) -> tuple[str, str]:
    """The resource and the node."""
    resource, _, node = name.rpartition(_AT)
    return resource, node
