"""Many administrators at once, two webhook replicas: a change of a tree is stored as a whole, or not at all."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from federation_quota import hooks
from federation_quota.kube import config, error
from federation_quota.kube.client import Client
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS
from federation_quota.kube.retry import Policy
from localfed.federation import Federation
from tests.federation.grove import Grove, Object, growing
from tests.federation.test_monitoring import WEBHOOKS, Scrape

# While so many changes are under way, everybody's namespaces and quotas have to wait.
pytestmark = [pytest.mark.federation, pytest.mark.alone]

HOOK = hooks.VALIDATE_ELASTIC.removeprefix("/")
# The API server keeps up to 25 idle connections to a webhook, and after a restart all of them may lead to one replica.
CLIENTS = 60
ROUNDS = 3


@pytest.fixture
def grove(federation: Federation, namespace: str) -> Iterator[Grove]:
    with growing(federation, namespace) as found:
        yield found


@asynccontextmanager
async def connected(federation: Federation) -> AsyncIterator[Client]:
    """A client that comes again when it is asked to, as every client of Kubernetes does."""
    connection = await config.load(kubeconfig=str(federation.directory.kubeconfig))
    async with Client(connection, connections=CLIENTS + 2, timeout_seconds=90, retry=Policy(attempts=100)) as client:
        yield client


async def stored(client: Client, grove: Grove) -> dict[str, Object]:
    found = {}
    async for page in client.list(COMPOSITE_ELASTIC_QUOTAS, label_selector=f"test={grove.name}"):
        for raw in page.items:
            item = json.loads(bytes(raw))
            found[item["metadata"]["name"].removeprefix(f"{grove.name}-")] = item
    return found


def child(grove: Grove, number: int, cpu: int, parent: str = "dept") -> Object:
    return grove.composite(
        f"c{number}", parent=grove.called(parent), min={"cpu": cpu}, namespaces=[grove.called(f"n{number}")]
    )


async def test_of_those_who_come_at_once_as_many_get_in_as_fit(grove: Grove, federation: Federation) -> None:
    grove.apply(grove.composite("dept", min={"cpu": 10}))
    outcomes: Counter[str] = Counter()
    before = decided(federation)
    async with connected(federation) as client:

        async def create(number: int) -> None:
            try:
                await client.create(COMPOSITE_ELASTIC_QUOTAS, child(grove, number, 4))
                outcomes["stored"] += 1
            except error.ApiError as refusal:
                outcomes["too much" if "more than its own min" in refusal.message else refusal.message] += 1

        for turn in range(ROUNDS):
            await asyncio.gather(*(create(number) for number in range(CLIENTS)))
            there = await stored(client, grove)
            assert len(there) == 1 + 2, f"turn {turn}: {sorted(there)}"
            gone = [name for name in there if name != "dept"]
            await asyncio.gather(*(client.delete(COMPOSITE_ELASTIC_QUOTAS, grove.called(name)) for name in gone))
    assert outcomes == {"stored": 2 * ROUNDS, "too much": (CLIENTS - 2) * ROUNDS}
    assert all(now > then for now, then in zip(decided(federation), before, strict=True)), "both replicas did that"


async def test_nothing_slips_below_a_parent_that_goes(grove: Grove, federation: Federation) -> None:
    outcomes: Counter[str] = Counter()
    async with connected(federation) as client:

        async def create(number: int) -> None:
            try:
                await client.create(COMPOSITE_ELASTIC_QUOTAS, child(grove, number, 1, "going"))
                outcomes["child"] += 1
            except error.ApiError as refusal:
                is_known = "no such CompositeElasticQuota" in refusal.message
                outcomes["no parent" if is_known else refusal.message] += 1

        async def remove() -> None:
            try:
                await client.delete(COMPOSITE_ELASTIC_QUOTAS, grove.called("going"))
                outcomes["gone"] += 1
            except error.ApiError as refusal:
                outcomes["stays" if "below it" in refusal.message else refusal.message] += 1

        for turn in range(ROUNDS):
            await client.create(COMPOSITE_ELASTIC_QUOTAS, grove.composite("going", min={"cpu": 10}))
            first = [remove()] if turn % 2 else []
            last = [] if turn % 2 else [remove()]
            await asyncio.gather(*first, *(create(number) for number in range(6)), *last)
            there = await stored(client, grove)
            assert "going" in there or not there, f"turn {turn}: {sorted(there)} have no parent"
            for names in (there.keys() - {"going"}, there.keys() & {"going"}):
                await asyncio.gather(*(client.delete(COMPOSITE_ELASTIC_QUOTAS, grove.called(name)) for name in names))
    assert outcomes["gone"] + outcomes["stays"] == ROUNDS
    assert outcomes["child"]
    assert outcomes.keys() <= {"gone", "stays", "child", "no parent"}


def decided(federation: Federation) -> list[float]:
    """How many changes of quotas each replica let through."""
    return [Scrape(federation, [name]).sum("admissions_total", hook=HOOK, result="allowed") for name in WEBHOOKS]
