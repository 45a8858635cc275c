"""Being there: the Lease by which one replica shows that it is alive, and what it may not do once that lapses.

Every incarnation has a Lease of its own, created before the replica does anything that others must know of. While
`is_current` holds, no roster anywhere can take the replica for gone; where it does not, the replica must not act.
Whoever lapsed (an API server out of reach for longer than the lease) comes back as a new incarnation, and makes its
views current first, exactly as one that has just started: meanwhile others may have gone on without it.

Nobody deletes their own Lease. It stays when the replica exits, so that writes which it set off and which are still
under way are remembered; `sweep` clears such Leases away when they can no longer matter.
"""

import asyncio
import contextlib
import random
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import structlog

from federation_quota.kube import lease
from federation_quota.kube.backoff import Backoff
from federation_quota.kube.client import Client
from federation_quota.kube.error import ConflictError, KubeError, NotFoundError
from federation_quota.kube.lease import LEASES
from federation_quota.kube.roster import LEFT_ANNOTATION, LEGACY_ANNOTATION, MEMORY_SECONDS, Roster

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Timing:
    """How often a replica shows itself, and how long others wait for it."""

    lease_seconds: int = 10
    renew_seconds: float = 2.0
    attempt_seconds: float = 3.0
    caution_seconds: float = 2.0  # the replica stops that long before others may take it for gone

    def __post_init__(self) -> None:
        if not 0 < self.renew_seconds < self.lease_seconds - self.caution_seconds:
            raise ValueError("presence needs 0 < renew < lease - caution")


async def _nothing(incarnation: str) -> None:
    """What a replica without views does before it acts."""


class Presence:
    """One replica's own."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        prefix: str,  # of the Lease's name, for people
        labels: Mapping[str, str],  # by which rosters find it
        prepare: Callable[[str], Coroutine[Any, Any, None]] = _nothing,  # make the views current; may take its time
        legacy: Callable[[], str] = str,  # what to leave for those who come later; asked when all is over
        timing: Timing = Timing(),  # noqa: B008 - frozen
        backoff: Backoff = Backoff(first_seconds=0.2, most_seconds=2.0),  # noqa: B008 - frozen
        clock: Callable[[], float] = lease.elapsed,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        new_incarnation: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._prefix = prefix
        self._labels = labels
        self._prepare = prepare
        self._legacy = legacy
        self._timing = timing
        self._backoff = backoff
        self._clock = clock
        self._sleep = sleep
        self._new_incarnation = new_incarnation
        self._sent: float | None = None  # when the last renewal that succeeded was sent
        self._is_prepared = False
        self.incarnation = ""
        self.current = asyncio.Event()  # set when an incarnation is prepared; `is_current` is what counts

    @property
    def name(self) -> str:
        """Of the Lease."""
        return f"{self._prefix}-{self.incarnation}"

    def is_current(self) -> bool:
        """Whether this replica may act: it is prepared, and everybody knows that it is there."""
        if not self._is_prepared or self._sent is None:
            return False
        return self._clock() < self._sent + self._timing.lease_seconds - self._timing.caution_seconds

    async def run(self) -> NoReturn:
        """Be present until cancelled. Cancel it last: after the replica's last answer has been given."""
        try:
            while True:
                await self._enter()
                async with asyncio.TaskGroup() as group:
                    preparing = group.create_task(self._make_current())
                    reason = await self._keep()
                    preparing.cancel()
                self._lapse(reason)
        except BaseExceptionGroup as problems:
            if len(problems.exceptions) == 1:
                raise problems.exceptions[0] from None  # the preparation's own
            raise
        finally:
            self._is_prepared = False
            self.current.clear()
            await self._leave()

    async def _make_current(self) -> None:
        await self._prepare(self.incarnation)
        self._is_prepared = True
        self.current.set()
        log.info("presence.current", incarnation=self.incarnation)

    async def _enter(self) -> None:
        """A new incarnation, and its Lease."""
        failures = 0
        while True:
            self.incarnation = self._new_incarnation()
            now = lease.moment()
            spec = {
                "holderIdentity": self.incarnation,
                "leaseDurationSeconds": self._timing.lease_seconds,
                "acquireTime": now,
                "renewTime": now,
            }
            manifest = lease.manifest(self.name, spec, labels=self._labels)
            sent = self._clock()
            try:
                seconds = self._timing.attempt_seconds
                await self._client.create(LEASES, manifest, self._namespace, timeout_seconds=seconds)
            except KubeError as problem:
                # It may have been stored all the same: that incarnation never acts, and its Lease runs out.
                failures += 1
                delay = self._backoff.delay(failures, random.random)
                log.warning("presence.entering", delay_seconds=round(delay, 3), error=str(problem))
                await self._sleep(delay)
            else:
                self._sent = sent
                return

    async def _keep(self) -> str:
        """Renew until it is too late; why it was."""
        while True:
            await self._sleep(self._timing.renew_seconds)
            sent = self._clock()
            try:
                await self._patch({"spec": {"renewTime": lease.moment()}})
            except NotFoundError:
                return "the Lease was deleted"
            except KubeError as problem:
                log.warning("presence.renewal_failed", incarnation=self.incarnation, error=str(problem))
                sent = -1.0
            # Stored before the old one ran out? Only then did nobody have reason to take us for gone.
            if self._sent is None or self._clock() >= self._sent + self._timing.lease_seconds:
                return "it was not renewed in time"
            if sent >= 0:
                self._sent = sent

    def _lapse(self, reason: str) -> None:
        log.error("presence.lapsed", incarnation=self.incarnation, reason=reason)
        self._is_prepared = False
        self.current.clear()
        self._sent = None

    async def _leave(self) -> None:
        """Say that nothing new will come from here; best effort, the Lease runs out anyway."""
        if self._sent is None:
            return
        with contextlib.suppress(KubeError):
            annotations = {LEFT_ANNOTATION: lease.moment(), LEGACY_ANNOTATION: self._legacy()}
            await self._patch({"metadata": {"annotations": annotations}})
        self._sent = None

    async def _patch(self, body: Mapping[str, Any]) -> None:
        seconds = self._timing.attempt_seconds
        await self._client.patch(LEASES, self.name, body, self._namespace, is_idempotent=True, timeout_seconds=seconds)


async def take_roll(
    client: Client, namespace: str, label_selector: str, roster: Roster, *, timeout_seconds: float = 5.0
) -> None:
    """Bring a roster up to date from the store itself: after this, silence up to now is known to be silence."""
    as_of, seen = roster.clock(), roster.version
    leases: list[lease.Lease] = []
    version = 0
    pages = client.list(LEASES, namespace, label_selector=label_selector, timeout_seconds=timeout_seconds)
    async with contextlib.aclosing(pages):
        async for page in pages:
            version = page.version
            leases += [lease.decode(bytes(raw)) for raw in page.items]
    if version < seen:  # asked for after `seen` was heard of, and yet older: the store was restored
        log.error("presence.rewound", seen=seen, version=version)
        roster.rewind()
    roster.confirm(leases, version, as_of)


async def sweep(client: Client, namespace: str, roster: Roster, *, gone_seconds: float = MEMORY_SECONDS) -> int:
    """Delete the Leases of replicas that have been gone that long, unchanged; how many. For one process: the leader."""
    swept = 0
    for stale in roster.forgettable(gone_seconds):
        uid, version = stale.metadata.uid, stale.metadata.version
        with contextlib.suppress(NotFoundError, ConflictError):  # gone, or alive after all
            await client.delete(LEASES, stale.metadata.name, namespace, uid=uid, version=version)
            swept += 1
    return swept
