"""A leader and replicas on a real API server: what carries out the rotation's steps, as small as it can be."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from aiohttp import web
from cryptography import x509

from federation_quota.pki import publishing, secret
from federation_quota.pki.authority import create_authority
from federation_quota.pki.publishing import Hook
from federation_quota.pki.rotation import Policy, Publish, Rest, RotationState, Store, next_step
from federation_quota.pki.serving import CertificateKeeper, ReloadableContext
from federation_quota.pki.source import InternalSource, SignerView
from tests.pki.api import JSON_PATCH, Api, Refusal
from tests.pki.tls import ADDRESS

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
        # The hook is called alike, and Karmada has not thousands of objects to look at for the rest of the run.
        await self.api.send("POST", f"{self.configmaps}?dryRun=All", body)

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
        self.view: SignerView | None = None
        self._trust: publishing.Trust = {}
        self.context = ReloadableContext()
        self.keeper = CertificateKeeper(
            InternalSource([ADDRESS], lambda: self.view, POLICY),
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
                self.view = SignerView(secret.decode(stored["data"]).signing, observed_at)
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
