"""Whose a namespace is: the tenant's that its label names, or its own.

Those two kinds of tenants never have the same name. Setting the label takes a right that making namespaces does not:
whoever makes one that is called as somebody's tenant has a namespace of that name, and nothing of the tenant's.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from federation_quota.stamp import TENANT_LABEL

OWN: Final = "namespace:"
"""Before the name of a namespace that is a tenant of its own. No label's value has a colon."""


def of(namespace: str, labels: Mapping[str, str]) -> str:
    """The tenant of a namespace with those labels: what they say, or the namespace itself."""
    return labels.get(TENANT_LABEL) or f"{OWN}{namespace}"


def namespaces(tenant: str, labels: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[str, ...]:
    """A tenant's namespaces, in order, out of all there are."""
    return tuple(sorted(name for name, own in labels if of(name, own) == tenant))
