"""Judging a change of quotas beside everything: what is stored, and what any replica let through a moment ago.

- Nobody is refused for what this replica has not seen yet: before a refusal everything is read anew.
- Nobody is refused for what may never come: who does not fit beside a change that is under way comes again.
- A change is let through once it stands on the list of those under way, under the version that it was judged beside. So
  of two that fit only one by one, through whichever replicas, one is judged again.

What is right and wrong is the caller's: a look at a forest. Here it is said which forests are to be looked at.
"""

import asyncio
from collections.abc import Callable, Collection

import structlog

from federation_quota.elastic import underway
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.underway import MOST_AT_ONCE, Change
from federation_quota.kube import error
from federation_quota.kube.forest import NEWS_SECONDS, ForestMirror
from federation_quota.kube.underway import FullError, SharedUnderway
from webhook.review import Verdict, later

log = structlog.get_logger()

Look = Callable[[Forest], Verdict]
"""What is to be answered, if things stood so."""


class Deliberation:
    """How one replica decides about quotas and trees: one change at a time."""

    def __init__(self, mirror: ForestMirror, shared: SharedUnderway) -> None:
        self._mirror = mirror
        self._shared = shared
        self._turn = asyncio.Lock()

    @property
    def is_ready(self) -> bool:
        """Whether everything has been read once."""
        return self._mirror.is_synced and self._shared.reflector.synced.is_set()

    async def weigh(self, look: Look, deadline: float) -> Verdict:
        """What is to be answered, whatever becomes of what is under way."""
        return (await self._weigh(look, "", deadline))[0]

    async def admit(self, look: Look, change: Change, deadline: float) -> Verdict:
        """The same, and where it may be, everybody knows that it is under way."""
        clock = asyncio.get_running_loop().time
        async with self._turn:
            while True:
                verdict, over = await self._weigh(look, change.id, deadline)
                if not verdict.is_allowed:
                    return verdict
                try:
                    # No turn of the loop since it was judged: the list is the one that it was judged beside.
                    if await self._note(change, over, deadline - clock()):
                        return verdict
                except FullError as problem:
                    return later(str(problem))
                except error.KubeError as problem:
                    log.warning("deliberation.not_noted", name=change.name, problem=str(problem))
                    return later("it could not be noted that this change is under way")
                if clock() >= deadline:
                    return later("other changes of quotas are under way")

    async def _note(self, change: Change, over: Collection[str], timeout_seconds: float) -> bool:
        current, versions = self._shared.current, self._mirror.versions
        if any(one.id == change.id for one in current.changes):
            return True  # its answer was lost
        return await self._shared.write(current.without(over, versions).with_change(change), timeout_seconds)

    async def _weigh(self, look: Look, own: str, deadline: float) -> tuple[Verdict, Collection[str]]:
        """The answer, and which of those on the list are over."""
        clock = asyncio.get_running_loop().time
        expired = self._shared.expired()
        # What can no longer come has come, or has not: a view that was read since knows which.
        is_current = await (
            self._mirror.refresh(deadline - clock())
            if expired
            else self._mirror.catch_up(self._shared.current.observed, deadline - clock())
        )
        if not is_current:
            return later("quotas could not be read anew in time"), ()
        verdict = self._everywhere(look, own, expired)
        until = min(clock() + NEWS_SECONDS, deadline)
        while not verdict.is_allowed and self._open(own, expired) and await self._mirror.news(until - clock()):
            verdict = self._everywhere(look, own, expired)
        if not verdict.is_allowed:
            if not await self._mirror.refresh(deadline - clock()):
                return later("quotas could not be read anew in time"), ()
            verdict = look(self._mirror.forest)
            if verdict.is_allowed and not self._everywhere(look, own, expired).is_allowed:
                return later("another change of these quotas is under way"), ()
        open_ones = {one.id for one in self._open(own, expired)}
        return verdict, {one.id for one in self._shared.current.changes} - open_ones - {own}

    def _open(self, own: str, expired: Collection[str]) -> list[Change]:
        """What is under way, by whichever replica, but for oneself."""
        versions = self._mirror.versions
        return [
            one
            for one in self._shared.current.changes
            if one.id != own
            and one.id not in expired
            and not one.is_seen(self._mirror.identity_of(one.kind, one.name), versions[one.kind])
        ]

    def _everywhere(self, look: Look, own: str, expired: Collection[str]) -> Verdict:
        """The first refusal in any world that there may be; what is allowed in all is."""
        coming = self._open(own, expired)
        if len(coming) > MOST_AT_ONCE:
            return later("too many changes of quotas are under way")
        for world in underway.worlds(coming):
            verdict = look(self._mirror.forest_with(world))
            if not verdict.is_allowed:
                return verdict
        return verdict
