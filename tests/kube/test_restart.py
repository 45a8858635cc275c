"""The reflector when the API server itself dies and returns, and when its store goes back in time.

On a small federation of its own: the run's is not for killing.
"""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from federation_quota.kube import config, error
from federation_quota.kube.client import Client
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard
from tests.kube.eventually import eventually
from tests.kube.kinds import CONFIGMAPS, configmap, loads
from tests.kube.mirror import Mirror, reflecting

pytestmark = [pytest.mark.federation, pytest.mark.own]

SHAPE = Shape(members=0, karmada=False)
SERVER = "federation-apiserver"


@pytest.fixture
async def small(guard: Guard, tmp_path: Path) -> AsyncIterator[Federation]:
    federation = Federation(tmp_path / "fed")
    federation.up(SHAPE, guard)
    yield federation
    federation.down()


@pytest.fixture
async def own(small: Federation) -> AsyncIterator[Client]:
    async with Client(await config.load(kubeconfig=str(small.directory.kubeconfig))) as client:
        yield client


async def test_an_api_server_that_is_killed_and_returns_loses_nothing(
    small: Federation, own: Client, guard: Guard
) -> None:
    mirror = Mirror()
    async with reflecting(own, "default", mirror) as reflector:
        await own.create(CONFIGMAPS, configmap("kept"), "default")
        await own.create(CONFIGMAPS, configmap("doomed"), "default")
        await eventually(lambda: len(mirror.data()) == 2, "both are seen")
        seen = reflector.version

        small.kill(SERVER)
        await eventually(lambda: reflector.reconnects > 0, "its absence is noticed")
        small.up(SHAPE, guard)  # blocks this loop: what is written now is written behind the reflector's back
        small.kubectl("delete", "configmap", "doomed")
        small.kubectl("create", "configmap", "fresh")
        written = small.kubectl.json("get", "configmap", "fresh")["metadata"]["resourceVersion"]

        assert await reflector.wait_for_version(int(written), 120)
        assert sorted(mirror.data()) == ["fresh", "kept"]
        assert reflector.version > seen


async def test_a_version_from_before_the_restart_is_gone_and_is_listed_anew(
    small: Federation, own: Client, guard: Guard
) -> None:
    old = int(loads(await own.create(CONFIGMAPS, configmap("first"), "default"))["metadata"]["resourceVersion"])
    for number in range(5):
        await own.patch(CONFIGMAPS, "first", {"data": {"n": str(number)}}, "default")
    mirror = Mirror()
    async with reflecting(own, "default", mirror) as reflector:
        small.kill(SERVER)
        await eventually(lambda: reflector.reconnects > 0, "its absence is noticed")  # so the next watch is a new one
        small.up(SHAPE, guard)
        reflector.version = mirror.version = old  # as one that was away for long
        mirror.objects.clear()
        await eventually(lambda: "first" in mirror.data(), "it lists again", 120)
        assert mirror.data()["first"] == {"n": "4"}

    async def first_word() -> dict[str, object]:
        async with own.watch(CONFIGMAPS, "default", version=old, timeout_seconds=5) as lines:
            return loads(await anext(lines))

    try:
        word = await first_word()
    except error.GoneError:
        return
    assert word["type"] == "ERROR"
    assert word["object"]["code"] == 410  # type: ignore[index]


async def test_a_store_that_was_restored_from_a_backup_is_noticed(
    small: Federation, own: Client, guard: Guard, tmp_path: Path
) -> None:
    await own.create(CONFIGMAPS, configmap("kept"), "default")
    small.kill(SERVER)
    small.kill("etcd")
    shutil.copytree(small.directory.etcd, tmp_path / "backup")
    small.up(SHAPE, guard)

    rewinds: list[tuple[int, int]] = []
    mirror = Mirror()

    def on_rewind(seen: int, now: int) -> None:
        rewinds.append((seen, now))

    async with reflecting(own, "default", mirror, on_rewind=on_rewind) as reflector:
        # Far enough ahead that what the restarted server writes by itself does not catch up.
        for number in range(200):
            await own.patch(CONFIGMAPS, "kept", {"data": {"n": str(number)}}, "default")
        await own.create(CONFIGMAPS, configmap("lost"), "default")
        await eventually(lambda: "lost" in mirror.data(), "it is seen")
        seen = reflector.version

        small.kill(SERVER)
        small.kill("etcd")
        shutil.rmtree(small.directory.etcd)
        shutil.copytree(tmp_path / "backup", small.directory.etcd)
        small.up(SHAPE, guard)

        await eventually(lambda: rewinds, "the rewind is reported", 120)
        await eventually(lambda: "lost" not in mirror.data(), "what never happened is forgotten", 120)
        assert rewinds[0][0] >= seen
        assert rewinds[0][1] < seen
        assert mirror.data() == {"kept": {}}
        body = await own.create(CONFIGMAPS, configmap("new"), "default")
        assert await reflector.wait_for_version(int(loads(body)["metadata"]["resourceVersion"]), 30)
