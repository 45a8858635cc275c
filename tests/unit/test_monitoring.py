"""The listener: expositions that Prometheus can read, one at a time, sampled when they are asked for."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from federation_quota import metrics
from federation_quota.health import Health
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
    assert {one.name.removesuffix("_total") for one in metrics.definitions()} <= names
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
