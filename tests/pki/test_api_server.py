"""The proof: a real API server calls webhooks under our certificates while the authority rotates, and none fails.

Two replicas serve, each with a hook of its own, so that every creation is judged by both. A leader rotates through the
real Secret and the real webhook configuration. Half of the answers close their connection, so that the API server
shakes hands, and verifies, all the time.
"""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509

from federation_quota.pki import publishing
from federation_quota.pki.authority import create_authority, to_pem
from federation_quota.pki.source import SignerView
from localfed.federation import Federation
from tests.pki.api import APPLY, Refusal, api_of
from tests.pki.rotating import KIND, Cluster, Leader, Replica, configuration, now

pytestmark = pytest.mark.federation


async def eventually(condition: Callable[[], bool], within_seconds: float) -> None:
    async with asyncio.timeout(within_seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def background(*tasks: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run these meanwhile; what they raise is raised here."""
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(_coroutine(task)) for task in tasks]
        yield
        for task in running:
            task.cancel()


async def _coroutine(task: Callable[[], Awaitable[None]]) -> None:
    await task()


@pytest.fixture
async def cluster(federation: Federation, namespace: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with api_of(federation, tmp_path) as api:
        yield Cluster(api, namespace)
        federation.kubectl("delete", KIND, namespace, "--ignore-not-found")


@pytest.mark.first(0)  # it takes a minute, whatever else goes on
async def test_not_one_admission_fails_while_the_authority_rotates(federation: Federation, cluster: Cluster) -> None:
    replicas = [Replica(cluster), Replica(cluster)]
    leaders = [Leader(cluster), Leader(cluster)]  # both at once: neither knows of the other
    created: Counter[str] = Counter()

    async def create() -> None:
        while True:
            try:
                await cluster.create_configmap()
                created["succeeded"] += 1
            except Refusal as refusal:
                created[str(refusal)] += 1
            await asyncio.sleep(0.15)

    def promotions() -> set[x509.Certificate]:
        return {certificate for leader in leaders for certificate in leader.signed}

    async with replicas[0].listening() as first, replicas[1].listening() as second:
        applied = configuration(cluster, [first, second])
        federation.api.apply(applied)
        actors = [*(replica.watch for replica in replicas), *(replica.keeper.run for replica in replicas)]
        async with background(*actors, *(leader.run for leader in leaders)):
            await eventually(lambda: all(replica.keeper.is_ready() for replica in replicas), 120)
            await _first_success(cluster)
            failures = [replica.keeper.status.failures for replica in replicas]  # of the time before the first
            async with background(create, create, create):
                await eventually(lambda: len(promotions()) == 2, 120)
                # The controller applies its configuration again, without a caBundle: that takes nothing away.
                await asyncio.to_thread(federation.kubectl.apply, applied)
                await eventually(lambda: len(promotions()) == 3, 120)
                served = {replica.keeper.status.fingerprint for replica in replicas}
                await eventually(lambda: not served & {replica.keeper.status.fingerprint for replica in replicas}, 120)
                await eventually(lambda: created.total() > 200, 120)  # however slow the machine is
        (last,) = await cluster.looked_at()

    assert set(created) == {"succeeded"}
    trust = set(publishing.trust_of([last]).values())
    assert len(trust) == 1
    ordered = sorted(promotions(), key=lambda certificate: certificate.not_valid_after_utc)
    assert ordered[0] not in next(iter(trust))  # the first has come and gone
    assert {*ordered[1:]} <= next(iter(trust))
    for replica in replicas:
        assert replica.calls["all"] >= created["succeeded"]
        assert replica.calls["closing"] > 100
        assert replica.calls["in a resumed session"] == 0  # client-go keeps no sessions: tickets are for others
        assert replica.keeper.status.loads >= 6
    assert [replica.keeper.status.failures for replica in replicas] == failures
    assert "PRIVATE KEY" not in base64.b64decode(last["webhooks"][0]["clientConfig"]["caBundle"]).decode()
    record(created, replicas)


def record(created: Counter[str], replicas: list[Replica]) -> None:
    """Shown by `pytest -rP`."""
    calls = [dict(replica.calls, loads=replica.keeper.status.loads) for replica in replicas]
    print(json.dumps({"created": created, "replicas": calls}))  # noqa: T201 - what was measured


async def _first_success(cluster: Cluster) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                return await cluster.create_configmap()
            except Refusal:  # its watch has not brought the first bundle yet
                await asyncio.sleep(0.1)


async def test_a_bundle_replaced_without_overlap_fails_and_a_stale_patch_is_refused(
    federation: Federation, cluster: Cluster
) -> None:
    """That the API server does verify, and what the rules of publishing protect from."""
    authority, other = create_authority(now()), create_authority(now())
    replicas = [Replica(cluster), Replica(cluster)]
    async with replicas[0].listening() as first, replicas[1].listening() as second:
        for replica in replicas:
            replica.view = SignerView(authority, now())
            await replica.keeper.refresh()
        federation.api.apply(configuration(cluster, [first, second]))
        stale = await cluster.looked_at()
        both = to_pem([other.certificate, authority.certificate])
        await cluster.publish(stale, both)
        await _first_success(cluster)

        with pytest.raises(Refusal) as refused:
            await cluster.publish(stale, to_pem([other.certificate]))
        assert refused.value.status == 422
        # The same holds for who applies whole configurations instead: with the version in what is applied.
        blind = configuration(cluster, [first, second])
        blind["metadata"]["resourceVersion"] = stale[0]["metadata"]["resourceVersion"]
        with pytest.raises(Refusal) as refused:
            await cluster.api.send("PATCH", f"{cluster.configuration}?fieldManager=test&force=true", blind, APPLY)
        assert refused.value.status == 409
        await cluster.create_configmap()

        await cluster.publish(await cluster.looked_at(), to_pem([other.certificate]))
        messages = set()
        for _ in range(40):
            try:
                await cluster.create_configmap()
            except Refusal as refusal:
                messages.add(str(refusal))
            await asyncio.sleep(0.05)
        assert any("certificate signed by unknown authority" in message for message in messages)
