"""Leader election on a Lease: one of several candidates works, and never two at once.

The work is a coroutine that runs while this candidate leads. It is cancelled, and waited for, before anybody else may
take over: others wait until the lease has not changed for `lease_seconds` by their own clock, and the holder stops its
work when its last renewal that is known to have succeeded was *sent* `renew_deadline_seconds` ago. An API server that
hangs therefore costs the leadership, never its uniqueness. A process that was frozen (SIGSTOP, a suspended machine)
cannot stop its work in time: before an act that must be the leader's, the work asks `Leadership.check` (as permission
of its clients: `Client.permitted`), and `token` (it rises with every term) lets others refuse a leader of the past.
What was asked and frozen before it was sent is left: writes under a version are harmless even then.

With the defaults a leader that dies is replaced within lease + retry = 8.5 s plus two requests; one that exits, within
retry = 0.5 s; and answers that take three seconds cost nobody the leadership. Give the elector a `Client` of its own:
behind a flood of other requests it would be late.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from federation_quota.kube import lease
from federation_quota.kube.client import Client
from federation_quota.kube.error import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from federation_quota.kube.lease import LEASES, Lease

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient everybody is. All candidates should agree on it."""

    lease_seconds: int = 8  # unchanged that long, it may be taken; Leases count in whole seconds
    renew_deadline_seconds: float = 6.5  # the rest, up to the lease, is what the work has for stopping
    retry_seconds: float = 0.5
    attempt_seconds: float = 3.0  # one request's: a single lost answer must leave time for another

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds < self.renew_deadline_seconds < self.lease_seconds:
            raise ValueError("leader election needs 0 < retry < renew deadline < lease")


class LeadershipLostError(KubeError):
    """Whoever asks is not, or no longer surely, the leader: what it wanted to send was not sent."""


class Leadership:
    """One term. What the work is given, and what it may ask."""

    def __init__(self, token: int, sent: float, timing: Timing, clock: Callable[[], float]) -> None:
        self.token = token  # greater than in any earlier term of this Lease
        self._timing = timing
        self._clock = clock
        self._sent = sent
        self._is_over = False

    def remaining_seconds(self) -> float:
        """How long it surely lasts if no renewal succeeds any more."""
        if self._is_over:
            return 0.0
        return max(0.0, self._sent + self._timing.renew_deadline_seconds - self._clock())

    def is_valid(self) -> bool:
        """Whether this is surely the leader."""
        return self.remaining_seconds() > 0

    def check(self) -> None:
        """Raise LeadershipLostError unless this is surely the leader."""
        if not self.is_valid():
            raise LeadershipLostError(f"term {self.token} is over")

    def renewed(self, sent: float) -> None:
        """A renewal that was sent then has succeeded."""
        self._sent = sent

    def end(self) -> None:
        """Nothing more may be done in it."""
        self._is_over = True

    def exclusive_seconds(self) -> float:
        """How long nobody else can lead: what the work has for stopping."""
        return max(0.0, self._sent + self._timing.lease_seconds - self._clock())


Work = Callable[[Leadership], Coroutine[Any, Any, None]]


class _LostError(Exception):
    """Somebody else holds the Lease, or it is gone."""


class Elector:
    """One candidate. `identity` must be of this process alone: a restarted one needs another."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        identity: str,
        timing: Timing = Timing(),  # noqa: B008 - frozen
        clock: Callable[[], float] = lease.elapsed,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_overstay: Callable[[], None] | None = None,  # the work does not stop; ending the process is what helps
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._clock = clock
        self._sleep = sleep
        self._on_overstay = on_overstay
        self._log = log.bind(lease=f"{namespace}/{name}", identity=identity)
        self._seen: Lease | None = None
        self._changed_at = 0.0
        self._version: str | None = None  # of our own Lease; None: in doubt
        self.identity = identity
        self.leadership: Leadership | None = None  # while leading

    @property
    def leader(self) -> str | None:
        """Who held the Lease when it was last looked at."""
        return (self._seen.spec.holder or None) if self._seen else None

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        leadership = self.leadership
        return {
            "identity": self.identity,
            "leader": self.leader,
            "leads": leadership is not None and leadership.is_valid(),
            "token": leadership.token if leadership else None,
            "remaining_seconds": round(leadership.remaining_seconds(), 3) if leadership else None,
        }

    async def run(self, work: Work) -> None:
        """Stand for election, and lead as often as elected, until the work returns or fails, or this is cancelled."""
        while True:
            leadership = await self._campaign()
            if await self._lead(leadership, work):
                return

    async def _campaign(self) -> Leadership:
        failing = False
        while True:
            try:
                leadership = await self._stand()
                if leadership:
                    return leadership
                failing = False
            except KubeError as problem:
                if not failing:
                    self._log.warning("elector.unreachable", error=str(problem))
                failing = True
            await self._sleep(self._pause_seconds())

    async def _stand(self) -> Leadership | None:
        """Look, and take the Lease if it is free."""
        try:
            self._observe(await self._read())
        except NotFoundError:
            if self._seen and not self._is_free():
                return None  # deleted under a holder who may not have noticed yet: its time must run out all the same
            return await self._take(None)
        return await self._take(self._seen) if self._is_free() else None

    async def _take(self, stored: Lease | None) -> Leadership | None:
        last = (self._seen.spec.transitions or 0) if self._seen else 0
        now = lease.moment()
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.lease_seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": last + 1,
        }
        sent = self._clock()
        try:
            if stored is None:
                manifest = lease.manifest(self._name, spec)
                seconds = self._timing.attempt_seconds
                body = await self._client.create(LEASES, manifest, self._namespace, timeout_seconds=seconds)
            else:
                body = await self._patch(spec, stored.metadata.version)
        except (ConflictError, AlreadyExistsError, NotFoundError):
            return None  # somebody was faster
        self._adopt(lease.decode(body))
        return Leadership(last + 1, sent, self._timing, self._clock)

    async def _lead(self, leadership: Leadership, work: Work) -> bool:
        """One term; whether it ended because the work did."""
        self._log.info("elector.leading", token=leadership.token)
        self.leadership = leadership
        task = asyncio.create_task(work(leadership), name=f"led:{self._name}")
        keeper = asyncio.create_task(self._keep(leadership), name=f"renew:{self._name}")
        try:
            await asyncio.wait({task, keeper}, return_when=asyncio.FIRST_COMPLETED)
            # What fails once the term is over fails because it is over: the next one begins anew.
            is_done = task.done() and leadership.is_valid()
            if keeper.done():
                leadership.end()
                self._log.error("elector.lost", token=leadership.token, leader=self.leader)
        finally:
            # Whatever the reason, renewing goes on until the work has stopped.
            interrupted = await self._stop(task, leadership)
            keeper.cancel()
            await asyncio.wait({keeper})
            await self._release(leadership)
            leadership.end()
            self.leadership = None
            if not task.cancelled() and (problem := task.exception()):
                self._log.error("elector.work_failed", token=leadership.token, error=repr(problem))
            if interrupted:
                raise asyncio.CancelledError
        if not keeper.cancelled() and (problem := keeper.exception()):
            raise problem
        if is_done and not task.cancelled():
            task.result()  # it failed by itself: that is the caller's to know
        return is_done

    async def _stop(self, task: asyncio.Task[None], leadership: Leadership) -> bool:
        """Cancel the work and wait until it is over, however often we are cancelled meanwhile: whether we were."""
        interrupted = warned = False
        if not task.done():
            task.cancel()
        while not task.done():
            seconds = leadership.exclusive_seconds()
            try:
                await asyncio.wait({task}, timeout=max(seconds, 0.1))
            except asyncio.CancelledError:
                interrupted = True
            if not task.done() and not leadership.exclusive_seconds() and not warned:
                warned = True
                self._log.critical("elector.overstayed", token=leadership.token)
                if self._on_overstay:
                    self._on_overstay()
        return interrupted

    async def _keep(self, leadership: Leadership) -> None:
        """Renew for as long as that succeeds in time."""
        while True:
            await self._sleep(self._timing.retry_seconds)
            try:
                async with asyncio.timeout(leadership.remaining_seconds()):
                    while not await self._renew(leadership):
                        await self._sleep(self._timing.retry_seconds / 5)
            except (TimeoutError, _LostError):
                return

    async def _renew(self, leadership: Leadership) -> bool:
        """One attempt; False where it failed in a way that leaves hope."""
        try:
            version, self._version = await self._own_version(leadership), None
            sent = self._clock()
            self._adopt(lease.decode(await self._patch({"renewTime": lease.moment()}, version)))
        except NotFoundError:
            raise _LostError from None
        except KubeError as problem:
            self._log.warning("elector.renewal_failed", token=leadership.token, error=str(problem))
            return False
        leadership.renewed(sent)
        return True

    async def _own_version(self, leadership: Leadership) -> str:
        """The version that our Lease has; _LostError where it is not ours any more."""
        if self._version is not None:
            return self._version
        # A renewal is in doubt: it may have been stored. Or somebody else was.
        found = await self._read()
        self._observe(found)
        if (found.spec.holder, found.spec.transitions) != (self.identity, leadership.token):
            raise _LostError
        return found.metadata.version

    async def _release(self, leadership: Leadership) -> None:
        """Let the next one in at once. Best effort: the lease runs out anyway."""
        if not leadership.is_valid():
            return
        try:
            version = await self._own_version(leadership)
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": lease.moment()}
            self._observe(lease.decode(await self._patch(spec, version)))
            self._log.info("elector.released", token=leadership.token)
        except (KubeError, _LostError) as problem:
            self._log.warning("elector.release_failed", token=leadership.token, error=str(problem))

    async def _read(self) -> Lease:
        seconds = self._timing.attempt_seconds
        return lease.decode(await self._client.get(LEASES, self._name, self._namespace, timeout_seconds=seconds))

    async def _patch(self, spec: dict[str, Any], version: str) -> bytes:
        body = lease.manifest(self._name, spec, version=version)
        seconds = self._timing.attempt_seconds
        return await self._client.patch(LEASES, self._name, body, self._namespace, timeout_seconds=seconds)

    def _adopt(self, stored: Lease) -> None:
        self._observe(stored)
        self._version = stored.metadata.version

    def _observe(self, found: Lease) -> None:
        """Remember it, and when it last changed. Labels may change without a sign of life."""
        if self._seen is None or self._seen.spec != found.spec:
            if self._seen and self._seen.spec.holder != found.spec.holder:
                self._log.info("elector.leader_changed", leader=found.spec.holder)
            self._changed_at = self._clock()
        self._seen = found

    def _is_free(self) -> bool:
        """Nobody's, our own from before (our work has stopped), or silent for too long."""
        spec = self._seen.spec if self._seen else lease.Spec()
        return not spec.holder or spec.holder == self.identity or self._expires_in() <= 0

    def _expires_in(self) -> float:
        seconds = self._timing.lease_seconds
        if self._seen and self._seen.spec.duration_seconds:
            seconds = self._seen.spec.duration_seconds
        return self._changed_at + seconds - self._clock()

    def _pause_seconds(self) -> float:
        """Until the next look: when the lease runs out, if that is sooner."""
        left = self._expires_in() if self._seen and self._seen.spec.holder else self._timing.retry_seconds
        return min(self._timing.retry_seconds, left) if left > 0 else self._timing.retry_seconds
