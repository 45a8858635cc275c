"""The list of changes under way (`elastic.underway`) in the store: an annotation of a Lease that all replicas watch.

A Lease because that is what replicas have in common, and write, already; nobody holds this one. It is written under its
version. How long a change has been on it is told by one's own clock: since it was first seen here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from federation_quota.elastic import underway
from federation_quota.elastic.underway import LONGEST, WRITE_SECONDS, Underway
from federation_quota.kube import error, lease
from federation_quota.kube.client import Client
from federation_quota.kube.lease import LEASES
from federation_quota.kube.reflector import Reflector
from federation_quota.names import CHANGES_LEASE, PARTS

CHANGES_ANNOTATION: Final = "quota.karmada.io/changes"
"""On the Lease federation-quota-changes: changes of elastic quotas and trees that were let through a moment ago."""


class FullError(Exception):
    """More is under way than the object can hold."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The list as one version of its object has it."""

    version: int
    found: Underway


class SharedUnderway:
    """The list as this replica knows it, and how to change it for all."""

    def __init__(self, client: Client, namespace: str, *, clock: Callable[[], float] = lease.elapsed) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._kept = _Kept(0, Underway())  # 0: there is no such object
        self._first_seen: dict[str, float] = {}
        self.reflector: Reflector[_Kept] = Reflector(
            client,
            LEASES,
            decode=_decode,
            sink=self,
            namespace=namespace,
            field_selector=f"metadata.name={CHANGES_LEASE}",
        )

    @property
    def current(self) -> Underway:
        """The list."""
        return self._kept.found

    def expired(self) -> set[str]:
        """Those whose write cannot be on its way any more."""
        now = self._clock()
        return {name for name, since in self._first_seen.items() if now - since >= WRITE_SECONDS}

    async def write(self, new: Underway, timeout_seconds: float) -> bool:
        """Store the list in place of the one that is known here; False where somebody was faster.

        FullError where it is too long; KubeError where nobody knows whether it was stored.
        """
        text = new.write()
        if len(text) > LONGEST:
            raise FullError(f"{len(new.changes)} changes of quotas are under way")
        annotations = {CHANGES_ANNOTATION: text}
        try:
            if self._kept.version:
                metadata = {"resourceVersion": str(self._kept.version), "annotations": annotations}
                body = await self._client.patch(
                    LEASES, CHANGES_LEASE, {"metadata": metadata}, self._namespace, timeout_seconds=timeout_seconds
                )
            else:
                made = lease.manifest(CHANGES_LEASE, {}, labels=PARTS)
                made["metadata"]["annotations"] = annotations
                body = await self._client.create(LEASES, made, self._namespace, timeout_seconds=timeout_seconds)
        except (error.ConflictError, error.AlreadyExistsError, error.NotFoundError):
            await self.reflector.refresh(timeout_seconds)
            return False
        self.upsert(_decode(body))
        return True

    def replace(self, items: Sequence[_Kept], version: int) -> None:
        """It was read anew: as the sink of the reflector."""
        self._take(items[0] if items else _Kept(0, Underway()))

    def upsert(self, item: _Kept) -> None:
        """It was stored; what was written here may be newer than what the watch brings."""
        if item.version > self._kept.version:
            self._take(item)

    def delete(self, item: _Kept) -> None:
        """Somebody deleted it: whoever is next makes it anew."""
        if item.version > self._kept.version:
            self._take(_Kept(0, Underway()))

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""

    def _take(self, kept: _Kept) -> None:
        now = self._clock()
        self._kept = kept
        self._first_seen = {one.id: self._first_seen.get(one.id, now) for one in kept.found.changes}


def _decode(body: bytes) -> _Kept:
    found = lease.decode(body)
    return _Kept(found.version, underway.read(found.metadata.annotations.get(CHANGES_ANNOTATION, "")))
