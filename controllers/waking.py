"""Wakes what was refused, and releases what is held, as soon as there is room for it.

Everybody who waits for the quotas of a namespace stands in one queue, whichever way they are woken; and so does
everybody who waits for one user's or group's limit, whichever namespace they are of. It is looked at
whenever something may have been freed: a binding or a quota changed, a reservation ended, a quota went. A new waiter is
such a change too: what was freed while it was on its way to the list is not lost on it.

Nobody is struck off the list for having been woken: who is woken may be refused again, and would wait for ever if
somebody stopped half-way. One is struck off when its binding has what it waited for, or was brought in line with a
later template, when it or its template is gone, or after `MOST_WAKES` that led nowhere. Meanwhile it is woken again,
later each time, for as long as there is room.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NoReturn

import structlog

from controllers import releasing
from controllers.alarm import Alarm, Outcome
from controllers.reporting import Reporting, binding_reference, template_reference
from federation_quota import metrics, waiting
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import ConflictError, Store, UnreachableError
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube.backoff import Backoff
from federation_quota.kube.client import Client
from federation_quota.kube.correlation import Reference
from federation_quota.kube.discovery import Discovery
from federation_quota.kube.mirrors import BindingMirror, claim
from federation_quota.kube.workqueue import WorkQueue
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.limits import usage
from federation_quota.limits.scheme import Schemes
from federation_quota.pending import Pending
from federation_quota.room import Room
from federation_quota.waiting import Chosen, Waiter, Way

log = structlog.get_logger()

# Freed quota often comes in several events; this much of the second that people wait is spent on gathering them.
COALESCE_SECONDS: Final = 0.02
# After the account's own status, which is written on the same occasions.
STRIKE_SECONDS: Final = 0.3
# How long the room of one that was woken is kept for it: about as long as Karmada needs to come back with it.
FLIGHT_SECONDS: Final = 0.7
PAUSE: Final = Backoff(first_seconds=FLIGHT_SECONDS, most_seconds=30.0)
MOST_WAKES: Final = 7
MOST_AT_ONCE: Final = 8
# Five thousand held ones take some 80 ms to look through, in a namespace where something may change every few: no more
# of the time than this goes into one, and nobody waits longer than that for it.
MOST_BUSY: Final = 0.1
MOST_REST_SECONDS: Final = 0.3
# The safety net, for what no event told of.
PATROL_SECONDS: Final = 30.0
# Templates of waiters that are looked for in one patrol: Karmada tells nobody when one without a binding is deleted.
MOST_LOOKED_FOR: Final = 50
# How long one that does not lead remembers who was on the list of a quota that is gone.
ORPHANED_SECONDS: Final = 60.0
_WORKERS: Final = 4


@dataclass(slots=True)
class _Track:
    """What is remembered of one who waits."""

    template_version: int  # of the binding when the wish was first looked at
    is_gone: bool = False
    wakes: int = 0
    woken_at: float = 0.0
    triggered: str = ""  # the last `rescheduleTriggeredAt`

    def rests_until(self) -> float:
        """When it may be woken next."""
        return self.woken_at + PAUSE.delay(self.wakes, lambda: 1.0) if self.wakes else 0.0

    def next_turn(self, now: float) -> float:
        """When there is something new about it by time alone: its room is free for others, or it may be woken."""
        landed = self.woken_at + FLIGHT_SECONDS
        return landed if landed > now else self.rests_until()


@dataclass(slots=True)
class _Place:
    """One namespace, or the domain of a user's or group's account."""

    accounts: dict[str, Account] = field(default_factory=dict)
    listed: dict[str, tuple[Waiter, ...]] = field(default_factory=dict)  # by quota
    orphans: dict[str, Waiter] = field(default_factory=dict)  # who is on no list, and is to be woken once
    held: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)  # stuck ones that are on no list
    noted: set[str] = field(default_factory=set)  # of whom a validator refused something, and who are not held
    told: set[str] = field(default_factory=set)  # held ones of which it was said
    tracks: dict[str, _Track] = field(default_factory=dict)
    rests_until: float = 0.0

    @property
    def is_waiting(self) -> bool:
        return bool(self.held or self.lost or self.noted or self.orphans or any(self.listed.values()))

    @property
    def is_empty(self) -> bool:
        return not (self.accounts or self.stuck or self.is_waiting)

    def wishes(self) -> dict[str, Waiter]:
        """Who was refused, by binding; of one that several quotas refused, the last wish by name of the quota."""
        found = dict(self.orphans)
        for _, waiters in sorted(self.listed.items()):
            found.update((one.binding, one) for one in waiters)
        return found

    def is_over(self, waiter: Waiter, binding: Binding | None) -> bool:
        """Whether a listed one no longer waits, or waits elsewhere."""
        track = self.tracks.get(waiter.binding)
        if track is not None and (track.is_gone or track.wakes >= MOST_WAKES):
            return True
        if binding is None:
            return False
        if binding.is_held or waiting.is_granted(waiter, claim(binding)):
            return True
        # Karmada has brought the binding in line with a later template: what is refused of that is noted anew.
        return track is not None and binding.template.version > track.template_version


class WakingController:
    """Brings back what was refused. Told of every change of a quota or binding; `run` for as long as this leads."""

    def __init__(
        self,
        observation: Observation,
        mirror: BindingMirror,
        store: Store,
        reporting: Reporting,
        *,
        is_warning_only: bool = False,
        rests_until: Callable[[Binding], float] = lambda _binding: 0.0,  # what a validator refused is left until then
        tried: Callable[[Binding], None] = lambda _binding: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._rests_until = rests_until
        self._tried = tried
        self._observation = observation
        self._mirror = mirror
        self._store = store
        self._reporting = reporting
        self._is_warning_only = is_warning_only
        self._now = now
        self._places: dict[str, _Place] = {}
        self._is_live = False
        self._queue: WorkQueue[str] = WorkQueue("waking", coalesce_seconds=COALESCE_SECONDS)
        self._strikes: WorkQueue[ObjectKey] = WorkQueue("waiting", coalesce_seconds=STRIKE_SECONDS)

    def counts(self) -> tuple[int, int]:
        """How many were refused and wait, and how many are held."""
        places = self._places.values()
        waiting = sum(len(one.wishes().keys() | one.noted) for one in places)
        return waiting, sum(len(one.held) for one in places)

    def busy_seconds(self) -> float:
        """How long the longest work that is under way has taken so far."""
        return max(self._queue.busy_seconds(), self._strikes.busy_seconds())

    def describe(self) -> list[dict[str, object]]:
        """How the queues stand, for people."""
        return [self._queue.describe(), self._strikes.describe()]

    async def run(self, client: Client) -> NoReturn:
        """Wake whoever can be, until cancelled; the views are complete. The client does not try again by itself."""
        alarm = Alarm(client, Discovery(client))
        self._is_live = True
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_WORKERS):
                    tasks.create_task(self._queue.serve(lambda namespace: self._wake(namespace, client, alarm)))
                tasks.create_task(self._strikes.serve(self._strike))
                await self._patrol(alarm)
        finally:
            self._is_live = False
        raise AssertionError("a patrol has no end")

    def quota_stored(self, account: Account) -> None:
        """A quota as the watch saw it."""
        place = self._places.setdefault(account.namespace, _Place())
        before = place.accounts.get(account.name)
        place.accounts[account.name] = account
        if self._is_live:
            self._reporting.quota_changed(before, account)
        if before is None or waiting.entries(before) != waiting.entries(account):
            known = place.wishes().keys()
            place.listed[account.name] = waiting.listed(account)
            for name in known - place.wishes().keys() - place.held:
                place.tracks.pop(name, None)
        if place.is_waiting:
            self._queue.add(account.namespace)

    def quota_deleted(self, namespace: str, name: str) -> None:
        """A quota is gone, and its list with it: those who were on it are woken, one last time as far as it goes."""
        place = self._places.get(namespace)
        if place is None:
            return
        place.accounts.pop(name, None)
        orphans = {one.binding: one for one in place.listed.pop(name, ())}
        place.orphans.update(orphans)
        if not self._is_live:
            # Whoever leads wakes them; this is for the moments in which nobody does.
            asyncio.get_running_loop().call_later(ORPHANED_SECONDS, self._forget_orphans, namespace, orphans.keys())
        self._queue.add(namespace)

    def _forget_orphans(self, namespace: str, names: Iterable[str]) -> None:
        place = self._places.get(namespace)
        if place is None or self._is_live:
            return
        for name in names:
            place.orphans.pop(name, None)
        if place.is_empty:
            del self._places[namespace]

    def binding_changed(self, before: Binding | None, after: Binding | None) -> None:
        """A binding as the watch saw it."""
        binding = after or before
        if binding is None:
            return
        namespace, name = binding.key
        is_held = after is not None and releasing.is_ours(after)
        is_stuck = after is not None and _is_stuck(after)
        is_noted = after is not None and after.pending is not None and not after.is_held
        place = self._places.get(namespace)
        if place is None:
            if not is_held and not is_stuck and not is_noted:
                return
            place = self._places[namespace] = _Place()
        _put(place.held, name, is_held)
        _put(place.stuck, name, is_stuck)
        _put(place.noted, name, is_noted)
        _put(place.lost, name, is_stuck and name in place.lost)
        _put(place.told, name, is_held and (name in place.told or not self._is_live))
        track = place.tracks.get(name)
        if track is not None:
            track.is_gone = track.is_gone or after is None
        if place.is_waiting:
            self._queue.add(namespace)
        elif place.is_empty:
            del self._places[namespace]

    def owners_changed(self, domains: Iterable[str]) -> None:
        """What these users and groups have is other than it was, or what they may have."""
        for one in domains:
            place = self._places.get(one)
            if place is not None and place.is_waiting:
                self._queue.add(one)

    def fit(self, schemes: Schemes) -> None:
        """The limits of users and groups are these now."""
        for name, place in self._places.items():
            if domain.is_usage(name):
                place.accounts = {key: usage.fitted(one, schemes) for key, one in place.accounts.items()}
                self.owners_changed([name])

    def look_at(self, namespace: str) -> None:
        """Something may be tried there that a validator had refused."""
        if namespace in self._places:
            self._queue.add(namespace)

    async def _wake(self, namespace: str, client: Client, alarm: Alarm) -> float | None:
        """Look through the queue of one namespace; when to look again, if by time alone."""
        place = self._places.get(namespace)
        if place is None or not place.is_waiting:
            if place is not None and place.is_empty:
                del self._places[namespace]
            return None
        view = self._observation.view
        if any(view.version < account.observed for account in place.accounts.values()):
            return 0.05
        now = asyncio.get_running_loop().time()
        if now < place.rests_until:
            return place.rests_until - now
        queue = self._queued(place, namespace)
        awake = {name for name in queue if now < self._track(place, namespace, name).rests_until()}
        on_their_way = {name for name in awake if now < place.tracks[name].woken_at + FLIGHT_SECONDS}
        room = Room(place.accounts.values(), view, is_warning_only=self._is_warning_only)
        chosen, hindered = waiting.choose(
            (queue[name] for name in queue if name not in awake),
            (queue[name] for name in on_their_way),
            room,
            namespace,
            view,
        )
        for name in awake - on_their_way:
            if room.obstacles(queue[name].ask(view.get(namespace, name))):
                hindered[name] = []
        for name, obstacles in hindered.items():
            # When there is room for it again, that is news: it does not wait for its next turn.
            place.tracks[name].wakes = 0
            binding = self._binding(namespace, name)
            if obstacles and binding is not None and name in place.held and name not in place.told:
                place.told.add(name)
                self._reporting.held(binding, obstacles)
        chosen, is_more = self._one_by_one(namespace, chosen)
        took = asyncio.get_running_loop().time() - now
        place.rests_until = now + took + min(took * (1 / MOST_BUSY - 1), MOST_REST_SECONDS)
        is_changed = await self._wake_all(place, namespace, chosen, client, alarm)
        if is_changed or is_more:
            return COALESCE_SECONDS
        now = asyncio.get_running_loop().time()
        turns = [track.next_turn(now) - now for name in queue if (track := place.tracks.get(name)) and track.wakes]
        return max(min(turns), COALESCE_SECONDS) if turns else None

    def _one_by_one(self, namespace: str, chosen: list[Chosen]) -> tuple[list[Chosen], bool]:
        """Of those that a validator is to be asked about again only the first: it may be slow. And whether more are."""
        left = [one for one in chosen if self._note(namespace, one.waiter.binding) is not None][1:]
        return [one for one in chosen if one not in left], bool(left)

    def _note(self, namespace: str, name: str) -> Pending | None:
        binding = self._binding(namespace, name)
        return binding.pending if binding is not None else None

    def _queued(self, place: _Place, namespace: str) -> dict[str, Waiter]:
        """Everybody who waits, by binding; who no longer does is struck off."""
        queue = {}
        for name, waiter in place.wishes().items():
            binding = self._binding(namespace, name)
            if place.is_over(waiter, binding):
                place.orphans.pop(name, None)
                for quota, waiters in place.listed.items():
                    if any(one.binding == name for one in waiters):
                        self._strikes.add(ObjectKey(namespace, quota))
            elif binding is None or not (binding.is_suspended or binding.is_deleting):
                queue[name] = waiter
        for name in place.lost - queue.keys():
            binding = self._binding(namespace, name)
            if binding is not None and not binding.is_suspended:
                # What it asked for is not known: if it is refused again, it is noted.
                queue[name] = waiting.refused(binding, "", binding.created)
        for name in place.held | place.noted:
            binding = self._binding(namespace, name)
            if binding is not None and self._rests_until(binding) <= asyncio.get_running_loop().time():
                queue[name] = waiting.held(binding) if name in place.held else waiting.pending(binding)
        for name in place.tracks.keys() - queue.keys() - place.wishes().keys():
            del place.tracks[name]
        return queue

    async def _wake_all(
        self, place: _Place, namespace: str, chosen: Iterable[Chosen], client: Client, alarm: Alarm
    ) -> bool:
        """Wake them, a few at a time; whether one has changed meanwhile, and is to be looked at again."""
        limit = asyncio.Semaphore(MOST_AT_ONCE)

        async def wake(one: Chosen) -> Outcome:
            async with limit:
                way, outcome = await self._wake_one(place, namespace, one, client, alarm)
            metrics.woken.labels(way.value, outcome.value).inc()
            log.info("waking.tried", namespace=namespace, binding=one.waiter.binding, outcome=outcome.value)
            track = place.tracks.get(one.waiter.binding)
            if track is not None and outcome in (Outcome.DONE, Outcome.FAILED):
                track.wakes += 1
                track.woken_at = asyncio.get_running_loop().time()
            if track is not None and outcome is Outcome.GONE:
                track.is_gone = True
                self._queue.add(namespace)
            if outcome is not Outcome.CHANGED:
                place.orphans.pop(one.waiter.binding, None)
                place.lost.discard(one.waiter.binding)
            return outcome

        outcomes = await asyncio.gather(*(wake(one) for one in chosen))
        return Outcome.CHANGED in outcomes

    async def _wake_one(
        self, place: _Place, namespace: str, one: Chosen, client: Client, alarm: Alarm
    ) -> tuple[Way, Outcome]:
        waiter, name = one.waiter, one.waiter.binding
        binding = self._binding(namespace, name)
        if binding is not None:
            self._tried(binding)
        way = _way(binding)
        if way is Way.RELEASE and binding is not None:
            outcome = await releasing.release(client, binding)
            if outcome is Outcome.DONE:
                self._reporting.released(binding, one.reason)
            return way, outcome
        about: list[Reference] = []
        if way is Way.SCHEDULE and binding is not None:
            track = self._track(place, namespace, name)
            outcome, track.triggered = await alarm.ring_scheduler(binding, self._now(), track.triggered)
            about = [binding_reference(binding), template_reference(binding)]
        else:
            home = domain.binding_in(namespace, name).namespace
            outcome, template = await alarm.ring_template(home, waiter, self._now())
            about = [template] if template else []
        if outcome is Outcome.DONE:
            self._reporting.woken(about, one.reason)
        return way, outcome

    async def _strike(self, key: ObjectKey) -> float | None:
        """Take off one quota's list who no longer waits."""
        place = self._places.get(key.namespace)
        account = place.accounts.get(key.name) if place else None
        if place is None or account is None:
            return None
        listed = place.listed.get(key.name, ())
        kept = [one for one in listed if not place.is_over(one, self._binding(key.namespace, one.binding))]
        if len(kept) == len(listed):
            return None
        try:
            await self._store.write(waiting.relisted(account, kept))
        except ConflictError:
            return 0.05  # somebody else wrote: the watch brings it
        except UnreachableError as problem:
            log.warning("waiting.not_written", quota=str(key), problem=str(problem))
            return 1.0
        return None

    async def _patrol(self, alarm: Alarm) -> NoReturn:
        while True:
            limited = self._limited()
            for namespace, place in list(self._places.items()):
                listed = place.wishes().keys() | limited.get(namespace, set())
                place.lost = place.stuck - listed
                if place.is_waiting:
                    self._queue.add(namespace)
            await asyncio.sleep(PATROL_SECONDS)
            await self._look_for_templates(alarm)

    def _limited(self) -> dict[str, set[str]]:
        """By namespace, the bindings that wait for somebody's limit: nothing of them is lost."""
        found: dict[str, set[str]] = {}
        for name, place in self._places.items():
            for one in place.wishes() if domain.is_usage(name) else ():
                namespace, own = domain.binding_in(name, one)
                found.setdefault(namespace, set()).add(own)
        return found

    async def _look_for_templates(self, alarm: Alarm) -> None:
        waiters = [
            (namespace, waiter)
            for namespace, place in self._places.items()
            for waiter in place.wishes().values()
            if self._binding(namespace, waiter.binding) is None
        ]
        for namespace, waiter in random.sample(waiters, min(len(waiters), MOST_LOOKED_FOR)):
            place = self._places.get(namespace)
            home = domain.binding_in(namespace, waiter.binding).namespace
            if place is not None and not await alarm.has_template(home, waiter):
                self._track(place, namespace, waiter.binding).is_gone = True

    def _binding(self, place: str, name: str) -> Binding | None:
        """The binding that is called so there."""
        return self._mirror.bindings.get(domain.binding_in(place, name))

    def _track(self, place: _Place, namespace: str, name: str) -> _Track:
        track = place.tracks.get(name)
        if track is None:
            binding = self._binding(namespace, name)
            track = place.tracks[name] = _Track(
                template_version=binding.template.version if binding else 0,
            )
        return track


def _way(binding: Binding | None) -> Way:
    if binding is not None and binding.is_held:
        return Way.RELEASE
    if binding is not None and _is_stuck(binding) and not binding.clusters:
        return Way.SCHEDULE
    return Way.TEMPLATE


def _is_stuck(binding: Binding) -> bool:
    """Whether Karmada's scheduler was refused, and says so."""
    return binding.scheduled_reason == waiting.QUOTA_EXCEEDED and not binding.is_deleting


def _put(names: set[str], name: str, belongs: bool) -> None:
    if belongs:
        names.add(name)
    else:
        names.discard(name)
