"""The short version of `make faults`: some of its faults under load on the run's federation, and its checker.

Asserted is what must never be; how long recovery takes is for `make faults` to tell.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from faults import api, etcd, kills, roads, streams
from faults.__main__ import furnish
from faults.course import Course
from faults.fault import Scene
from faults.ground import Ground, lead_back, led_through_proxies
from faults.load import PLACES, Load, Place
from faults.recorder import recording
from localfed.federation import Federation
from localfed.fixtures import clear
from localfed.guard import Guard
from tests.federation.manifests import quota
from tests.federation.stage import Stage, eventually

# Whom the first of them kills, new quotas wait for; the second waits that time out, so that nobody else has to: but for
# those who start replicas anew, which do not know how long the dead have been dead.
pytestmark = [pytest.mark.federation, pytest.mark.alone]

CHOSEN = (
    "kill quota-webhook-1",
    "kill the leader",
    "cut connections between the API server and the webhook",
    "a storm of 5xx",
)


@pytest.fixture
async def ground(federation: Federation, guard: Guard) -> AsyncIterator[Ground]:
    """The run's federation with proxies on its roads, and put back as it was."""
    shape = federation.shape
    async with led_through_proxies(federation, guard) as ground:
        yield ground
        await lead_back(ground, shape)
    assert federation.shape == shape


@pytest.fixture
async def places(federation: Federation) -> AsyncIterator[tuple[Place, ...]]:
    """Namespaces of its own for the load."""
    mark = f"faults-{uuid.uuid4().hex[:6]}"
    places = tuple(replace(one, namespace=one.namespace.replace("faults", mark)) for one in PLACES)
    yield places
    for one in places:
        await asyncio.to_thread(clear, federation, one.namespace)


@pytest.mark.first(1)
async def test_nothing_is_over_admitted_leaked_or_denied_falsely_whatever_fails(
    ground: Ground, places: tuple[Place, ...]
) -> None:
    seed = random.randrange(10**6)
    faults = [one for one in (*kills.faults(), *roads.faults(), *streams.faults()) if one.name in CHOSEN]
    assert len(faults) == len(CHOSEN)
    await asyncio.to_thread(furnish, ground.federation, places)
    mark = places[0].namespace.rpartition("-")[0]
    async with (
        api.connected(ground.federation) as server,
        etcd.connected(ground.federation) as store,
        recording(store, mark) as recorder,
    ):
        load = Load(server, recorder, places, seed)
        course = Course(Scene(ground, recorder, store, random.Random(seed)), load, healthy_seconds=1.0)
        async with ground.supervised(), load.running():
            await course.run(faults)
            leaks = await course.settle()
    verdict = course.verdict(leaks)
    assert verdict.problems == [], f"with seed {seed}"
    assert verdict.denials > 0
    assert verdict.versions > 100
    assert [one.window.name for one in course.outcomes] == [one.name for one in faults]


@pytest.mark.first(2)
def test_a_new_quota_waits_for_those_who_died_and_no_longer(stage: Stage) -> None:
    stage.apply(quota("q", {"cpu": "1"}))
    eventually(lambda: stage.is_active("q"), what="quota q is active")
