"""Turns of tenants: one request of a tenant at a time, in the whole federation, and no tenant waits for another.

Each tenant that asks has a hall of its own, where requests stand in line; who is at its head must have the tenant's
title (`tenants.title`), which is taken, or asked for from the replica that has it. A hall that nobody enters for a
while is closed, and the title given up: what a replica that dies had in its hands is then little.

Halls are made and closed on the event loop, without a pause between looking and acting: there is never a second one.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Final, NoReturn

import structlog

from federation_quota import metrics
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import UnreachableError
from federation_quota.ledger.settling import EXPIRY_SECONDS, LiveLook
from federation_quota.ledger.view import View
from federation_quota.tenants import title as titles
from federation_quota.tenants.grants import Grants
from federation_quota.tenants.store import LostError, TitleStore, UnknownError
from federation_quota.tenants.title import Step, Title
from webhook.hall import Hall
from webhook.turn import BusyError, Turn

log = structlog.get_logger()

# How long a replica with more of the tenant's requests keeps a title that another one wants: so that a flood at both
# passes it on a few times a second, and not for each request.
KEEP_SECONDS: Final = 0.25
# How long a title is held that nobody needs.
IDLE_SECONDS: Final = 5.0
# How often who waits for a title looks past the watch, and whether its holder is still there.
LOOK_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.05
_YIELD_TRIES: Final = 3


class Tenancy:
    """The halls of one replica."""

    def __init__(
        self,
        *,
        store: TitleStore,
        me: Callable[[], str],  # this incarnation; one that was lost sight of comes back as another
        is_present: Callable[[], bool],
        roll: Callable[[], Awaitable[Collection[str]]],  # every incarnation that is not known to be settled, read now
        observation: Observation,
        look: Callable[[str, str], Awaitable[LiveLook]],  # at a binding, past all caches
        expiry_seconds: float = EXPIRY_SECONDS,
    ) -> None:
        self._store = store
        self._me = me
        self._is_present = is_present
        self._roll = roll
        self._observation = observation
        self._look = look
        self._expiry_seconds = expiry_seconds
        self._halls: dict[str, Hall] = {}
        self._titles: dict[str, Title] = {}  # as last read, written or seen by the watch
        self._present: Collection[str] = ()  # as of the last roll; who is not in it may have come since
        self._incarnation = ""
        self._former: set[str] = set()  # what this process was before
        self._yields: set[asyncio.Task[None]] = set()

    @property
    def view(self) -> View:
        """What is stored, as this replica has seen it."""
        return self._observation.view

    def holds(self, tenant: str, incarnation: str) -> bool:
        """Whether that incarnation of this replica surely is who judges for a tenant."""
        known, hall = self._titles.get(tenant), self._halls.get(tenant)
        is_held = known is not None and known.holder == incarnation and hall is not None and not hall.is_in_doubt
        return is_held and self._me() == incarnation and self._is_present()

    @contextlib.asynccontextmanager
    async def turn(self, tenant: str, deadline: float) -> AsyncIterator[Turn]:
        """Wait until it is this request's turn; BusyError where that is not before the deadline."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        hall = self._halls.get(tenant)
        if hall is None:
            hall = self._halls[tenant] = Hall(tenant)
        hall.visitors += 1
        try:
            try:
                incarnation = await self._enter(hall, deadline)
            finally:  # who waits in vain waits longest
                entered = loop.time()
                metrics.tenant_wait_seconds.observe(entered - began)
            try:
                yield Turn(hall, self.view, lambda: self.holds(tenant, incarnation))
            finally:
                metrics.tenant_hold_seconds.observe(loop.time() - entered)
                hall.gate.release()
        finally:
            hall.visitors -= 1
            hall.left_at = loop.time()
            self._yield_if_wanted(hall)

    async def _enter(self, hall: Hall, deadline: float) -> str:
        """Come to the head of the line, and have the title: as which incarnation. Who cannot lets the next one try."""
        await self._reach_the_head(hall, deadline)
        try:
            return await self._own_in_time(hall, deadline)
        except BaseException:
            hall.gate.release()
            raise

    async def _reach_the_head(self, hall: Hall, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await hall.gate.acquire()
        except TimeoutError:
            raise BusyError(
                f"requests of tenant {hall.tenant} are judged one at a time, and others came before this one"
            ) from None

    async def _own_in_time(self, hall: Hall, deadline: float) -> str:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._own(hall)
        except TimeoutError:
            raise BusyError(f"another replica judges the requests of tenant {hall.tenant}, or did so last") from None

    async def _own(self, hall: Hall) -> str:
        """Have the title, and know what was let through under it: as which incarnation."""
        while True:
            if hall.is_hung:
                raise BusyError(f"a validator has not come back from an earlier request of tenant {hall.tenant}")
            me = self._identify()
            hall.news.clear()
            try:
                if hall.is_in_doubt:
                    await self._clear_up(hall)
                    continue
                known = self._titles.get(hall.tenant)
                match await self._next_step(hall, known, me):
                    case Step.ACT if known is not None:
                        if self._is_kept(hall, known):
                            if await self._know(hall, known) and self.holds(hall.tenant, me):
                                return me
                        else:
                            await self._pass_on(hall, known)
                    case Step.CREATE | Step.TAKE:
                        await self._take(hall, known, me)
                    case Step.ASK if known is not None:
                        self._keep(await self._store.write(titles.asked(known, me)))
                    case _:
                        await self._await_news(hall)
            except LostError:
                await self._read(hall)
            except (UnknownError, UnreachableError) as problem:
                log.info("tenant.in_doubt", tenant=hall.tenant, problem=str(problem))
                await asyncio.sleep(PAUSE_SECONDS)

    def _identify(self) -> str:
        me = self._me()
        if not self._is_present():
            raise BusyError("this replica has lost touch with the API server")
        if me != self._incarnation:
            if self._incarnation:
                self._former.add(self._incarnation)
            self._incarnation = me
        return me

    async def _next_step(self, hall: Hall, known: Title | None, me: str) -> Step:
        former = self._former if hall.grants is not None else ()
        step = titles.next_step(known, me, former, self._present)
        if step is Step.TAKE and known is not None and known.holder and known.holder not in former:
            # Whoever is not known to be there may have come since the last roll was taken.
            self._present = await self._roll()
            step = titles.next_step(known, me, former, self._present)
        return step

    async def _take(self, hall: Hall, known: Title | None, me: str) -> None:
        try:
            written = await self._store.write(titles.taken(known, hall.tenant, me))
        except UnknownError:
            await self._read(hall)  # if it was stored, that is seen; if it comes late, the watch brings it
            raise
        self._keep(written)

    async def _know(self, hall: Hall, known: Title) -> bool:
        """Know what was let through; whether nothing of it is still open to a look."""
        loop = asyncio.get_running_loop()
        if hall.grants is None:
            hall.held_since = loop.time()
        grants = self._inherited(hall, known)
        await self._observation.reached(grants.observed)
        grants.settle(self.view)
        for one in grants.expired(loop.time()):
            found = await self._look(one.namespace, one.reservation.binding)
            grants.end(one.reservation.id, found.version)
        return hall.grants is grants and self.view.version >= grants.observed

    def _inherited(self, hall: Hall, known: Title) -> Grants:
        """What was let through under a title that is this replica's, by whomever."""
        if hall.grants is None:
            hall.grants = Grants(self._expiry_seconds)
            hall.inherited = 0
        if hall.inherited != known.version and known.left is not None:
            # It may have been elsewhere meanwhile without this being seen. What is known already stays as it is.
            hall.grants.inherit(known.left, asyncio.get_running_loop().time())
        hall.inherited = known.version
        return hall.grants

    def _is_kept(self, hall: Hall, known: Title) -> bool:
        """Whether this request is judged here, although somebody else may want the title."""
        if not known.wanted_by or hall.grants is None:
            return True
        return asyncio.get_running_loop().time() < hall.held_since + KEEP_SECONDS

    async def _pass_on(self, hall: Hall, known: Title) -> None:
        """Write the title away, to who wants it or to nobody; nothing is judged here after that."""
        grants = self._inherited(hall, known)
        grants.settle(self.view)
        left = grants.left(asyncio.get_running_loop().time())
        if not left.encode():
            await asyncio.sleep(PAUSE_SECONDS)  # more is under way than can be written down: soon it is less
            return
        hall.is_in_doubt = True
        written = await self._store.write(titles.handed_over(known, left))
        hall.is_in_doubt, hall.grants = False, None
        self._keep(written)
        metrics.tenant_handovers.inc()

    async def _clear_up(self, hall: Hall) -> None:
        """After a write of which nothing was heard: what is stored, and that it stays so."""
        stored = await self._read(hall)
        if stored is not None and stored.holder in (self._incarnation, *self._former):
            # It may still come. After another write under the same version it cannot.
            self._keep(await self._store.write(stored))
        else:
            hall.grants = None
        hall.is_in_doubt = False

    async def _await_news(self, hall: Hall) -> None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await hall.news.wait()
        except TimeoutError:
            self._present = await self._roll()
            await self._read(hall)

    async def _read(self, hall: Hall) -> Title | None:
        stored = await self._store.read(hall.tenant)
        if stored is None:
            self._titles.pop(hall.tenant, None)
        else:
            self._keep(stored)
        return stored

    def stored(self, title: Title) -> None:
        """A title as the watch saw it."""
        self._keep(title)

    def deleted(self, tenant: str, version: int) -> None:
        """A title is gone, as of that version."""
        known = self._titles.get(tenant)
        if known is not None and known.version <= version:
            del self._titles[tenant]
            hall = self._halls.get(tenant)
            if hall is not None:
                hall.grants = None
                hall.news.set()

    def rewind(self) -> None:
        """The store was restored from the past: what is known of titles and grants may never have been."""
        self._titles.clear()
        for hall in self._halls.values():
            hall.grants = None
            hall.news.set()

    def _keep(self, title: Title) -> None:
        known = self._titles.get(title.tenant)
        if known is not None and known.version >= title.version:
            return
        self._titles[title.tenant] = title
        hall = self._halls.get(title.tenant)
        is_ours = title.holder and title.holder in (self._incarnation, *self._former)
        if hall is None and is_ours:
            # Handed over to who has stopped waiting: it is passed on, or given up when nobody comes.
            hall = self._halls[title.tenant] = Hall(title.tenant, left_at=asyncio.get_running_loop().time())
        if hall is None:
            return
        if not is_ours:
            hall.grants = None
        hall.news.set()
        self._yield_if_wanted(hall)

    def _yield_if_wanted(self, hall: Hall) -> None:
        """Pass on what is wanted elsewhere and not needed here. Where others are in line, they do when they must."""
        if self._is_wanted(hall) and not hall.visitors and not hall.is_yielding:
            hall.is_yielding = True
            task = asyncio.create_task(self._yield(hall))
            self._yields.add(task)
            task.add_done_callback(self._yields.discard)

    def _is_wanted(self, hall: Hall) -> bool:
        known = self._titles.get(hall.tenant)
        is_ours = known is not None and known.holder == self._incarnation and bool(known.wanted_by)
        return is_ours and not hall.is_hung and self._halls.get(hall.tenant) is hall

    async def _yield(self, hall: Hall) -> None:
        try:
            async with hall.gate:
                for _ in range(_YIELD_TRIES):
                    known = self._titles.get(hall.tenant)
                    try:
                        if hall.is_in_doubt:
                            await self._clear_up(hall)
                        elif known is None or not self._is_wanted(hall):
                            return
                        else:
                            await self._pass_on(hall, known)
                    except (LostError, UnknownError) as problem:
                        log.info("tenant.not_passed_on", tenant=hall.tenant, problem=str(problem))
        finally:
            hall.is_yielding = False

    async def run(self) -> NoReturn:
        """Close the halls that nobody enters, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before = asyncio.get_running_loop().time() - IDLE_SECONDS
            for hall in list(self._halls.values()):
                if not hall.visitors and not hall.is_yielding and not hall.is_hung and hall.left_at <= before:
                    await self._close(hall)
            metrics.tenants.set(len(self._halls))

    async def close(self, timeout_seconds: float) -> None:
        """Give up everything, as far as that is possible in that time: before this replica goes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await asyncio.gather(*(self._close(hall) for hall in list(self._halls.values()) if not hall.is_hung))

    async def _close(self, hall: Hall) -> None:
        async with hall.gate:
            known = self._titles.get(hall.tenant)
            if self._halls.get(hall.tenant) is not hall:
                return
            try:
                if hall.is_in_doubt:
                    await self._clear_up(hall)
                elif known is not None and known.holder == self._me():
                    await self._pass_on(hall, known)
            except (LostError, UnknownError, UnreachableError) as problem:
                log.info("tenant.not_given_up", tenant=hall.tenant, problem=str(problem))
                return
            if not hall.visitors and hall.grants is None and not hall.is_in_doubt:
                self._halls.pop(hall.tenant, None)

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        return {
            hall.tenant: {
                "in_line": hall.visitors,
                "held": self.holds(hall.tenant, self._incarnation),
                "under_way": len(hall.grants) if hall.grants is not None else 0,
                "hung": hall.is_hung,
            }
            for hall in self._halls.values()
        }
