"""Events on the real API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from federation_quota.kube.client import Client
from federation_quota.kube.correlation import Reference
from federation_quota.kube.events import EVENTS, Recorder
from localfed.faultproxy import FaultProxy
from localfed.federation import Federation
from tests.kube.kinds import CONFIGMAPS, configmap, loads

pytestmark = pytest.mark.federation


@contextlib.asynccontextmanager
async def recording(client: Client, **options: Any) -> AsyncIterator[Recorder]:  # noqa: ANN401 - the recorder's own
    recorder = Recorder(client, component="federation-quota", instance="test-1", **options)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def stored(client: Client, namespace: str) -> list[dict[str, Any]]:
    pages = [page async for page in client.list(EVENTS, namespace)]
    return [loads(bytes(raw)) for page in pages for raw in page.items]


async def about(client: Client, namespace: str) -> Reference:
    made = loads(await client.create(CONFIGMAPS, configmap("a"), namespace))
    return Reference("v1", "ConfigMap", "a", namespace, made["metadata"]["uid"])


async def test_an_event_is_there_for_people_to_see_and_repeats_are_counted(
    client: Client, federation: Federation, namespace: str
) -> None:
    what = await about(client, namespace)
    async with recording(client) as recorder:
        for _ in range(4):
            recorder.record(what, "QuotaExceeded", "cpu: 3 asked, 2 left", is_warning=True)
        recorder.record(what, "Released", "there is room now")
        assert await recorder.drain(60)
    events = {event["reason"]: event for event in await stored(client, namespace)}
    assert set(events) == {"QuotaExceeded", "Released"}
    exceeded = events["QuotaExceeded"]
    assert (exceeded["count"], exceeded["type"]) == (4, "Warning")
    assert exceeded["involvedObject"]["uid"] == what.uid
    assert exceeded["source"]["component"] == "federation-quota"
    described = federation.kubectl("describe", "configmap", "a", "-n", namespace)
    assert "cpu: 3 asked, 2 left" in described
    assert "(x4 over" in described


async def test_events_about_objects_without_a_namespace_are_where_people_look(
    client: Client, federation: Federation, namespace: str
) -> None:
    uid = federation.kubectl.json("get", "namespace", namespace)["metadata"]["uid"]
    async with recording(client) as recorder:
        recorder.record(Reference("v1", "Namespace", namespace, uid=uid), "Mapped", "to a tenant")
        assert await recorder.drain(60)
    shown = federation.kubectl("get", "events", "-n", "default", f"--field-selector=involvedObject.uid={uid}")
    assert "to a tenant" in shown


async def test_an_event_that_has_expired_is_said_anew(client: Client, namespace: str) -> None:
    what = await about(client, namespace)
    async with recording(client) as recorder:
        recorder.record(what, "Held", "m")
        recorder.record(what, "Held", "m")
        assert await recorder.drain(60)
        (first,) = await stored(client, namespace)
        await client.delete(EVENTS, first["metadata"]["name"], namespace)
        recorder.record(what, "Held", "m")
        assert await recorder.drain(60)
    (again,) = await stored(client, namespace)
    assert again["count"] == 1
    assert recorder.dropped == 0


async def test_long_texts_and_names_are_shortened_to_what_the_server_takes(client: Client, namespace: str) -> None:
    async with recording(client) as recorder:
        recorder.record(Reference("v1", "ConfigMap", "n" * 253, namespace), "R" * 300, "ü" * 2000)
        assert await recorder.drain(60)
    (event,) = await stored(client, namespace)
    assert len(event["message"].encode()) <= 1024
    assert event["message"].endswith("…")
    assert recorder.dropped == 0


async def test_nobody_waits_for_a_server_that_hangs_and_the_queue_is_bounded(
    proxied: Client, proxy: FaultProxy, client: Client, namespace: str
) -> None:
    what = await about(client, namespace)
    proxy.hold()
    async with recording(proxied, capacity=5, timeout_seconds=60) as recorder:
        for number in range(50):
            recorder.record(what, "Held", f"m{number}")  # never waits
        assert recorder.dropped >= 44
        assert not await recorder.drain(0.1)
        proxy.cut()
        proxy.heal()
        assert await recorder.drain(60)
        recorder.record(what, "Released", "after all")
        assert await recorder.drain(60)
    assert "Released" in {event["reason"] for event in await stored(client, namespace)}


async def test_events_into_a_namespace_that_is_gone_are_dropped(client: Client, namespace: str) -> None:
    async with recording(client) as recorder:
        recorder.record(Reference("v1", "ConfigMap", "a", f"{namespace}-gone"), "Held", "m")
        assert await recorder.drain(60)
    assert recorder.dropped == 1
