"""Quotas, elastic ones too, and bindings on the federation API server, as the store that accounts are kept in."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec
import structlog

from federation_quota import karmadaquota, metrics
from federation_quota.accounting import store
from federation_quota.accounting.observation import Observation
from federation_quota.binding import ObjectKey
from federation_quota.elastic import leaf
from federation_quota.elastic.quota import COMPOSITE, ELASTIC
from federation_quota.elastic.quota import QuotaError as ElasticError
from federation_quota.elastic.underway import Identity
from federation_quota.kube import codec, error, legacies
from federation_quota.kube.client import Client
from federation_quota.kube.presence import take_roll
from federation_quota.kube.resource import Resource
from federation_quota.kube.roster import Roster
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.level import split
from federation_quota.ledger.settling import EXPIRY_SECONDS, LiveLook
from federation_quota.limits import usage
from federation_quota.limits.subject import Subject
from federation_quota.resources import Resources

log = structlog.get_logger()

KARMADA_QUOTAS = Resource("quota.karmada.io", "v1alpha1", "karmadaquotas", "KarmadaQuota")
ELASTIC_QUOTAS = Resource("quota.karmada.io", "v1alpha1", "elasticquotas", ELASTIC)
COMPOSITE_ELASTIC_QUOTAS = Resource(
    "quota.karmada.io", "v1alpha1", "compositeelasticquotas", COMPOSITE, namespaced=False
)
USAGE_ACCOUNTS = Resource("quota.karmada.io", "v1alpha1", "usageaccounts", "UsageAccount", namespaced=False)
QUOTA_TREES = Resource("quota.karmada.io", "v1alpha1", "quotatrees", "QuotaTree", namespaced=False)
RESOURCE_BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")


def decode_quota(body: bytes) -> Account:
    """The account of a stored KarmadaQuota; QuotaError where it cannot be used."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise karmadaquota.QuotaError(f"a quota that cannot be read: {problem}") from problem
    return karmadaquota.read(document)


def decode_elastic(body: bytes) -> Account:
    """The account of a stored ElasticQuota or CompositeElasticQuota; QuotaError where it cannot be used.

    What its tree makes of it, a parent or the default group, does not matter for its books.
    """
    return leaf.read(codec.decode_object(body))


def decode_usage(body: bytes) -> Account:
    """The account of a stored UsageAccount; UsageError where it cannot be used. What it limits, limits have to say."""
    return usage.read(codec.decode_object(body))


def identity(document: Mapping[str, Any]) -> Identity:
    """The identity in an object's metadata."""
    metadata = document.get("metadata") or {}
    generation = metadata.get("generation")
    return Identity(str(metadata.get("uid") or ""), generation if isinstance(generation, int) else 0)


def resource_of(place: str) -> Resource:
    """The kind that accounts of a domain are stored as."""
    return _whereabouts(place, domain.leaf(place))[0]


def _decode(place: str, body: bytes) -> Account:
    """An account of a domain."""
    if domain.is_usage(place):
        return decode_usage(body)
    return decode_elastic(body) if domain.is_leaf(place) else decode_quota(body)


def _whereabouts(place: str, name: str) -> tuple[Resource, str, str | None]:
    """Which object an account of a domain is: its kind, its own name, and its namespace if it is in one."""
    if domain.is_usage(place):
        return USAGE_ACCOUNTS, name, None
    if not domain.is_leaf(place):
        return KARMADA_QUOTAS, name, place
    namespace, _, own = name.rpartition("/")
    return (ELASTIC_QUOTAS, own, namespace) if namespace else (COMPOSITE_ELASTIC_QUOTAS, own, None)


def _status(account: Account, used: Resources) -> dict[str, Any]:
    """The status of an account of any kind."""
    if domain.is_usage(account.namespace):
        return usage.status(account, used)
    return leaf.status(account, used) if domain.is_leaf(account.namespace) else karmadaquota.status(account, used)


class QuotaStore:
    """The `accounting.store.Store` of the product."""

    def __init__(
        self,
        client: Client,
        observation: Observation,
        *,
        roster: Roster,
        presence_namespace: str,
        presence_selector: str,
        identity: Callable[[str, str], Identity | None] = lambda _tree, _node: None,  # of a node, as it is known here
        timeout_seconds: float = 3.0,  # well within the shortest review: a slow answer becomes «later», not an error
        expiry_seconds: float = EXPIRY_SECONDS,
    ) -> None:
        self._client = client
        self._expiry_seconds = expiry_seconds
        self._observation = observation
        self._roster = roster
        self._presence_namespace = presence_namespace
        self._presence_selector = presence_selector
        self._identity = identity
        self._timeout_seconds = timeout_seconds

    async def read(self, namespace: str, name: str) -> Account | None:
        """The quota as it is stored now."""
        resource, own, place = _whereabouts(namespace, name)
        with _translated():
            try:
                body = await self._client.get(resource, own, place, timeout_seconds=self._timeout_seconds)
            except error.NotFoundError:
                return None
            return _decode(namespace, body)

    async def open(self, subject: Subject) -> Account:
        """The account of a user or group, made where there is none."""
        with _translated():
            try:
                body = await self._client.create(
                    USAGE_ACCOUNTS, usage.manifest(subject), timeout_seconds=self._timeout_seconds
                )
            except error.AlreadyExistsError:
                body = await self._client.get(USAGE_ACCOUNTS, subject.account, timeout_seconds=self._timeout_seconds)
            return decode_usage(body)

    async def close(self, account: Account) -> None:
        """Delete the account of a user or group, if it is still as it was read."""
        with _translated():
            await self._client.delete(
                USAGE_ACCOUNTS,
                account.name,
                uid=account.uid,
                version=account.version,
                timeout_seconds=self._timeout_seconds,
            )

    async def is_stored(self, account: Account) -> bool:
        """Whether the quota has that very version now; its status, with all who wait, is not sent for it."""
        version = await self._stored_version(*_whereabouts(account.namespace, account.name))
        return version is not None and version == int(account.version)

    async def limits_stand(self, account: Account, names: Collection[str]) -> bool:
        """Whether the nodes whose limits these are have not been changed since they were seen."""
        tree, nodes = usage.kept(account).subject.tree, {split(name)[1] for name in names}
        return all(await asyncio.gather(*(self._says_the_same(tree, node) for node in sorted(nodes))))

    async def _says_the_same(self, tree: str, node: str) -> bool:
        """Whether a node of a tree is what this component knows of it."""
        resource, own, place = QUOTA_TREES, tree, None
        if node:
            resource, own, place = _whereabouts(domain.of_leaf(node), node)
        known = self._identity(tree, node)
        with _translated():
            try:
                body = await self._client.get(
                    resource, own, place, only_metadata=True, timeout_seconds=self._timeout_seconds
                )
            except error.NotFoundError:
                return known is None
            return known == identity(codec.decode_object(body))

    async def write(self, account: Account) -> Account:
        """Replace the quota's status, under the version that was judged."""
        used = Books(account, self._observation.view).used
        resource, own, place = _whereabouts(account.namespace, account.name)
        metadata = {"name": own, "uid": account.uid, "resourceVersion": account.version}
        body: dict[str, Any] = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {**metadata, "namespace": place} if place else metadata,
            "status": _status(account, used),
        }
        with _translated(), _counted():
            written = await self._client.replace(
                resource, own, body, place, subresource="status", timeout_seconds=self._timeout_seconds
            )
            metrics.status_writes.inc()
            return _decode(account.namespace, written)

    async def look(self, namespace: str, binding: str) -> LiveLook:
        """The version of a binding as it is stored now."""
        place, own = domain.binding_in(namespace, binding)
        return LiveLook(await self._stored_version(RESOURCE_BINDINGS, own, place))

    async def _stored_version(self, resource: Resource, name: str, namespace: str | None) -> int | None:
        """The version of an object as it is stored now; None where there is none."""
        with _translated():
            try:
                body = await self._client.get(
                    resource, name, namespace, only_metadata=True, timeout_seconds=self._timeout_seconds
                )
            except error.NotFoundError:
                return None
            return codec.decode_version(body)

    async def version(self) -> int:
        """The version that the store has reached: of a list that is read past all caches."""
        with _translated():
            pages = self._client.list(RESOURCE_BINDINGS, limit=1, timeout_seconds=self._timeout_seconds)
            async with contextlib.aclosing(pages):
                async for page in pages:
                    return page.version
        raise store.UnreachableError("a list without a page")

    async def versions(self, namespace: str, among: Collection[str] | None = None) -> dict[str, int]:
        """The bindings of a domain and their versions, as they are stored now."""
        places: set[str | None] = {namespace}
        if not domain.is_namespace(namespace):
            # Which bindings are under a leaf, or whose they are, is not in what lists can select by: all are read, of
            # wherever it matters.
            places = {None} if among is None else {domain.binding_in(namespace, name).namespace for name in among}
        found = await asyncio.gather(*(self._versions(place) for place in places))
        return {domain.name_in(namespace, key): version for one in found for key, version in one.items()}

    async def _versions(self, namespace: str | None) -> dict[ObjectKey, int]:
        """The same of one namespace, or of all."""
        found: dict[ObjectKey, int] = {}
        with _translated():
            pages = self._client.list(
                RESOURCE_BINDINGS, namespace, only_metadata=True, timeout_seconds=self._timeout_seconds
            )
            async with contextlib.aclosing(pages):
                async for page in pages:
                    found.update(codec.decode_key_and_version(bytes(item)) for item in page.items)
        return found

    async def replicas(self) -> dict[str, Legacy | None]:
        """Replicas that are there, or left so lately that what they admitted may still be on its way."""
        with _translated():
            await take_roll(
                self._client,
                self._presence_namespace,
                self._presence_selector,
                self._roster,
                timeout_seconds=self._timeout_seconds,
            )
        texts = self._roster.legacies()
        return {name: legacies.decode(texts.get(name, "")) for name in self._roster.unsettled(self._expiry_seconds)}


@contextlib.contextmanager
def _counted() -> Iterator[None]:
    """Writes that were overtaken."""
    try:
        yield
    except error.ConflictError:
        metrics.conflicts.inc()
        raise


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Errors of the API server in the words of accounting."""
    try:
        yield
    except (error.ConflictError, error.NotFoundError) as problem:
        raise store.ConflictError(str(problem)) from problem
    except (error.KubeError, karmadaquota.QuotaError, ElasticError, usage.UsageError, codec.CodecError) as problem:
        log.warning("store.failed", problem=str(problem))
        raise store.UnreachableError(str(problem)) from problem
