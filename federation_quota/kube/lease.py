"""Leases (coordination.k8s.io/v1): the object that says who holds something, and how observers may judge it.

Shared by leader election and presence. The times in a Lease are wall-clock times of whoever wrote it: they are for
people. Observers measure, with their own monotonic clock, how long a lease has not changed.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from federation_quota.kube.error import KubeError
from federation_quota.kube.resource import Resource

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


def elapsed() -> float:
    """Seconds that also pass while the machine is suspended, where the system can tell: leases go on meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Metadata(msgspec.Struct, frozen=True):
    """The part of the metadata that matters here."""

    name: str
    namespace: str = ""
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Spec(msgspec.Struct, frozen=True):
    """Who holds it, and since when; every field may be missing."""

    holder: str | None = msgspec.field(default=None, name="holderIdentity")
    duration_seconds: int | None = msgspec.field(default=None, name="leaseDurationSeconds")
    acquired: str | None = msgspec.field(default=None, name="acquireTime")
    renewed: str | None = msgspec.field(default=None, name="renewTime")
    transitions: int | None = msgspec.field(default=None, name="leaseTransitions")


class Lease(msgspec.Struct, frozen=True):
    """A Lease as it is stored."""

    metadata: Metadata
    spec: Spec = Spec()

    @property
    def version(self) -> int:
        """Its resourceVersion."""
        return int(self.metadata.version)


_LEASE = msgspec.json.Decoder(Lease)


class LeaseError(KubeError):
    """A Lease that cannot be read."""


def decode(body: bytes) -> Lease:
    """The Lease in an object's bytes; LeaseError where it is none."""
    try:
        return _LEASE.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise LeaseError(f"a Lease that cannot be read: {problem}") from problem


def manifest(
    name: str, spec: Mapping[str, Any], *, labels: Mapping[str, str] | None = None, version: str | None = None
) -> dict[str, Any]:
    """A Lease to create, or, with the version it must still have, a patch of one."""
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    if version:
        metadata["resourceVersion"] = version
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": dict(spec)}


def moment(now: datetime | None = None) -> str:
    """A time as Leases carry it (MicroTime)."""
    return (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
