"""The reflector on the real API server, in fair weather and through a network that fails."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from federation_quota.kube.client import Client
from federation_quota.kube.reflector import Undecodable
from localfed.faultproxy import FaultProxy
from tests.kube.eventually import eventually
from tests.kube.kinds import CONFIGMAPS, configmap, loads
from tests.kube.mirror import Item, Mirror, reflecting

pytestmark = pytest.mark.federation


def version_of(body: bytes) -> int:
    return int(loads(body)["metadata"]["resourceVersion"])


async def test_it_lists_then_follows_creations_changes_and_deletions(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("before", x="0"), namespace)
    mirror = Mirror()
    async with reflecting(client, namespace, mirror) as reflector:
        assert mirror.data() == {"before": {"x": "0"}}
        await client.create(CONFIGMAPS, configmap("a", x="1"), namespace)
        await client.patch(CONFIGMAPS, "a", {"data": {"x": "2"}}, namespace)
        gone = version_of(await client.create(CONFIGMAPS, configmap("b"), namespace))
        await client.delete(CONFIGMAPS, "b", namespace)
        last = version_of(await client.patch(CONFIGMAPS, "a", {"data": {"x": "3"}}, namespace))
        assert last > gone
        assert await reflector.wait_for_version(last, 120)
        assert mirror.data() == {"before": {"x": "0"}, "a": {"x": "3"}}
        assert reflector.version == last == mirror.version
        assert reflector.lists == 1
        assert reflector.last_heard is not None
        assert time.monotonic() - reflector.last_heard < 120


async def test_pages_are_decoded_between_other_work(client: Client, namespace: str) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(60):
            group.create_task(client.create(CONFIGMAPS, configmap(f"c{number:02}"), namespace))
    mirror = Mirror()
    async with reflecting(client, namespace, mirror, page_size=7):
        assert len(mirror.data()) == 60
        assert [call[0] for call in mirror.calls] == ["replace"]


async def test_many_wait_for_a_version_and_those_who_give_up_leave_nothing_behind(
    client: Client, namespace: str
) -> None:
    mirror = Mirror()
    async with reflecting(client, namespace, mirror) as reflector:
        far = reflector.version + 1_000_000
        assert not any(await asyncio.gather(*(reflector.wait_for_version(far + i % 3, 0.05) for i in range(300))))
        assert len(reflector._milestones) == 0
        waiting = [asyncio.create_task(reflector.wait_for_version(reflector.version + 1, 120)) for _ in range(500)]
        await client.create(CONFIGMAPS, configmap("a"), namespace)
        assert all(await asyncio.gather(*waiting))
        assert await reflector.wait_for_version(reflector.version, 0)


async def test_a_dropped_stream_is_resumed_without_listing_again(
    client: Client, proxied: Client, proxy: FaultProxy, namespace: str
) -> None:
    mirror = Mirror()
    async with reflecting(proxied, namespace, mirror) as reflector:
        for number in range(5):
            proxy.cut()
            written = await client.create(CONFIGMAPS, configmap(f"c{number}"), namespace)
            assert await reflector.wait_for_version(version_of(written), 120)
        assert sorted(mirror.data()) == [f"c{number}" for number in range(5)]
        assert reflector.lists == 1
        assert [call for call in mirror.calls if call[0] == "upsert"] == [("upsert", f"c{n}") for n in range(5)]


async def test_it_recovers_from_a_server_that_was_not_there_at_first(
    client: Client, proxied: Client, proxy: FaultProxy, namespace: str
) -> None:
    proxy.refuse()
    asyncio.get_running_loop().call_later(0.5, proxy.heal)
    mirror = Mirror()
    async with reflecting(proxied, namespace, mirror) as reflector:
        assert await reflector.wait_for_version(
            version_of(await client.create(CONFIGMAPS, configmap("a"), namespace)), 10
        )


async def test_a_black_hole_is_noticed_and_nothing_is_lost(
    client: Client, proxied: Client, proxy: FaultProxy, namespace: str
) -> None:
    mirror = Mirror()
    async with reflecting(proxied, namespace, mirror, idle_seconds=1.0) as reflector:
        proxy.hold()
        body = await client.create(CONFIGMAPS, configmap("a"), namespace)
        await eventually(lambda: reflector.reconnects > 0, "the silence is noticed")
        assert "a" not in mirror.data()
        proxy.cut()  # what was held is lost, as with a host that went away
        proxy.heal()
        # A request that is under way ends with its connection; the next one finds the way.
        assert await reflector.wait_for_version(version_of(body), 120)
        assert reflector.lists == 1


async def test_an_object_that_cannot_be_decoded_is_reported_and_passed_over(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("bad-before", poison="1"), namespace)
    reported: list[Undecodable] = []
    mirror = Mirror()
    async with reflecting(client, namespace, mirror, on_undecodable=reported.append) as reflector:
        assert [(one.namespace, one.name, one.was_deleted) for one in reported] == [(namespace, "bad-before", False)]
        await client.create(CONFIGMAPS, configmap("bad", poison="1"), namespace)
        await client.delete(CONFIGMAPS, "bad", namespace)
        last = version_of(await client.create(CONFIGMAPS, configmap("good"), namespace))
        assert await reflector.wait_for_version(last, 120)
        assert list(mirror.data()) == ["good"]
        assert [(one.name, one.was_deleted) for one in reported[1:]] == [("bad", False), ("bad", True)]
        assert reflector.undecodable == 3
        assert reflector.lists == 1


async def test_refresh_lists_from_now(client: Client, proxied: Client, proxy: FaultProxy, namespace: str) -> None:
    mirror = Mirror()
    async with reflecting(proxied, namespace, mirror) as reflector:
        before = reflector.lists
        refreshed = await asyncio.gather(*(reflector.refresh(10) for _ in range(20)))
        assert all(refreshed)
        assert 1 <= reflector.lists - before <= 2  # shared
        for pauses in range(30):  # whatever it is doing at that moment
            asked = [asyncio.create_task(reflector.refresh(10))]
            for _ in range(pauses):
                await asyncio.sleep(0)
            asked.append(asyncio.create_task(reflector.refresh(10)))
            assert all(await asyncio.gather(*asked))
        proxy.hold()
        assert not await reflector.refresh(0.3)
        proxy.heal()
        body = await client.create(CONFIGMAPS, configmap("a"), namespace)
        assert await reflector.wait_for_version(version_of(body), 120)


async def test_a_sink_that_fails_is_not_passed_over(client: Client, namespace: str) -> None:
    class Faulty(Mirror):
        def replace(self, items: Sequence[Item], version: int) -> None:
            raise OSError("a hole in the mirror")

    with pytest.raises(OSError, match="a hole in the mirror"):
        async with reflecting(client, namespace, Faulty()):
            pass


async def test_cancelling_ends_it_and_its_connection(proxied: Client, proxy: FaultProxy, namespace: str) -> None:
    mirror = Mirror()
    async with reflecting(proxied, namespace, mirror):
        await eventually(lambda: proxy.open >= 1, "it watches")
    # The stream's connection cannot be used again; one that had been answered may still be kept.
    await eventually(lambda: proxy.open <= 1, "its stream is closed")
