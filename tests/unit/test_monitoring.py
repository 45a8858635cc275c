"""The listener: expositions that Prometheus can read, one at a time, sampled when they are asked for."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import cast

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from federation_quota import metrics
from federation_quota.health import Health
from federation_quota.kube.authorization import Authorizer, ForbiddenError, PathAccess, UnauthenticatedError, User
from federation_quota.limits import usage
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.monitoring import Address, ListenError, Monitor

HOST = "127.0.0.1"


def free() -> Address:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return Address(HOST, probe.getsockname()[1])


@asynccontextmanager
async def listening(samples: list[int]) -> AsyncIterator[str]:
    address = free()
    async with Monitor(address, Health(ready={}, live={}), sample=lambda: samples.append(1)):
        yield f"http://{address}"


@pytest.mark.parametrize(
    ("accept", "content_type", "parse"),
    [
        ("", "text/plain", prometheus),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text", openmetrics),
    ],
)
async def test_both_formats_are_spoken(accept: str, content_type: str, parse: object) -> None:
    samples: list[int] = []
    headers = {"Accept": accept}
    async with (
        listening(samples) as root,
        aiohttp.ClientSession() as session,
        session.get(f"{root}/metrics", headers=headers) as answer,
    ):
        assert (answer.status, answer.content_type) == (200, content_type)
        text = await answer.text()
    assert callable(parse)
    names = {family.name for family in parse(text)}
    assert {one.name.removesuffix("_total") for one in metrics.definitions() if not one.is_guarded} <= names
    assert samples == [1]


async def test_several_scrapes_at_once_are_all_answered() -> None:
    samples: list[int] = []
    async with listening(samples) as root, aiohttp.ClientSession() as session:

        async def scrape() -> int:
            async with session.get(f"{root}/metrics") as answer:
                return len(await answer.read())

        sizes = await asyncio.gather(*(scrape() for _ in range(5)))
    assert min(sizes) > 1000
    assert len(samples) == 5


class Door:
    """Lets in who says so."""

    async def require(self, authorization: str | None, access: PathAccess) -> User:
        if authorization is None:
            raise UnauthenticatedError("who is there?")
        if authorization != f"Bearer {access}":
            raise ForbiddenError("not for you")
        return User("ann")


@pytest.fixture
def somebody() -> Iterator[None]:
    """Ann uses something, and her group may use more."""
    found = []
    for kind, name in ((USER, "ann"), (GROUP, "phds")):
        stored = usage.manifest(Subject("lab", kind, name))
        stored["metadata"] |= {"uid": name, "resourceVersion": "1"}
        nodes = [{"node": "vision", "used": {"cpu": "1"}, "maxResources": {"cpu": "3"}}]
        found.append(usage.read({**stored, "status": {"nodes": nodes}}))
    metrics.usage_amounts.show(found)
    yield
    metrics.usage_amounts.show(())


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
async def test_names_of_people_are_told_for_a_token_and_to_nobody_without(somebody: None, accept: str) -> None:
    async def scrape(address: Address, **headers: str) -> str:
        url, sent = f"http://{address}/metrics", {"Accept": accept, **headers}
        async with aiohttp.ClientSession() as session, session.get(url, headers=sent) as answer:
            assert answer.status == 200
            return await answer.text()

    address, health = free(), Health(ready={}, live={})
    async with Monitor(address, health, authorizer=cast(Authorizer, Door())):
        text = await scrape(address, Authorization="Bearer get /metrics")
    assert 'federation_quota_usage_used{kind="User",name="ann",' in text
    assert 'federation_quota_usage_limit{kind="Group",name="phds",' in text
    assert "federation_quota_admissions" in text, "with all else"

    address = free()
    async with Monitor(address, health):
        text = await scrape(address, Authorization="Bearer get /metrics")
    assert "federation_quota_admissions" in text
    for name in ("ann", "phds", "federation_quota_usage"):
        assert name not in text


async def tell(request: web.Request) -> web.Response:
    return web.Response(text=f"of {request.match_info['tree']}")


async def test_what_is_guarded_is_told_for_a_token_that_may_and_never_without() -> None:
    address, health = free(), Health(ready={}, live={})
    guarded = {"/of/{tree}": tell}
    door = cast(Authorizer, Door())
    async with Monitor(address, health, authorizer=door, guarded=guarded), aiohttp.ClientSession() as session:

        async def ask(path: str, token: str | None = None) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(f"http://{address}{path}", headers=headers) as answer:
                return answer.status, await answer.text()

        assert await ask("/of/lab", "get /of/lab") == (200, "of lab")
        assert (await ask("/of/lab"))[0] == 401
        assert (await ask("/of/lab", "get /of/shop"))[0] == 403
    address = free()
    async with (
        Monitor(address, health, guarded=guarded),
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}/of/lab") as answer,
    ):
        assert answer.status == 403, "whoever reaches the port may read metrics, and no names of people"
        assert "--metrics-authorization=token" in await answer.text()


async def test_a_port_that_is_taken_is_told_with_its_flag() -> None:
    address = free()
    health = Health(ready={}, live={})
    async with Monitor(address, health):
        with pytest.raises(ListenError, match=rf"cannot listen on {address} \(--metrics-listen\): "):
            async with Monitor(address, health):
                pass


@pytest.mark.parametrize(("text", "told"), [("0.0.0.0:8080", "0.0.0.0:8080"), ("[::]:8080", "[::]:8080")])
def test_addresses_are_read_and_told(text: str, told: str) -> None:
    assert str(Address.parse(text)) == told


@pytest.mark.parametrize("text", ["", "8080", ":8080", "host:", "host:http", "host:70000", "host:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form ADDRESS:PORT"):
        Address.parse(text)
