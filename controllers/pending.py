"""What validators refused: when each may be tried again, and word of it for people.

A note on a binding says what was refused (`federation_quota.pending`). It is tried again when its tenant uses less than
when the note was last seen to change, in whichever of the tenant's namespaces; and at the latest after the time that
the note names, by this process's own clock. Trying is `waking`'s, or its tree's where it waits in one: they ask here
whose time has come. Whoever is refused again has another note, and waits anew.

People see the note as a condition of the binding and, once, in Events.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

import structlog

from controllers.alarm import patch_binding
from controllers.reporting import Reporting
from federation_quota import condition, names
from federation_quota.binding import Binding, ObjectKey
from federation_quota.condition import Finding
from federation_quota.kube import codec
from federation_quota.kube.client import Client
from federation_quota.kube.error import ConflictError, NotFoundError
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.quotas import RESOURCE_BINDINGS
from federation_quota.kube.workqueue import WorkQueue
from federation_quota.pending import CONDITION, Pending
from federation_quota.stamp import PENDING_ANNOTATION

log = structlog.get_logger()

REFUSED: Final = "ValidatorRefused"
# What the webhook remembers of a refused creation: until it comes again and is held, whatever was freed since counts.
UNDER_WAY_SECONDS: Final = 60.0
COALESCE_SECONDS: Final = 0.05
# The safety net, for what was to be tried and was not.
PATROL_SECONDS: Final = 30.0
MOST_FALLS: Final = 1000
TIMEOUT_SECONDS: Final = 3.0
_WORKERS: Final = 2


@dataclass(slots=True)
class _Note:
    pending: Pending
    seen_at: float  # what was freed after that is a reason to try it
    due_at: float


class PendingController:
    """All notes. Told of every change of a binding; `run` for as long as this leads."""

    def __init__(
        self,
        mirror: BindingMirror,
        reporting: Reporting,
        *,
        tenant_of: Callable[[str], str],  # of a namespace
        on_due: Callable[[Binding], None],  # this one may be tried now
    ) -> None:
        self._mirror = mirror
        self._reporting = reporting
        self._tenant_of = tenant_of
        self._on_due = on_due
        self._notes: dict[ObjectKey, _Note] = {}
        self._fell_at: dict[str, float] = {}  # by tenant
        self._queue: WorkQueue[ObjectKey] = WorkQueue("pending", coalesce_seconds=COALESCE_SECONDS)

    def __len__(self) -> int:
        return len(self._notes)

    def busy_seconds(self) -> float:
        """How long the longest work that is under way has taken so far."""
        return self._queue.busy_seconds()

    def describe(self) -> dict[str, object]:
        """How the queue stands, for people."""
        return self._queue.describe()

    def binding_changed(self, before: Binding | None, after: Binding | None) -> None:
        """A binding as the watch saw it."""
        binding = after or before
        if binding is None:
            return
        now, key = asyncio.get_running_loop().time(), binding.key
        has = after.pending if after else None
        if before is not None and _falls(before, after):
            self._fell(self._tenant_of(key.namespace), now)
        known = self._notes.get(key)
        if has is None:
            self._notes.pop(key, None)
        elif known is None or known.pending != has:
            seen_at = now - UNDER_WAY_SECONDS if known is None else now
            self._notes[key] = _Note(has, seen_at, now + has.retry_seconds)
        if after is not None and (has is not None or after.said_pending):
            self._queue.add(key)

    def rests_until(self, binding: Binding) -> float:
        """When it may be tried, on the event loop's clock; 0 for now, and for what has no note."""
        note = self._notes.get(binding.key)
        if note is None or self._fell_at.get(self._tenant_of(binding.key.namespace), note.seen_at) > note.seen_at:
            return 0.0
        # Of what is held, its owner may want something else by now, or no more than it has.
        is_other = binding.is_held and binding.demand.maximum(binding.assigned) != note.pending.charge
        return 0.0 if is_other else note.due_at

    def tried(self, binding: Binding) -> None:
        """It was tried just now: what was freed before that has been taken into account."""
        note = self._notes.get(binding.key)
        if note is not None:
            note.seen_at = asyncio.get_running_loop().time()
            note.due_at = max(note.due_at, note.seen_at + note.pending.retry_seconds)

    async def run(self, client: Client) -> NoReturn:
        """Look after the notes, until cancelled; the views are complete."""
        for key in self._notes:
            self._queue.add(key)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WORKERS):
                tasks.create_task(self._queue.serve(lambda key: self._look_after(key, client)))
        raise AssertionError("workers serve until they are cancelled")

    def _fell(self, tenant: str, now: float) -> None:
        """Something of a tenant's is free."""
        self._fell_at[tenant] = now
        if len(self._fell_at) > MOST_FALLS:
            # Only for notes that are on their way, or there.
            recent = now - UNDER_WAY_SECONDS
            noted = {self._tenant_of(key.namespace) for key in self._notes}
            self._fell_at = {one: at for one, at in self._fell_at.items() if at > recent or one in noted}
        for key in self._notes:
            if self._tenant_of(key.namespace) == tenant:
                self._queue.add(key)

    async def _look_after(self, key: ObjectKey, client: Client) -> float | None:
        """Tell people of a note, take it off what no longer waits, and say so when its time has come."""
        binding = self._mirror.bindings.get(key)
        if binding is None:
            return None
        note = binding.pending
        if note is not None and not binding.is_held and note.is_over(binding.charge, binding.template.version):
            await patch_binding(client, binding, {"metadata": {"annotations": {PENDING_ANNOTATION: None}}})
            return None
        if binding.said_pending != (note.said if note is not None else ""):
            await self._tell(binding, client)
        if note is None:
            return None
        left = self.rests_until(binding) - asyncio.get_running_loop().time()
        if left <= 0:
            self._on_due(binding)
            return PATROL_SECONDS
        return left

    async def _tell(self, binding: Binding, client: Client) -> None:
        """Have the binding's status say what its note says. Where Karmada writes meanwhile, it is looked at again."""
        key, note = binding.key, binding.pending
        with contextlib.suppress(ConflictError, NotFoundError):
            body = await client.get(RESOURCE_BINDINGS, key.name, key.namespace, timeout_seconds=TIMEOUT_SECONDS)
            stored = codec.decode_object(body)
            conditions = condition.merge(
                (stored.get("status") or {}).get("conditions") or [],
                [Finding(CONDITION, True, REFUSED, note.said)] if note is not None else [],
                of=[CONDITION],
                now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                generation=stored["metadata"].get("generation") or 0,
            )
            change = {
                "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
                "status": {"conditions": conditions},
            }
            await client.patch(
                RESOURCE_BINDINGS,
                key.name,
                change,
                key.namespace,
                subresource="status",
                field_manager=names.FIELD_MANAGER,
                timeout_seconds=TIMEOUT_SECONDS,
            )
            if note is not None:
                self._reporting.pending(binding, note)


def _falls(before: Binding, after: Binding | None) -> bool:
    if after is None or after.uid != before.uid:
        return bool(before.charge)
    now = after.charge
    return now is not before.charge and any(now[name] < amount for name, amount in before.charge.items())
