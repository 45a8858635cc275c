"""A second validating webhook, called at the same time as ours: what it refuses was admitted by us, and never comes."""

import base64
import json
import random
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from localfed import ports
from localfed.authority import Authority
from tests.federation.stage import Stage

REFUSAL = "refused by chance"


@asynccontextmanager
async def refusing(stage: Stage, share: float) -> AsyncIterator[None]:
    """Such a webhook for the bindings of one namespace; it refuses that share of what it is asked."""
    rng = random.Random(2)

    async def review(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())["request"]
        allowed = rng.random() >= share
        response = {"uid": asked["uid"], "allowed": allowed}
        if not allowed:
            response["status"] = {"code": 418, "message": REFUSAL}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    folder = stage.federation.directory.path / f"refuser-{uuid.uuid4().hex[:6]}"
    authority = Authority(folder, "refuser")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server", common_name="refuser"))
    port = ports.take(["refuser"], folder)["refuser"]
    app = web.Application()
    app.router.add_post("/", review)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, ports.LOOPBACK, port, ssl_context=context).start()
    name = f"refuser-{stage.namespace}"
    stage.federation.api.apply(_refuser(name, stage.namespace, port, authority.certificate.read_bytes()))
    try:
        yield
    finally:
        stage.federation.kubectl("delete", "validatingwebhookconfiguration", name)
        await runner.cleanup()


def _refuser(name: str, namespace: str, port: int, bundle: bytes) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "refuser.example.com",
                "clientConfig": {
                    "url": f"https://{ports.LOOPBACK}:{port}/",
                    "caBundle": base64.b64encode(bundle).decode(),
                },
                "rules": [
                    {
                        "apiGroups": ["work.karmada.io"],
                        "apiVersions": ["*"],
                        "resources": ["resourcebindings"],
                        "operations": ["CREATE", "UPDATE"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
