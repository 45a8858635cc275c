"""What users and groups use, told to programs as YuniKorn's document has it: `GET /ws/v1/partition/{tree}/usage/users`.

Worked out anew from this replica's own view whenever somebody asks, one at a time and beside the loop: nobody's work
waits for it. Who may ask is the listener's business (`federation_quota.monitoring`). Standbys tell it, too.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web

from federation_quota.binding import Binding, ObjectKey
from federation_quota.elastic.forest import Forest
from federation_quota.kube import usage
from federation_quota.limits.report import GroupUsage, UserUsage
from federation_quota.monitoring import Teller

ROOT: Final = "/ws/v1/partition/{tree}/usage"

Told = Sequence[UserUsage] | Sequence[GroupUsage]
Tell = Callable[[Forest, str, Iterable[Binding]], Told]


class UsageTeller:
    """Answers about every tree."""

    def __init__(
        self,
        forest: Callable[[], Forest],
        bindings: Callable[[], Mapping[ObjectKey, Binding]],
        why_not: Callable[[], str] = lambda: "",  # why nothing can be told yet
    ) -> None:
        self._forest = forest
        self._bindings = bindings
        self._why_not = why_not
        self._turn = asyncio.Lock()

    def routes(self) -> dict[str, Teller]:
        """The paths, and who answers there."""
        return {
            f"{ROOT}/users": self._all(usage.users),
            f"{ROOT}/groups": self._all(usage.groups),
            f"{ROOT}/user/{{name}}": self._one(usage.users, "User"),
            f"{ROOT}/group/{{name}}": self._one(usage.groups, "Group"),
        }

    def _all(self, tell: Tell) -> Teller:
        async def answer(request: web.Request) -> web.Response:
            told = await self._told(request, tell)
            return _json([one.document() for one in told])

        return answer

    def _one(self, tell: Tell, kind: str) -> Teller:
        async def answer(request: web.Request) -> web.Response:
            name = request.match_info["name"]
            for one in await self._told(request, tell):
                if one.name == name:
                    return _json(one.document())
            raise web.HTTPNotFound(text=f"{kind} not found: {name[:80]!r} uses nothing, and no limit names it\n")

        return answer

    async def _told(self, request: web.Request, tell: Tell) -> Told:
        if reason := self._why_not():
            raise web.HTTPServiceUnavailable(text=f"{reason}\n", headers={"Retry-After": "1"})
        tree, forest = request.match_info["tree"], self._forest()
        if forest.root(tree) is None:
            raise web.HTTPNotFound(text=f"Partition not found: there is no tree {tree[:80]!r}\n")
        async with self._turn:
            bindings = list(self._bindings().values())
            return await asyncio.to_thread(tell, forest, tree, bindings)


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
