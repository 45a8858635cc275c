"""Notes of what validators refused: remembered here, and written on the bindings that they are about.

A creation that was refused has no binding yet. It is remembered, and held when it is asked for again, with the note in
that same write (`holding`). Of what is stored the binding is given the note, once the refusal has been sent; where it
is refused again the note is written anew, with when to ask next.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn

from federation_quota import names, pending
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube.client import Client
from federation_quota.kube.error import KubeError, NotFoundError
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.quotas import RESOURCE_BINDINGS
from federation_quota.kube.workqueue import WorkQueue
from federation_quota.pending import Pending
from federation_quota.stamp import PENDING_ANNOTATION
from webhook.validation import Objection

# How long a refused creation is remembered: longer than Karmada waits before it tries again at first.
REMEMBERED_SECONDS: Final = 60.0
MOST_NOTES: Final = 10_000
COALESCE_SECONDS: Final = 0.05
_WORKERS: Final = 4


@dataclass(slots=True)
class _Note:
    pending: Pending | None  # None: nobody objects any more
    refused_at: float
    is_written: bool = False

    def is_over(self, binding: Binding) -> bool:
        """Whether the binding has what was refused, or carries what is known of it."""
        if self.is_written or self.pending is None or binding.pending == self.pending:
            return self.is_written or binding.pending == self.pending
        has_news = binding.pending is not None and binding.pending.at > self.pending.at
        return has_news or self.pending.is_over(binding.charge, binding.template.version)


class PendingList:
    """What the validators of one replica refused lately."""

    def __init__(
        self,
        mirror: BindingMirror,
        write: Callable[[ObjectKey, str | None], Awaitable[None]],  # the annotation of a binding
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._mirror = mirror
        self._write_annotation = write
        self._now = now
        self._notes: OrderedDict[ObjectKey, _Note] = OrderedDict()
        self._queue: WorkQueue[ObjectKey] = WorkQueue("pending", coalesce_seconds=COALESCE_SECONDS)

    def note(self, new: Binding, objection: Objection) -> None:
        """A validator refused what a binding asks for."""
        at = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        known = self.find(new.key) or new.pending
        self._put(
            new.key,
            Pending(
                validator=objection.validator,
                message=objection.decision.message,
                at=at,
                since=known.since if known is not None else at,
                retry_seconds=pending.retry_seconds(objection.decision.retry_after_seconds),
                charge=new.charge,
                template_version=new.template.version,
            ),
        )

    def clear(self, binding: Binding) -> None:
        """No validator objects any more to what a binding asks for: if it still waits, it waits for a quota."""
        if binding.pending is not None or self.find(binding.key) is not None:
            self._put(binding.key, None)

    def find(self, key: ObjectKey) -> Pending | None:
        """What was refused lately of a binding."""
        note = self._notes.get(key)
        return note.pending if note is not None and not self._is_old(note) else None

    def _put(self, key: ObjectKey, found: Pending | None) -> None:
        self._notes[key] = _Note(found, asyncio.get_running_loop().time())
        self._notes.move_to_end(key)
        if len(self._notes) > MOST_NOTES:
            self._notes.popitem(last=False)
        self._queue.add(key)

    async def run(self) -> NoReturn:
        """Write what is noted, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WORKERS):
                tasks.create_task(self._queue.serve(self._write))
        raise AssertionError("workers serve until they are cancelled")

    async def drain(self, timeout_seconds: float) -> None:
        """Write what is still only noted, as far as that is possible in that time: before the replica ends."""
        with contextlib.suppress(TimeoutError, KubeError):
            async with asyncio.timeout(timeout_seconds):
                await asyncio.gather(*(self._write(key) for key in list(self._notes)))

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        return {"notes": len(self._notes), "queue": self._queue.describe()}

    async def _write(self, key: ObjectKey) -> float | None:
        """Have a binding carry its note; when to look again, for as long as there is one."""
        note, binding = self._notes.get(key), self._mirror.bindings.get(key)
        if note is None:
            return None
        if binding is not None and not note.is_over(binding):
            with contextlib.suppress(NotFoundError):
                await self._write_annotation(key, note.pending.encode() if note.pending is not None else None)
            note.is_written = True
        if self._is_old(note) or note.pending is None:
            self._notes.pop(key, None)
            return None
        return REMEMBERED_SECONDS

    def _is_old(self, note: _Note) -> bool:
        return asyncio.get_running_loop().time() - note.refused_at > REMEMBERED_SECONDS


def writer(client: Client) -> Callable[[ObjectKey, str | None], Awaitable[None]]:
    """Who writes notes on bindings."""

    async def write(key: ObjectKey, text: str | None) -> None:
        body = {"metadata": {"annotations": {PENDING_ANNOTATION: text}}}
        await client.patch(
            RESOURCE_BINDINGS,
            key.name,
            body,
            key.namespace,
            field_manager=names.FIELD_MANAGER,
            is_idempotent=True,
            timeout_seconds=3.0,
        )

    return write
