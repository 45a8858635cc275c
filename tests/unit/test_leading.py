"""The controllers' own wiring: whatever a replica does as the leader, it sends nothing once its term is over."""

import asyncio
import contextlib
from collections.abc import Awaitable
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controllers import __main__ as program
from controllers.__main__ import Candidate
from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.elector import Leadership, LeadershipLostError, Timing
from federation_quota.kube.error import ApiError, ForbiddenError, InvalidError, KubeError, NoAnswerError
from tests.kube.eventually import eventually

LONG = Timing(lease_seconds=100, renew_deadline_seconds=90.0)


class Api:
    """An API server with nothing on it that takes everything, and remembers what it was sent."""

    def __init__(self) -> None:
        self.written: set[str] = set()

    async def handle(self, request: web.Request) -> web.Response:
        if request.method != "GET":
            self.written.add(request.path.split("/")[-2])
            return web.json_response({"metadata": {"name": "n", "resourceVersion": "2", "uid": "u"}})
        if "customresourcedefinitions" in request.path:
            return web.json_response({"status": {"conditions": [{"type": "Established", "status": "True"}]}})
        if "limit" in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)


@pytest.fixture
def api() -> Api:
    return Api()


async def lead(api: Api, leadership: Leadership, until: Awaitable[object]) -> None:
    """Everything that a leader does, until then; each part on its own, so that none hides behind another's failure."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    settings = Mock(webhook_url="https://webhook", is_warning_only=False, authority=None)
    settings.common.namespace, settings.common.system_users = "system", frozenset({"u"})
    async with TestServer(app) as server, Client(config.static(str(server.make_url("/")))) as client:
        candidate = Candidate(settings, client, client)
        candidate._leadership = leadership
        parts = [candidate._lead(leadership), candidate._authority.run(), candidate._sweep(), candidate._wake()]
        tasks = [asyncio.create_task(part) for part in parts]
        await until
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(tasks)


async def test_a_leader_writes(api: Api) -> None:
    term = Leadership(1, asyncio.get_running_loop().time(), LONG, asyncio.get_running_loop().time)
    # The last is a Secret of that namespace.
    written = {"customresourcedefinitions", "flowschemas", "system"}
    await lead(api, term, eventually(lambda: written <= api.written, "what a leader writes"))


class Trouble:
    """What has to be ensured, on an API server that answers so first."""

    def __init__(self, *refusals: KubeError) -> None:
        self.refusals = list(refusals)
        self.is_done = False

    async def ensure(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.is_done = True


async def test_an_api_server_in_trouble_ends_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "INSTALL_SECONDS", 0.0)
    trouble = Trouble(ApiError(502), NoAnswerError("cut off"), ApiError(429), ApiError(503))
    await program._persistently(trouble.ensure)
    assert trouble.is_done


@pytest.mark.parametrize("refusal", [ForbiddenError(403), InvalidError(422), LeadershipLostError("the term is over")])
async def test_a_refusal_is_final(refusal: KubeError) -> None:
    trouble = Trouble(refusal)
    with pytest.raises(type(refusal)):
        await program._persistently(trouble.ensure)
    assert not trouble.is_done


async def test_one_whose_term_is_over_writes_nothing(api: Api) -> None:
    term = Leadership(1, asyncio.get_running_loop().time() - 91, LONG, asyncio.get_running_loop().time)
    await lead(api, term, asyncio.sleep(1.0))
    assert api.written == set()
