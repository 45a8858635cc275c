"""The proof: a real API server calls webhooks under our certificates while the authority rotates, and none fails.

Two replicas serve, each with a hook of its own, so that every creation is judged by both. A leader rotates through the
real Secret and the real webhook configuration. Half of the answers close their connection, so that the API server
shakes hands, and verifies, all the time.
"""

import asyncio
import base64
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509

from federation_quota.pki import publishing, secret
from federation_quota.pki.authority import create_authority, to_pem
from federation_quota.pki.publishing import Hook
from federation_quota.pki.rotation import Policy, Publish, Rest, RotationState, Store, next_step
from federation_quota.pki.serving import CertificateKeeper, ReloadableContext
from federation_quota.pki.source import InternalSource, SignerView
from localfed.federation import Federation
from tests.pki.api import APPLY, JSON_PATCH, Api, Refusal, api_of
from tests.pki.tls import ADDRESS

pytestmark = pytest.mark.federation

KIND = "ValidatingWebhookConfiguration"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

# A life in a minute: an authority signs for half a minute.
POLICY = Policy(
    authority_lifetime=timedelta(seconds=45),
    leaf_lifetime=timedelta(seconds=15),
    settle=timedelta(seconds=3),
    view_limit=timedelta(seconds=3),
)


def now() -> datetime:
    return datetime.now(UTC)  # the API server has no other


class Cluster:
    """What leader and replicas know: the Secret and the configuration, both looked at live."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self.configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
        self.configuration = f"{CONFIGURATIONS}/{namespace}"
        self.hooks = [Hook(KIND, namespace, f"replica-{number}.pki.example") for number in range(2)]

    async def looked_at(self) -> list[dict[str, Any]]:
        found = await self.api.get(self.configuration)
        return [found] if found else []

    async def create_configmap(self) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "load-"}}
        await self.api.send("POST", self.configmaps, body)

    async def publish(self, configurations: list[dict[str, Any]], bundle: bytes) -> None:
        for patch in publishing.patches(configurations, bundle):
            await self.api.send("PATCH", self.configuration, patch.operations, JSON_PATCH)


class Leader:
    """Carries out what the state machine says."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.signed: list[x509.Certificate] = []
        self.published: list[frozenset[x509.Certificate]] = []

    async def run(self) -> None:
        mint = partial(create_authority, lifetime=POLICY.authority_lifetime)
        cluster = self._cluster
        while True:
            configurations = await cluster.looked_at()
            stored = await cluster.api.get(f"{cluster.secrets}/authority")
            state = secret.decode(stored["data"]) if stored else None
            trust = publishing.trust_of(configurations, cluster.hooks)
            step = next_step(state, list(trust.values()), now(), mint, POLICY)
            try:
                if isinstance(step, Store):
                    await self._store(step.state, stored)
                elif isinstance(step, Publish):
                    await cluster.publish(configurations, step.bundle)
                    self.published.append(frozenset(x509.load_pem_x509_certificates(step.bundle)))
            except Refusal as refusal:
                if refusal.status not in (409, 422):
                    raise
            if isinstance(step, Rest):
                await asyncio.sleep(0.2)

    async def _store(self, state: RotationState, stored: dict[str, Any] | None) -> None:
        metadata = {"name": "authority"}
        if stored:
            metadata["resourceVersion"] = stored["metadata"]["resourceVersion"]
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret.encode(state)}
        path = self._cluster.secrets
        await self._cluster.api.send("PUT" if stored else "POST", f"{path}/authority" if stored else path, body)
        if state.signing and state.signing.certificate not in self.signed:
            self.signed.append(state.signing.certificate)


class Replica:
    """A webhook that allows everything, under a certificate of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._view: SignerView | None = None
        self._trust: publishing.Trust = {}
        self.context = ReloadableContext()
        self.keeper = CertificateKeeper(
            InternalSource([ADDRESS], lambda: self._view, POLICY),
            self.context,
            now=now,
            trusts=lambda chain: publishing.is_trusted_everywhere(chain, self._trust),
            settle=timedelta(seconds=1),
            poll_seconds=0.2,
        )
        self.calls: Counter[str] = Counter()
        self._counter = itertools.count()

    async def watch(self) -> None:
        """Stands in for the reflector that the webhook will have."""
        while True:
            observed_at = now()
            stored = await self._cluster.api.get(f"{self._cluster.secrets}/authority")
            if stored:
                self._view = SignerView(secret.decode(stored["data"]).signing, observed_at)
            self._trust = publishing.trust_of(await self._cluster.looked_at(), self._cluster.hooks)
            await asyncio.sleep(0.2)

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        allowed = {"uid": review["request"]["uid"], "allowed": True}
        response = web.json_response(
            {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": allowed}
        )
        connection = request.get_extra_info("ssl_object")
        self.calls["all"] += 1
        self.calls["in a resumed session"] += bool(connection.session_reused)
        if next(self._counter) % 2:
            self.calls["closing"] += 1
            response.force_close()
        return response

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        application = web.Application()
        application.router.add_post("/", self.answer)
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            await web.TCPSite(runner, ADDRESS, 0, ssl_context=self.context.context).start()
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


def configuration(cluster: Cluster, ports: list[int]) -> dict[str, Any]:
    """Without caBundle, as the controller applies it: that field is another manager's."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": KIND,
        "metadata": {"name": cluster.namespace},
        "webhooks": [
            {
                "name": hook.name,
                "clientConfig": {"url": f"https://{ADDRESS}:{port}/"},
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 5,
                "admissionReviewVersions": ["v1"],
            }
            for hook, port in zip(cluster.hooks, ports, strict=True)
        ],
    }


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
            await asyncio.sleep(0.02)

    def promotions() -> set[x509.Certificate]:
        return {certificate for leader in leaders for certificate in leader.signed}

    async with replicas[0].listening() as first, replicas[1].listening() as second:
        applied = configuration(cluster, [first, second])
        federation.kubectl.apply(applied)
        actors = [*(replica.watch for replica in replicas), *(replica.keeper.run for replica in replicas)]
        async with background(*actors, *(leader.run for leader in leaders)):
            await eventually(lambda: all(replica.keeper.is_ready() for replica in replicas), 30)
            await _first_success(cluster)
            failures = [replica.keeper.status.failures for replica in replicas]  # of the time before the first
            async with background(create, create, create):
                await eventually(lambda: len(promotions()) == 2, 120)
                # The controller applies its configuration again, without a caBundle: that takes nothing away.
                await asyncio.to_thread(federation.kubectl.apply, applied)
                await eventually(lambda: len(promotions()) == 3, 120)
                served = {replica.keeper.status.fingerprint for replica in replicas}
                await eventually(lambda: not served & {replica.keeper.status.fingerprint for replica in replicas}, 30)
                await asyncio.sleep(2)
        (last,) = await cluster.looked_at()

    assert set(created) == {"succeeded"}
    assert created["succeeded"] > 200
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
    async with asyncio.timeout(30):
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
            replica._view = SignerView(authority, now())
            await replica.keeper.refresh()
        federation.kubectl.apply(configuration(cluster, [first, second]))
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
