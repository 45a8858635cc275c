"""Keeps elastic trees true, one tree at a time: look, plan, write, and look again until nothing is left to do.

Triggered by every change of a quota, a tree, a binding under one, a namespace or a cluster. Only one hand writes for a
tree, and it has seen its own writes before it plans again: so no room is given away twice. Everything else that could
go wrong is the webhook's to catch, which judges each write by the leaf's account.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, NoReturn

import structlog

from controllers import releasing
from controllers.alarm import Alarm, Outcome
from controllers.elastic import moving
from controllers.elastic.moving import Moved
from controllers.elastic.publishing import Publishing
from controllers.elastic.watching import Estate, Watching
from controllers.reporting import Reporting
from federation_quota import metrics
from federation_quota.accounting.store import Store
from federation_quota.binding import Binding
from federation_quota.elastic import leaf as leaves
from federation_quota.elastic import status as statuses
from federation_quota.elastic import unit
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.node import ROOT
from federation_quota.elastic.outlook import REFUSED
from federation_quota.elastic.plan import Plan, Planner
from federation_quota.elastic.release import MIN, Obstacle
from federation_quota.elastic.situation import Situation
from federation_quota.elastic.status import TreeFigures
from federation_quota.kube.backoff import Backoff
from federation_quota.kube.client import Client
from federation_quota.kube.discovery import Discovery
from federation_quota.kube.forest import ForestMirror
from federation_quota.kube.workqueue import WorkQueue
from federation_quota.ledger.account import Account

log = structlog.get_logger()

COALESCE_SECONDS: Final = 0.02
BEHIND_SECONDS: Final = 0.05
# How long to wait for one's own writes to come back by the watch; then whatever is there is looked at.
SEEN_SECONDS: Final = 5.0
# As long as a write of an earlier leader could still be on its way, nothing is raised beside it.
YOUNG_SECONDS: Final = 3.5
# In large trees a plan takes a while; the loop, on which the leader renews its term, goes on meanwhile.
MANY_BINDINGS: Final = 2000
MOST_AT_ONCE: Final = 8
PATROL_SECONDS: Final = 30.0
# Pods come and go by the hundred where bindings change once; nothing is decided by them.
PODS_SECONDS: Final = 0.5
# How many patrols there are until trees are looked through as if nothing was known of them.
WHOLE_PATROLS: Final = 10
REST: Final = Backoff(first_seconds=0.7, most_seconds=30.0)
_WORKERS: Final = 2
# In the queue beside the names of trees: every tree, and what runs in the members.
_ALL: Final = ""
_PODS: Final = "pods/"


@dataclass(frozen=True, slots=True)
class Rest:
    """A binding that was released or woken to no avail, and when it is its turn again."""

    tries: int
    until: float


class TreeController:
    """Reconciles trees. Told of every change; `run` for as long as this leads."""

    def __init__(
        self,
        watching: Watching,
        forest: ForestMirror,
        store: Store,
        reporting: Reporting,
        *,
        is_warning_only: bool = False,
        rests_until: Callable[[Binding], float] = lambda _binding: 0.0,  # what a validator refused is left until then
        tried: Callable[[Binding], None] = lambda _binding: None,
        # Who can be released together, by the limits of users and groups, of those who can one by one.
        fitting: Callable[[str, Sequence[Binding]], list[Binding]] = lambda _tree, releases: list(releases),
    ) -> None:
        self._fitting = fitting
        self._rests_until = rests_until
        self._tried = tried
        self._watching = watching
        self._forest = forest
        self._store = store
        self._publishing = Publishing(watching, store)
        self._reporting = reporting
        self._queue: WorkQueue[str] = WorkQueue("trees", coalesce_seconds=COALESCE_SECONDS)
        self._planners: dict[str, Planner] = {}
        self._known: Forest | None = None  # as long as nothing in it has changed
        self._rests: dict[str, Rest] = {}
        self._told: set[str] = set()  # held ones of which it was said
        self._untold: dict[str, set[str]] = {}  # by tree, the leaves in which some may have come to wait
        self._leads_since = 0.0
        self._is_warning_only = is_warning_only  # nothing waits, and nothing gives way

    def busy_seconds(self) -> float:
        """How long the longest work that is under way has taken so far."""
        return self._queue.busy_seconds()

    def describe(self) -> dict[str, object]:
        """How the queue stands, for people."""
        return self._queue.describe()

    def held(self) -> int:
        """How many bindings wait in trees."""
        return sum(one.is_held for here in self._watching.by_leaf.values() for one in here.values())

    def forest_changed(self) -> None:
        """A quota, a tree, a namespace or a cluster is other than it was."""
        self._known = None
        self._queue.add(_ALL)

    def pods_changed(self, namespaces: Iterable[str]) -> None:
        """The pods of these namespaces use other amounts than before."""
        self._watching.pods_changed(namespaces)
        self._queue.add_after(_PODS, PODS_SECONDS)

    def member_changed(self) -> None:
        """A member cluster has come, gone, was lost or found."""
        self._watching.touch_all()
        self._queue.add(_ALL)

    def account_changed(self, name: str) -> None:
        """A quota's account is other than it was."""
        self._queue.add(self._watching.touch(name))

    def owner_changed(self, tree: str) -> None:
        """What a user or group of a tree has, or what others let through for them, is other than it was."""
        if self._watching.waits_for_limits(tree):
            self._queue.add(tree)

    def binding_changed(self, before: Binding | None, after: Binding | None) -> None:
        """A binding as the watch saw it."""
        for tree in self._watching.binding_changed(before, after):
            self._queue.add(tree)
        if not self._watching.is_counted:
            self._queue.add_after(_PODS, PODS_SECONDS)
        binding = after or before
        if binding is None:
            return
        name = str(binding.key)
        if after is None or not (after.is_held or after.scheduled_reason in REFUSED):
            self._rests.pop(name, None)
            self._told.discard(name)

    async def run(self, client: Client) -> NoReturn:
        """Keep all trees, until cancelled; the views are complete. The client does not try again by itself."""
        alarm = Alarm(client, Discovery(client))
        self._leads_since = asyncio.get_running_loop().time()
        # What was known in an earlier term is old.
        self._publishing = Publishing(self._watching, self._store)
        self._planners, self._untold, self._known = {}, {}, None
        self._rests.clear()
        self._watching.begin()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WORKERS):
                tasks.create_task(self._queue.serve(lambda tree: self._reconcile(tree, client, alarm)))
            for patrol in itertools.count():
                if not patrol % WHOLE_PATROLS:  # whatever was missed is found
                    self._planners.clear()
                    self._watching.touch_all()
                self._queue.add(_ALL)
                await asyncio.sleep(PATROL_SECONDS)
        raise AssertionError("a patrol has no end")

    @property
    def _grown(self) -> Forest:
        """The forest. What its quotas use, which changes all the time, is not looked for in it."""
        if self._known is None:
            self._known = self._forest.forest
        return self._known

    async def _reconcile(self, tree: str, client: Client, alarm: Alarm) -> float | None:
        """Do what is next in one tree; when to look again, if by time alone."""
        forest, clock = self._grown, asyncio.get_running_loop().time()
        if tree == _ALL:
            trees = {one.tree for one in forest.quotas.values()} | forest.roots.keys()
            self._watching.keep(trees)
            for name in trees:
                self._queue.add(name)
            self._queue.add(_PODS)
            return await self._release_strays(forest, clock, client)
        if tree == _PODS:
            for name in self._watching.count(forest):
                self._queue.add(name)
            return None
        pending = self._pending(clock)
        resting = {name for name, rest in self._rests.items() if rest.until > clock} | pending.keys()
        looked = self._watching.look(tree, forest, clock=clock, resting=resting)
        if looked is None:
            return BEHIND_SECONDS
        estate, seen = looked
        found = await self._planned(tree, seen)
        self._publishing.note(seen, found)
        self._untold.setdefault(tree, set()).update(found.news)
        for name in seen.limited:
            self._rests.pop(name, None)  # when there is room for it again, that is news
        if self._is_warning_only:
            found = _unbound(seen, found)
        self._watching.over_since[tree] = found.over_since
        is_young = clock < self._leads_since + YOUNG_SECONDS
        if found.lowerings or (found.raises and not is_young):
            return await self._publishing.publish(seen, found)
        self._tell(tree, seen, found)
        found = replace(found, releases=self._fitting(tree, found.releases))
        looks = [await self._move(found, client, alarm)]
        looks += [await self._publishing.report(client, seen, found)]
        if tree in forest.roots:
            looks.append(await self._report_tree(tree, estate, seen, found, client))
        looks += [None if found.next_look is None else found.next_look - clock]
        looks += [rest.until - clock for rest in self._rests.values() if rest.until > clock]
        looks += [until - clock for until in pending.values()]
        looks += [YOUNG_SECONDS] if is_young else []
        looks += [due - clock] if (due := self._watching.limits_due(tree)) > clock else []
        return min((max(one, 0.0) for one in looks if one is not None), default=None)

    def _pending(self, clock: float) -> dict[str, float]:
        """Those whom a validator refused, and when their time comes."""
        noted = (one for here in self._watching.by_leaf.values() for one in here.values() if one.pending is not None)
        return {str(one.key): until for one in noted if (until := self._rests_until(one)) > clock}

    async def _release_strays(self, forest: Forest, clock: float, client: Client) -> float | None:
        """Let go what waits for a quota that is gone. Where it falls under another, the webhook holds it for that."""
        strays = [
            one
            for name, here in self._watching.by_leaf.items()
            if name not in forest.quotas
            for one in here.values()
            if one.is_held and not one.is_deleting
        ]
        rests = {one.key: self._rests[str(one.key)].until for one in strays if str(one.key) in self._rests}
        for one in strays:
            if rests.get(one.key, clock) <= clock:
                outcome, _ = await releasing.released(client, one)
                self._released(one)(outcome)
        return max(min(rests.values()) - clock, BEHIND_SECONDS) if rests else None

    async def _planned(self, tree: str, seen: Situation) -> Plan:
        planner = self._planners.setdefault(tree, Planner())
        if planner.effort(seen) < MANY_BINDINGS:
            return planner.plan(seen)
        return await asyncio.to_thread(planner.plan, seen)

    async def _move(self, found: Plan, client: Client, alarm: Alarm) -> float | None:
        """Release, wake, displace and label; when to look again, if there is something new to be seen."""
        limit = asyncio.Semaphore(MOST_AT_ONCE)
        now = datetime.now(UTC)

        async def limited(move: Callable[[], Awaitable[Moved]], done: Callable[[Outcome], None]) -> Moved:
            async with limit:
                moved = await move()  # begun only now: who stops leading meanwhile has begun nothing
            done(moved[0])
            return moved

        moves = [
            *(limited(partial(releasing.released, client, one), self._released(one)) for one in found.releases),
            *(limited(partial(moving.wake, client, alarm, one, now), self._woken(one)) for one in found.wakes),
            *(
                limited(partial(moving.displace, client, one.binding), self._displaced(one.binding, one.reason))
                for one in found.displacements
            ),
        ]
        if not moves:
            moves = [limited(partial(moving.label, client, one, text), lambda _: None) for one, text in found.labels]
        moved = await asyncio.gather(*moves)
        outcomes = {outcome for outcome, _ in moved}
        newest = max((version for _, version in moved), default=0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEEN_SECONDS):
                await self._watching.observation.reached(newest)
        if Outcome.DONE in outcomes:
            return 0.0
        return BEHIND_SECONDS if outcomes - {Outcome.FAILED} else None

    def _released(self, binding: Binding) -> Callable[[Outcome], None]:
        self._tried(binding)

        def done(outcome: Outcome) -> None:
            metrics.woken.labels("release", outcome.value).inc()
            log.info("tree.released", binding=str(binding.key), quota=binding.stamp.leaf, outcome=outcome.value)
            if outcome is Outcome.DONE:
                self._rests.pop(str(binding.key), None)
                self._told.discard(str(binding.key))
                self._reporting.released(binding, f"quota {binding.stamp.leaf} has room for it")
            elif outcome is Outcome.FAILED:
                self._rest(binding)

        return done

    def _woken(self, binding: Binding) -> Callable[[Outcome], None]:
        def done(outcome: Outcome) -> None:
            metrics.woken.labels("schedule", outcome.value).inc()
            log.info("tree.woken", binding=str(binding.key), quota=binding.stamp.leaf, outcome=outcome.value)
            if outcome in (Outcome.DONE, Outcome.FAILED):
                self._rest(binding)

        return done

    def _displaced(self, binding: Binding, reason: str) -> Callable[[Outcome], None]:
        def done(outcome: Outcome) -> None:
            log.info(
                "tree.displaced",
                binding=str(binding.key),
                quota=binding.stamp.leaf,
                reason=reason,
                outcome=outcome.value,
            )
            if outcome is Outcome.DONE:
                metrics.displaced.inc()
                self._reporting.displaced(binding, reason)

        return done

    def _rest(self, binding: Binding) -> None:
        name = str(binding.key)
        known = self._rests.get(name)
        tries = known.tries + 1 if known else 1
        self._rests[name] = Rest(tries, asyncio.get_running_loop().time() + REST.delay(tries, lambda: 1.0))

    def _tell(self, tree: str, seen: Situation, found: Plan) -> None:
        """Say of each that waits why it does; once."""
        if found.published:
            return  # a moment later there may be room
        for name in self._untold.pop(tree, ()):
            for one in seen.leaves[name].bindings if name in seen.leaves else ():
                key = str(one.key)
                obstacle, reason = found.hindered.get(key), seen.limited.get(key, "") if one.is_held else ""
                if obstacle is not None:
                    reason = _why(name, obstacle, self._watching.accounts.get(name))
                if reason and key not in self._told:
                    self._told.add(key)
                    self._reporting.waits(one, reason)

    async def _report_tree(
        self, tree: str, estate: Estate, seen: Situation, found: Plan, client: Client
    ) -> float | None:
        first = [name for name in seen.tree.children(ROOT) if name in found.standings]
        figures = TreeFigures(
            total=estate.total,
            used=unit.asked(found.sums.below().used),
            system_used=unit.asked(estate.system_used),
            mins=statuses.sum_of(seen.tree.nodes[name].min for name in first),
            requests=statuses.sum_of(found.standings[name].passed_up for name in first),
            holding=estate.holding,
        )
        stored = self._forest.trees.items.get(tree)
        fields = statuses.write_tree(figures, stored.identity.generation if stored else 0)
        return await self._publishing.report_tree(client, tree, fields, statuses.tree_findings(figures))


def _unbound(seen: Situation, found: Plan) -> Plan:
    """The plan where quotas only warn."""
    held = [one for leaf in seen.leaves.values() for one in leaf.bindings if one.is_held and not one.is_deleting]
    return replace(
        found, releases=[one for one in held if str(one.key) not in seen.resting], displacements=[], hindered={}
    )


def _why(leaf: str, obstacle: Obstacle, account: Account | None) -> str:
    what = ", ".join(obstacle.resources)
    if obstacle.limit == MIN:
        return f"it is not preemptible, and quota {leaf} has no more {what} of its own min left"
    summary = leaves.kept(account).status.get("summary") if account else None
    return f"quota {leaf} may use no more {what} now" + (f" ({summary})" if summary else "")
