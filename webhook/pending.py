"""Notes of what validators refused: remembered here, and written on the bindings that they are about.

A creation that was refused has no binding yet. It is remembered, and held when it is asked for again, with the note in
that same write (`holding`). Of what is stored the binding is given the note, once the refusal has been sent; where it
is refused again the note is written anew, with when to ask next.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from federation_quota import names, pending
from federation_quota.accounting.store import UnreachableError
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube.client import Client
from federation_quota.kube.error import KubeError, NotFoundError
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.quotas import RESOURCE_BINDINGS
from federation_quota.pending import Pending
from federation_quota.stamp import PENDING_ANNOTATION
from webhook.notes import Note, Notebook
from webhook.validation import Objection

# How long a refused creation is remembered: longer than Karmada waits before it tries again at first.
REMEMBERED_SECONDS: Final = 60.0
MOST_NOTES: Final = 10_000
_COALESCE_SECONDS: Final = 0.05
_WORKERS: Final = 4


@dataclass(slots=True, kw_only=True)
class _Note(Note):
    pending: Pending | None  # None: nobody objects any more

    def is_over(self, binding: Binding) -> bool:
        """Whether the binding has what was refused, or carries what is known of it."""
        if self.is_listed or binding.pending == self.pending:
            return True
        if self.pending is None:
            return False
        has_news = binding.pending is not None and binding.pending.at > self.pending.at
        return has_news or self.pending.is_over(binding.charge, binding.template.version)


class PendingList(Notebook[ObjectKey, _Note]):
    """What the validators of one replica refused lately, by binding: each has one note, on itself."""

    def __init__(
        self,
        mirror: BindingMirror,
        write: Callable[[ObjectKey, str | None], Awaitable[None]],  # the annotation of a binding
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__("pending", workers=_WORKERS, coalesce_seconds=_COALESCE_SECONDS)
        self._mirror = mirror
        self._annotate = write
        self._now = now

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
        note = self._noted(key)
        return note.pending if note is not None and not self._is_old(note) else None

    def _put(self, key: ObjectKey, found: Pending | None) -> None:
        self._notes.pop(key, None)  # the last refused is the last to be dropped
        self._notes[key] = {key.name: _Note(refused_at=asyncio.get_running_loop().time(), pending=found)}
        if len(self._notes) > MOST_NOTES:
            del self._notes[next(iter(self._notes))]
        self._queue.add(key)

    async def _write(self, key: ObjectKey) -> float | None:
        """Have a binding carry its note; when to look again, for as long as there is one."""
        note, binding = self._noted(key), self._mirror.bindings.get(key)
        if note is None:
            return None
        if binding is not None and not note.is_over(binding):
            again = await self._saved(key, self._annotated(key, note), pace_seconds=0)
            if not note.is_listed:
                return again
        if self._is_old(note) or note.pending is None:
            self._notes.pop(key, None)
            return None
        return REMEMBERED_SECONDS

    async def _annotated(self, key: ObjectKey, note: _Note) -> None:
        try:
            with contextlib.suppress(NotFoundError):
                await self._annotate(key, note.pending.encode() if note.pending is not None else None)
        except KubeError as problem:
            raise UnreachableError(str(problem)) from problem
        note.is_listed = True

    def _noted(self, key: ObjectKey) -> _Note | None:
        return self._notes.get(key, {}).get(key.name)

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
