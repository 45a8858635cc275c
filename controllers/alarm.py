"""The ways to have Karmada try something again that was refused. Who is woken, and when, is `waking`'s."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

import msgspec
import structlog

from federation_quota import names
from federation_quota.binding import Binding
from federation_quota.kube import codec, error
from federation_quota.kube.client import Client
from federation_quota.kube.correlation import Reference
from federation_quota.kube.discovery import Discovery, UnknownResourceError
from federation_quota.kube.quotas import RESOURCE_BINDINGS
from federation_quota.waiting import WOKEN_ANNOTATION, Waiter

log = structlog.get_logger()

TIMEOUT_SECONDS: Final = 3.0


class Outcome(Enum):
    """What became of an attempt."""

    DONE = "done"
    """Karmada has something to do now."""
    GONE = "gone"
    """There is nothing left to be woken."""
    CHANGED = "changed"
    """It is not what it was a moment ago: to be looked at again."""
    FAILED = "failed"
    """It could not be done; later perhaps."""


class Alarm:
    """Wakes by patching what Karmada watches."""

    def __init__(self, client: Client, discovery: Discovery) -> None:
        self._client = client
        self._discovery = discovery

    async def ring_template(self, namespace: str, waiter: Waiter, now: datetime) -> tuple[Outcome, Reference | None]:
        """Have the detector bring the binding in line with its template, and the template as it is, for Events."""
        about = Reference(waiter.api_version, waiter.kind, waiter.name, namespace)
        body = {"metadata": {"annotations": {WOKEN_ANNOTATION: now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}}
        try:
            resource = await self._discovery.of_object(waiter.api_version, waiter.kind)
            stored = await self._client.patch(
                resource,
                waiter.name,
                body,
                namespace if resource.namespaced else None,
                field_manager=names.FIELD_MANAGER,
                is_idempotent=True,
                timeout_seconds=TIMEOUT_SECONDS,
            )
        except (error.NotFoundError, UnknownResourceError):
            return Outcome.GONE, None
        except error.KubeError as problem:
            log.warning("alarm.failed", template=about, problem=str(problem))
            return Outcome.FAILED, None
        uid = _STORED.decode(stored).metadata.uid
        return Outcome.DONE, Reference(waiter.api_version, waiter.kind, waiter.name, namespace, uid)

    async def ring_scheduler(self, binding: Binding, now: datetime, last: str) -> tuple[Outcome, str]:
        """Have the scheduler try a binding without clusters again, and the time that this was written as.

        Under the version that was looked at: on one that has clusters by now it would shuffle them. `last` is what was
        written before: the same again would change nothing, and wake nobody. Never a time to come: the scheduler would
        take it for another wish once this one is fulfilled.
        """
        moment = _seconds(now)
        if moment == last:
            moment = _seconds(now - timedelta(seconds=1))
        body = {"metadata": {"resourceVersion": str(binding.version)}, "spec": {"rescheduleTriggeredAt": moment}}
        outcome = await patch_binding(self._client, binding, body)
        return outcome, moment if outcome is Outcome.DONE else last

    async def has_template(self, namespace: str, waiter: Waiter) -> bool:
        """Whether the template is there; where that cannot be told, it is taken to be."""
        try:
            resource = await self._discovery.of_object(waiter.api_version, waiter.kind)
            place = namespace if resource.namespaced else None
            await self._client.get(resource, waiter.name, place, timeout_seconds=TIMEOUT_SECONDS)
        except (error.NotFoundError, UnknownResourceError):
            return False
        except error.KubeError as problem:
            log.debug("alarm.template_not_read", name=waiter.name, namespace=namespace, problem=str(problem))
        return True


async def patch_binding(client: Client, binding: Binding, body: Mapping[str, object]) -> Outcome:
    """Merge that into a binding."""
    outcome, _ = await patched(client, binding, body)
    return outcome


async def patched(client: Client, binding: Binding, body: Mapping[str, object]) -> tuple[Outcome, int]:
    """Merge that into a binding; and the version in which it was stored, where it was."""
    try:
        stored = await client.patch(
            RESOURCE_BINDINGS,
            binding.key.name,
            body,
            binding.key.namespace,
            field_manager=names.FIELD_MANAGER,
            timeout_seconds=TIMEOUT_SECONDS,
        )
    except error.NotFoundError:
        return Outcome.GONE, 0
    except error.ConflictError:
        return Outcome.CHANGED, 0
    except error.KubeError as problem:
        log.info("binding.not_patched", binding=str(binding.key), problem=str(problem))
        return Outcome.FAILED, 0
    return Outcome.DONE, codec.decode_version(stored)


def _seconds(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class _Metadata(msgspec.Struct):
    uid: str


class _Stored(msgspec.Struct):
    metadata: _Metadata


_STORED = msgspec.json.Decoder(_Stored)
