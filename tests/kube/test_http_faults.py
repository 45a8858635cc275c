"""Faults that no real API server can be made to show: played by a small HTTP server, one script per test."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from federation_quota.kube import config, error, presence
from federation_quota.kube.backoff import Backoff
from federation_quota.kube.client import Client
from federation_quota.kube.discovery import Discovery
from federation_quota.kube.elector import LeadershipLostError
from federation_quota.kube.retry import Policy
from federation_quota.kube.roster import Roster
from tests.kube.eventually import eventually
from tests.kube.kinds import CONFIGMAPS, configmap
from tests.kube.mirror import Mirror, reflecting

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[Client]:  # noqa: ANN401 - the client's own
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server, Client(config.static(str(server.make_url("/"))), **options) as client:
        yield client


class Naps:
    """Sleeps that take no time, and are remembered."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def status(code: int, reason: str = "", **details: object) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "m", "details": details}


def stored(name: str, version: int) -> dict[str, Any]:
    body = configmap(name)
    body["metadata"]["resourceVersion"] = str(version)
    return body


def listed(version: int, *items: dict[str, Any]) -> web.Response:
    return web.json_response({"kind": "List", "metadata": {"resourceVersion": str(version)}, "items": list(items)})


def event(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


async def streamed(request: web.Request, *chunks: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    return response


async def cut_off(request: web.Request, *chunks: bytes) -> web.StreamResponse:
    """A stream whose connection is cut in the middle."""
    response = await streamed(request, *chunks)
    assert request.transport is not None
    await asyncio.sleep(0.05)
    request.transport.abort()
    return response


async def test_a_storm_of_429_is_waited_out_as_the_server_asks_even_for_a_write() -> None:
    seen = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal seen
        seen += 1
        if seen < 4:
            return web.json_response(status(429, "TooManyRequests"), status=429, headers={"Retry-After": "2"})
        return web.json_response({}, status=201)

    naps = Naps()
    async with serving(handler, retry=Policy(sleep=naps)) as client:
        await client.create(CONFIGMAPS, configmap("a"), "n")
    assert seen == 4
    assert all(2 <= nap <= 3 for nap in naps.seconds)


async def test_permission_is_asked_before_every_attempt_of_a_write_and_never_for_a_read() -> None:
    seen: list[str] = []
    asked = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.method)
        if request.method == "GET":
            return web.json_response({})
        return web.json_response(status(429, "TooManyRequests"), status=429, headers={"Retry-After": "1"})

    def permit() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise LeadershipLostError("it is over")

    async with serving(handler, retry=Policy(sleep=Naps())) as client:
        with pytest.raises(LeadershipLostError, match="it is over"):
            await client.permitted(permit).patch(CONFIGMAPS, "a", {"data": {}}, "n")
        assert seen == ["PATCH", "PATCH"], "the third was not sent"
        await client.permitted(permit).get(CONFIGMAPS, "a", "n")
        assert asked == 3
        with pytest.raises(error.TooManyRequestsError):
            await client.delete(CONFIGMAPS, "a", "n")  # the client that it was made from asks nobody


async def test_it_gives_up_at_once_where_the_server_asks_for_more_time_than_there_is() -> None:
    seen = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal seen
        seen += 1
        return web.json_response(status(429, "TooManyRequests", retryAfterSeconds=60), status=429)

    naps = Naps()
    async with serving(handler, retry=Policy(sleep=naps)) as client:
        with pytest.raises(error.TooManyRequestsError) as refused:
            await client.create(CONFIGMAPS, configmap("a"), "n", timeout_seconds=5)
    assert refused.value.retry_after_seconds == 60
    assert (seen, naps.seconds) == (1, [])


async def test_attempts_are_bounded() -> None:
    seen = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal seen
        seen += 1
        return web.Response(status=503, text="<html>upstream is down</html>")

    async with serving(handler, retry=Policy(attempts=3, sleep=Naps())) as client:
        with pytest.raises(error.ApiError, match="upstream is down"):
            await client.get(CONFIGMAPS, "a", "n")
        assert seen == 3
        with pytest.raises(error.ApiError):  # nobody said that it was not carried out
            await client.create(CONFIGMAPS, configmap("a"), "n")
        assert seen == 4


async def test_a_refused_write_with_retry_after_is_repeated() -> None:
    seen = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal seen
        seen += 1
        if seen == 1:
            return web.json_response(status(500, "ServerTimeout", retryAfterSeconds=1), status=500)
        return web.json_response({})

    async with serving(handler, retry=Policy(sleep=Naps())) as client:
        await client.patch(CONFIGMAPS, "a", {}, "n")
    assert seen == 2


async def test_a_redirect_is_not_followed_and_takes_no_token_anywhere() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with serving(handler) as client:
        with pytest.raises(error.ApiError, match="307"):
            await client.get(CONFIGMAPS, "a", "n")
    assert seen == ["/api/v1/namespaces/n/configmaps/a"]


async def test_a_list_that_is_none_is_an_error_of_its_own() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>login</html>")

    async with serving(handler) as client:
        with pytest.raises(error.NoAnswerError, match="no list"):
            await anext(client.list(CONFIGMAPS))


async def test_half_a_line_is_not_an_event_and_is_read_again_whole() -> None:
    versions: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return listed(10 + len(versions))
        versions.append(request.query["resourceVersion"])
        whole, second = event("ADDED", stored("a", 11)), event("ADDED", stored("b", 12))
        if len(versions) == 1:
            return await cut_off(request, whole[:20], whole[20:] + second[:-30])
        if len(versions) == 2:
            return await cut_off(request, second)
        await asyncio.sleep(60)
        return web.Response()

    mirror = Mirror()
    async with serving(handler) as client, reflecting(client, "n", mirror) as reflector:
        assert await reflector.wait_for_version(12, 10)
        await eventually(lambda: len(versions) == 3, "it watches again")
    assert versions == ["10", "11", "12"]
    assert mirror.calls == [("replace", 10), ("upsert", "a"), ("upsert", "b")]
    assert reflector.lists == 1


async def test_gone_in_the_stream_means_listing_again() -> None:
    watches = lists = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal watches, lists
        if "watch" not in request.query:
            lists += 1
            return listed(10, stored("old", 5)) if lists == 1 else listed(30, stored("new", 25))
        watches += 1
        if watches == 1:
            return await streamed(request, event("ERROR", status(410, "Expired")))
        await asyncio.sleep(60)
        return web.Response()

    mirror = Mirror()
    async with serving(handler) as client, reflecting(client, "n", mirror) as reflector:
        assert await reflector.wait_for_version(30, 10)
    assert mirror.calls == [("replace", 10), ("replace", 30)]
    assert list(mirror.objects) == ["new"]
    assert lists == 2  # no look for a rewind in between: the list shows it


async def test_pages_that_expire_are_asked_for_whole() -> None:
    limits: list[str | None] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await asyncio.sleep(60)
        limits.append(request.query.get("limit"))
        if "continue" in request.query:
            return web.json_response(status(410, "Expired"), status=410)
        if "limit" in request.query:
            metadata = {"resourceVersion": "10", "continue": "more"}
            return web.json_response({"metadata": metadata, "items": [stored("a", 5)]})
        return listed(20, stored("a", 5), stored("b", 6))

    mirror = Mirror()
    async with serving(handler) as client, reflecting(client, "n", mirror, page_size=1):
        pass
    assert limits == ["1", "1", None]
    assert mirror.calls == [("replace", 20)]  # half a list was never shown


async def test_pages_are_tried_again_where_the_whole_is_too_much() -> None:
    limits: list[str | None] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await asyncio.sleep(60)
        limits.append(request.query.get("limit"))
        if "limit" not in request.query:
            return web.json_response(status(504, "Timeout"), status=504)
        if "continue" in request.query and len(limits) == 2:
            return web.json_response(status(410, "Expired"), status=410)
        metadata = {"resourceVersion": "20", "continue": "" if "continue" in request.query else "more"}
        return web.json_response({"metadata": metadata, "items": [stored(f"c{len(limits)}", 5)]})

    mirror = Mirror()
    once = Policy(attempts=1)
    async with serving(handler, retry=once) as client, reflecting(client, "n", mirror, page_size=1, sleep=Naps()):
        pass
    assert limits == ["1", "1", None, "1", "1"]
    assert mirror.calls == [("replace", 20)]


async def test_a_world_that_went_back_in_time_is_noticed_although_its_watch_is_silent() -> None:
    lists = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal lists
        if "watch" in request.query:
            if lists == 1:
                return await cut_off(request, event("ADDED", stored("a", 1100)))
            await asyncio.sleep(60)  # a watch from the future says nothing
        lists += 1
        return listed(1000) if lists == 1 else listed(900, stored("old", 800))

    rewinds: list[tuple[int, int]] = []
    mirror = Mirror()

    def on_rewind(seen: int, now: int) -> None:
        rewinds.append((seen, now))
        mirror.version = 0

    async with serving(handler) as client, reflecting(client, "n", mirror, on_rewind=on_rewind) as reflector:
        await eventually(lambda: mirror.calls[-1] == ("replace", 900), "it lists again")
        assert rewinds == [(1100, 900)]
        assert reflector.version == 900
        assert not await reflector.wait_for_version(1000, 0.05)  # what was reached before no longer counts


async def test_a_roll_from_a_store_that_went_back_in_time_does_not_take_the_living_for_gone() -> None:
    answers = [(1000, 900, "t1"), (500, 400, "t2"), (501, 401, "t3")]
    now = 0.0

    async def handler(request: web.Request) -> web.StreamResponse:
        version, changed, renewed = answers.pop(0)
        metadata = {"name": "webhook-a", "resourceVersion": str(changed)}
        spec = {"holderIdentity": "a", "leaseDurationSeconds": 10, "renewTime": renewed}
        return listed(version, {"metadata": metadata, "spec": spec})

    roster = Roster(lambda: now)
    async with serving(handler) as client:
        while answers:
            await presence.take_roll(client, "n", "app=webhook", roster)
            assert roster.live() == {"a"}
            now += 20.0


@pytest.mark.parametrize(
    "nonsense",
    [b"<html>\n", b"{}\n", b'{"type":"ADDED","object":{"metadata":{}}}\n', b'{"type":"BOOKMARK","object":[]}\n'],
)
async def test_a_stream_of_nonsense_is_left_and_resumed(nonsense: bytes) -> None:
    watches = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal watches
        if "watch" not in request.query:
            return listed(10)
        watches += 1
        if watches < 3:
            return await streamed(request, nonsense)
        response = await streamed(request, event("BOOKMARK", stored("", 50)))
        await asyncio.sleep(60)
        return response

    mirror = Mirror()
    async with serving(handler) as client, reflecting(client, "n", mirror) as reflector:
        assert await reflector.wait_for_version(50, 10)
    assert mirror.calls == [("replace", 10), ("bookmark", 50)]


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return listed(10) if "watch" not in request.query else await streamed(request)

    naps = Naps()
    patient = Backoff(first_seconds=1, most_seconds=30)
    async with serving(handler) as client, reflecting(client, "n", Mirror(), backoff=patient, sleep=naps):
        await eventually(lambda: len(naps.seconds) >= 8, "it tries again and again")
    assert naps.seconds[:4] == sorted(naps.seconds[:4])
    assert all(15 <= nap <= 30 for nap in naps.seconds[5:8])


async def test_discovery_without_aggregation_asks_group_by_group_and_survives_a_group_that_is_down() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        pods = {"name": "pods", "kind": "Pod", "namespaced": True}
        answers: dict[str, Any] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/api/v1": {"resources": [pods, {"name": "pods/status", "kind": "Pod", "namespaced": True}]},
            "/apis": {
                "kind": "APIGroupList",
                "groups": [
                    {
                        "name": "a.example",
                        "versions": [{"version": "v1"}, {"version": "v2"}],
                        "preferredVersion": {"version": "v2"},
                    },
                    {"name": "down.example", "versions": [{"version": "v1"}]},
                ],
            },
            "/apis/a.example/v1": {"resources": [{"name": "as", "kind": "A", "namespaced": False}]},
            "/apis/a.example/v2": {"resources": [{"name": "as", "kind": "A", "namespaced": False}]},
        }
        if request.path in answers:
            return web.json_response(answers[request.path])
        return web.json_response(status(503), status=503)

    async with serving(handler, retry=Policy(attempts=1)) as client:
        discovery = Discovery(client)
        assert (await discovery.of_kind("", "Pod")).plural == "pods"
        preferred = await discovery.of_kind("a.example", "A")
        assert (preferred.version, preferred.namespaced) == ("v2", False)


async def test_logs_and_errors_name_requests_but_never_tokens() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(status(401, "Unauthorized"), status=401)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server:
        connection = config.static(str(server.make_url("/")), token="s3cret-token")  # noqa: S106
        with capture_logs() as logs:
            async with Client(connection) as client:
                with pytest.raises(error.UnauthorizedError) as refused:
                    await client.get(CONFIGMAPS, "a", "n")
    assert "/configmaps/a" in str(refused.value)
    assert "s3cret" not in f"{logs} {refused.value!r} {connection!r} {vars(refused.value)}"
