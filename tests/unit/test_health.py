"""Health: which check fails, and why."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from federation_quota.health import STUCK_SECONDS, Health, not_stuck


class Facts:
    views = "bindings are still being read"
    trust = "nobody trusts it"
    busy_seconds = 0.0


@pytest.fixture
def facts() -> Facts:
    return Facts()


@pytest.fixture
def health(facts: Facts) -> Health:
    return Health(
        ready={"views": lambda: facts.views, "trust": lambda: facts.trust},
        live={"work": not_stuck(lambda: facts.busy_seconds)},
    )


@pytest.fixture
async def server(health: Health) -> AsyncIterator[BaseTestServer]:
    app = web.Application()
    app.add_routes(health.routes())
    async with TestServer(app) as server:
        yield server


async def get(server: BaseTestServer, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(server.make_url(path)) as answer:
        return answer.status, await answer.text()


async def test_it_is_not_ready_before_everything_is_and_says_what_is_missing(
    facts: Facts, server: BaseTestServer
) -> None:
    assert await get(server, "/readyz") == (503, "views: bindings are still being read\ntrust: nobody trusts it")
    facts.views = ""
    assert await get(server, "/readyz") == (503, "trust: nobody trusts it")
    facts.trust = ""
    assert await get(server, "/readyz") == (200, "ok")
    assert await get(server, "/livez") == (200, "ok")


async def test_draining_is_not_ready_but_alive(facts: Facts, health: Health, server: BaseTestServer) -> None:
    facts.views = facts.trust = ""
    health.drain()
    assert await get(server, "/readyz") == (503, "draining: this process was asked to end")
    assert await get(server, "/livez") == (200, "ok")


async def test_work_that_hangs_is_no_life(facts: Facts, server: BaseTestServer) -> None:
    facts.busy_seconds = STUCK_SECONDS - 1
    assert (await get(server, "/livez"))[0] == 200
    facts.busy_seconds = STUCK_SECONDS + 1
    assert await get(server, "/livez") == (503, "work: the same work has been under way for 181 s")
