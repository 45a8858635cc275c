"""What users and groups use of a tree, from bindings, quotas and trees as an API server has them.

For whoever asks once, and for whoever keeps all that in view anyhow. What it means is `limits`' business.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from federation_quota.binding import Binding
from federation_quota.elastic import quota as quotas
from federation_quota.elastic.forest import Forest, read_root
from federation_quota.kube import codec
from federation_quota.kube.client import Client
from federation_quota.kube.mirrors import claim
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, ELASTIC_QUOTAS, QUOTA_TREES, RESOURCE_BINDINGS
from federation_quota.kube.resource import Resource
from federation_quota.limits import report
from federation_quota.limits.report import GroupUsage, UserUsage
from federation_quota.limits.scheme import Scheme
from federation_quota.limits.survey import Survey, survey


def users(forest: Forest, tree: str, bindings: Iterable[Binding]) -> Sequence[UserUsage]:
    """Every user of a tree, by name."""
    return report.users(*_surveyed(forest, tree, bindings))


def groups(forest: Forest, tree: str, bindings: Iterable[Binding]) -> Sequence[GroupUsage]:
    """Every group of a tree, by name."""
    return report.groups(*_surveyed(forest, tree, bindings))


def _surveyed(forest: Forest, tree: str, bindings: Iterable[Binding]) -> tuple[Scheme, Survey]:
    scheme = Scheme.of(tree, forest.levels(tree).values())
    claims = {str(one.key): claim(one) for one in bindings if one.stamp.owner is not None}
    return scheme, survey(scheme, claims)


async def read_forest(client: Client) -> Forest:
    """All quotas and trees as they are stored now."""
    found = [
        quotas.read({**document, "kind": resource.kind})
        for resource in (ELASTIC_QUOTAS, COMPOSITE_ELASTIC_QUOTAS)
        async for document in _documents(client, resource)
    ]
    return Forest.of(found, [read_root(document) async for document in _documents(client, QUOTA_TREES)])


async def read_bindings(client: Client) -> list[Binding]:
    """All bindings as they are stored now."""
    return [codec.decode_stored_binding(body) async for body in _items(client, RESOURCE_BINDINGS)]


async def _documents(client: Client, resource: Resource) -> AsyncIterator[dict[str, Any]]:
    async for body in _items(client, resource):
        yield codec.decode_object(body)


async def _items(client: Client, resource: Resource) -> AsyncIterator[bytes]:
    pages = client.list(resource)
    async with contextlib.aclosing(pages):
        async for page in pages:
            for item in page.items:
                yield bytes(item)
