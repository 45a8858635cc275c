"""Whose a namespace is."""

from collections.abc import Iterable, Mapping

from federation_quota.stamp import TENANT_LABEL


def of(namespace: str, labels: Mapping[str, str]) -> str:
    """The tenant of a namespace with those labels: what they say, or the namespace itself."""
    return labels.get(TENANT_LABEL) or namespace


def namespaces(tenant: str, labels: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[str, ...]:
    """A tenant's namespaces, in order, out of all there are."""
    return tuple(sorted(name for name, own in labels if of(name, own) == tenant))
