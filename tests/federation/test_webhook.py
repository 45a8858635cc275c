"""The webhook as a server: bad input gets a clear answer, and the process goes on."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from federation_quota.hooks import STAMP_BINDINGS, VALIDATE_BINDINGS, VALIDATE_QUOTAS
from localfed.federation import Federation
from tests.federation.test_concurrency import binding

pytestmark = pytest.mark.federation


@asynccontextmanager
async def calling(federation: Federation) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """The webhook, as the API server calls it: trusting exactly what the hook's configuration says."""
    configuration = federation.kubectl.json("get", "validatingwebhookconfiguration", "federation-quota-validating")
    client = configuration["webhooks"][0]["clientConfig"]
    context = ssl.create_default_context(cadata=base64.b64decode(client["caBundle"]).decode())
    root = client["url"].removesuffix(VALIDATE_BINDINGS)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session, root


def review(**request: Any) -> dict[str, Any]:  # noqa: ANN401
    asked = {
        "uid": "a-uid",
        "operation": "CREATE",
        "kind": {"group": "work.karmada.io", "version": "v1alpha2", "kind": "ResourceBinding"},
        "resource": {"group": "work.karmada.io", "version": "v1alpha2", "resource": "resourcebindings"},
        "namespace": "default",
        "name": "b",
        "userInfo": {"username": "somebody"},
        "dryRun": True,
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


async def ask(federation: Federation, path: str, body: bytes) -> tuple[int, str]:
    async with calling(federation) as (session, root), session.post(root + path, data=body) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "not an AdmissionReview"),
        (b"{", "not an AdmissionReview"),
        (b"[1, 2]", "not an AdmissionReview"),
        (
            b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {}}',
            "not an AdmissionReview",
        ),
        (b"\xff\xfe", "not an AdmissionReview"),
    ],
)
async def test_what_is_no_review_is_told_so(federation: Federation, body: bytes, word: str) -> None:
    status, said = await ask(federation, VALIDATE_BINDINGS, body)
    assert status == 400
    assert word in said


async def test_an_object_of_another_kind_or_shape_is_refused_clearly(federation: Federation) -> None:
    for path in (VALIDATE_BINDINGS, STAMP_BINDINGS):
        body = review(object={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}})
        status, said = await ask(federation, path, json.dumps(body).encode())
        assert status == 200
        response = json.loads(said)["response"]
        assert (response["uid"], response["allowed"], response["status"]["code"]) == ("a-uid", False, 400)


async def test_a_quantity_that_is_none_is_named(federation: Federation) -> None:
    broken = {"apiVersion": "quota.karmada.io/v1alpha1", "kind": "KarmadaQuota", "metadata": {"name": "q"}}
    broken["spec"] = {"hard": {"cpu": "NaN"}}
    status, said = await ask(federation, VALIDATE_QUOTAS, json.dumps(review(object=broken)).encode())
    response = json.loads(said)["response"]
    assert (status, response["allowed"], response["status"]["code"]) == (200, False, 422)
    assert "spec.hard[cpu]" in response["status"]["message"]
    assert "NaN" in response["status"]["message"]


async def test_what_an_api_server_can_send_is_read_and_far_more_is_not(federation: Federation) -> None:
    large = binding("b", "default", 1)
    large["metadata"]["annotations"] = {"note": "x" * 5_000_000}
    body = json.dumps(review(object={**large, "metadata": {**large["metadata"], "uid": "u"}})).encode()
    status, said = await ask(federation, VALIDATE_BINDINGS, body)
    assert status == 200
    assert json.loads(said)["response"]["allowed"] is True
    status, _ = await ask(federation, VALIDATE_BINDINGS, b"x" * 20_000_000)
    assert status == 413


async def test_who_does_not_trust_the_authority_gets_nowhere_and_others_go_on(federation: Federation) -> None:
    async with calling(federation) as (session, root):
        stranger = aiohttp.TCPConnector(ssl=ssl.create_default_context())
        async with aiohttp.ClientSession(connector=stranger) as wrong:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await wrong.get(f"{root}/readyz")
        reader, writer = await asyncio.open_connection(*root.removeprefix("https://").split(":"))
        writer.write(b"GET / HTTP/1.1\r\n\r\n")  # no TLS at all
        await writer.drain()
        assert await reader.read() == b""
        writer.close()
        async with session.get(f"{root}/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
