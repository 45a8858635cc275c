"""The member clusters: one connection each, their pods watched, and what is known of every one of them.

Follows the federation's Cluster objects: joined, changed and removed at run time. A member that does not answer keeps
the figures that were last seen, and is called stale once that has lasted a few seconds. Standby replicas watch too: a
new leader must not have to list every member before it knows anything.

Never here: what follows for a quota (`member_usage`), and writing it down (`accounts`).
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import structlog

from federation_quota.census import Census
from federation_quota.elastic.running import Sight, Sorts
from federation_quota.kube import clusters, codec
from federation_quota.kube.backoff import Backoff
from federation_quota.kube.client import Client
from federation_quota.kube.clusters import CLUSTERS, PODS, Cluster, NotObservableError
from federation_quota.kube.error import KubeError
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.retry import Policy
from federation_quota.ledger.lens import Lens
from federation_quota.member_usage import Sighting
from federation_quota.placement import Placements
from federation_quota.pod import Footprint, Pod

log = structlog.get_logger()

# How long a member may be out of touch before it is called stale: streams break and are taken up again all the time.
STALE_SECONDS = 5.0
# How long nothing may come from a member before somebody asks whether it is still there.
IDLE_SECONDS = 30.0
# How often pods that should be gone are looked for.
EXPIRY_SECONDS = 5.0
# How often the Secret of a member that does not answer is read again: its CA may have changed.
RECHECK_SECONDS = 10.0
_BACKOFF = Backoff(first_seconds=0.5, most_seconds=10.0)


class Member:
    """One member cluster, as this replica sees it. `run` for as long as its Cluster says the same."""

    def __init__(
        self, cluster: Cluster, on_change: Callable[[Iterable[str]], None], on_state: Callable[[str], None]
    ) -> None:
        self.cluster = cluster
        self.census = Census(on_change)
        self.problem = ""  # why it is stale; empty as long as it is not
        self.is_seen = False  # whether its pods were ever listed
        self._on_state = on_state
        self._heard: datetime | None = None  # when it was last heard, once it is out of touch
        self._trouble: KubeError | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def last_seen(self) -> datetime:
        """When its pods were last as the census has them."""
        return self._heard or datetime.now(UTC)

    async def run(self, federation: Client) -> NoReturn:
        """Watch its pods until cancelled, whatever happens there."""
        failures = 0
        while True:
            try:
                await self._follow(federation)
                failures = 0
            except KubeError as problem:
                self._contact(problem)
            except Exception as problem:  # about one member: the others go on
                log.exception("member.failed", cluster=self.cluster.name)
                self._contact(KubeError(f"{type(problem).__name__}: federation-quota's log says more"))
            failures += 1
            await asyncio.sleep(_BACKOFF.delay(failures))

    def move(self, cluster: Cluster) -> None:
        """It is the same cluster, by another way: what was seen of it stays until it is seen again."""
        self.cluster = cluster
        self._calm()

    def close(self) -> None:
        """It is not looked at any more."""
        self._calm()

    async def _follow(self, federation: Client) -> None:
        """List and watch, until the way there is another."""
        connection, material = await clusters.connect(federation, self.cluster)
        # What fails is taken up again by the reflector, which says so; tried again below it, nobody would know.
        async with Client(connection, connections=4, retry=Policy(attempts=1)) as client:
            reflector: Reflector[Pod] = Reflector(
                client,
                PODS,
                decode=codec.decode_pod,
                sink=self.census,
                idle_seconds=IDLE_SECONDS,
                on_contact=lambda problem: self._contact(problem, reflector.last_heard),
            )
            following = asyncio.create_task(reflector.run())
            try:
                while not following.done():
                    await asyncio.wait([following], timeout=RECHECK_SECONDS)
                    if self._trouble is None or material is None:
                        continue
                    with contextlib.suppress(KubeError):  # the federation's trouble is not this member's
                        if await clusters.read(federation, self.cluster) != material:
                            log.info("member.rotated", cluster=self.cluster.name)
                            return
                await following
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    def _contact(self, problem: KubeError | None, heard: float | None = None) -> None:
        """Word from the watch: it works, or it does not."""
        if problem is None:
            is_news = bool(self.problem) or not self.is_seen
            self._calm()
            self.is_seen, self.problem, self._heard = True, "", None
            if is_news:
                log.info("member.seen", cluster=self.cluster.name, pods=len(self.census))
                self._on_state(self.cluster.name)
            return
        if self._trouble is None:
            # Where there is no way at all, there is nothing to wait for.
            patience = 0.0 if isinstance(problem, NotObservableError) else STALE_SECONDS
            if self._heard is None:
                ago = time.monotonic() - heard if heard is not None else 0.0
                self._heard = datetime.now(UTC) - timedelta(seconds=ago)
            self._timer = asyncio.get_running_loop().call_later(patience, self._give_up)
        self._trouble = problem

    def _calm(self) -> None:
        """No trouble, so far."""
        self._trouble = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self.problem = str(self._trouble)
        log.warning("member.stale", cluster=self.cluster.name, problem=self.problem)
        self._on_state(self.cluster.name)


class Members:
    """Every member cluster of the federation."""

    def __init__(
        self,
        federation: Client,
        placements: Placements,
        on_change: Callable[[Iterable[str]], None],
        on_state: Callable[[str], None],
    ) -> None:
        self._federation = federation
        self._placements = placements
        self._on_change = on_change  # told the namespaces whose pods use other amounts than before
        self._on_state = on_state  # told of a cluster that came, went, was lost or found; "" for all of them
        self._members: dict[str, Member] = {}
        self._tasks: dict[str, asyncio.Task[NoReturn]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._clusters: Reflector[Cluster] = Reflector(federation, CLUSTERS, decode=clusters.decode, sink=self)

    @property
    def synced(self) -> asyncio.Event:
        """Set once it is known which members there are."""
        return self._clusters.synced

    async def run(self) -> NoReturn:
        """Watch all members, until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._clusters.run())
            while True:
                await asyncio.sleep(EXPIRY_SECONDS)
                for member in self._members.values():
                    member.census.expire(time.time())

    def sightings(self, namespace: str, lens: Lens) -> list[Sighting]:
        """What is known of every member now, as a quota of that namespace with that lens sees it."""
        found = []
        for name, member in self._members.items():
            bound = self._placements.bound(name, namespace, lens)
            if not member.is_seen:
                found.append(Sighting(name, bound, problem=member.problem))
                continue
            observed = member.census.observed(namespace, lens)
            last_seen = member.last_seen.strftime("%Y-%m-%dT%H:%M:%SZ")
            found.append(Sighting(name, bound, observed, last_seen, member.problem))
        return found

    def sorts(self, cluster: str, namespace: str) -> Iterable[Footprint]:
        """The sorts of pods that a namespace has in a cluster."""
        member = self._members.get(cluster)
        return member.census.sorts(namespace) if member else ()

    def pods(self, namespace: str) -> Sorts:
        """By cluster the sorts of pods that a namespace has there."""
        return {name: member.census.sorts(namespace) for name, member in self._members.items()}

    def sights(self) -> list[Sight] | None:
        """How every member is seen; None as long as some are yet to be looked at for the first time."""
        found = []
        for name, member in self._members.items():
            if not member.is_seen and not member.problem:
                return None
            last_seen = member.last_seen.strftime("%Y-%m-%dT%H:%M:%SZ") if member.problem else ""
            found.append(Sight(name, member.is_seen, member.problem, last_seen))
        return found if self.synced.is_set() else None

    def problems(self) -> Mapping[str, str]:
        """Every member, and why it is out of reach; empty where it is not."""
        return {name: member.problem for name, member in self._members.items()}

    def replace(self, items: Sequence[Cluster], version: int) -> None:
        """These and no others are members."""
        for name in self._members.keys() - {item.name for item in items}:
            self._remove(name)
        for item in items:
            self.upsert(item)
        self._on_state("")

    def upsert(self, item: Cluster) -> None:
        """A Cluster was stored; its status, which changes all the time, is not looked at."""
        known = self._members.get(item.name)
        if known is not None and known.cluster == item:
            return
        if known is not None and known.cluster.uid == item.uid:
            self._stop(item.name)
            known.move(item)
            member = known
        else:
            self._remove(item.name)
            member = self._members[item.name] = Member(item, self._on_change, self._on_state)
        log.info("member.joined", cluster=item.name, mode=item.mode, server=item.endpoint)
        if self._group is None:
            raise RuntimeError("members come while `run` does")
        self._tasks[item.name] = self._group.create_task(member.run(self._federation), name=f"member {item.name}")
        self._on_state(item.name)

    def delete(self, item: Cluster) -> None:
        """A Cluster is gone."""
        self._remove(item.name)

    def bookmark(self, version: int) -> None:
        """Nothing follows from it."""

    def _remove(self, name: str) -> None:
        member = self._members.pop(name, None)
        if member is not None:
            self._stop(name)
            member.close()
            log.info("member.removed", cluster=name)
            self._on_state(name)

    def _stop(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
