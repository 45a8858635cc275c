"""Objects put into a local federation's etcd as its API server would have stored them: a hundred thousand in a minute.

Through the API server it would take several, and what is measured is reading. Custom resources are stored as JSON,
without the version, which is etcd's own.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import Iterable
from itertools import islice
from typing import Any

import aiohttp

from federation_quota.kube.resource import Resource
from localfed.authority import Authority
from localfed.controlplane import FEDERATION
from localfed.federation import Federation

_IN_ONE_TRANSACTION = 100
_WRITERS = 4


async def put(federation: Federation, resource: Resource, objects: Iterable[dict[str, Any]]) -> None:
    """Store them all."""
    remaining = iter(objects)
    url = f"https://127.0.0.1:{federation.spec('etcd').port}/v3/kv/txn"
    connector = aiohttp.TCPConnector(ssl=_identity(federation))

    async def write(session: aiohttp.ClientSession) -> None:
        while batch := list(islice(remaining, _IN_ONE_TRANSACTION)):
            body = json.dumps({"success": [{"requestPut": _entry(resource, one)} for one in batch]})
            async with session.post(url, data=body) as answer:
                said = await answer.text()
                if answer.status != 200:
                    raise RuntimeError(f"etcd: {answer.status}: {said[:200]}")

    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
        for _ in range(_WRITERS):
            tasks.create_task(write(session))


def _entry(resource: Resource, stored: dict[str, Any]) -> dict[str, str]:
    metadata = {key: value for key, value in stored["metadata"].items() if key != "resourceVersion"}
    key = f"/{FEDERATION}/{resource.group}/{resource.plural}/{metadata['namespace']}/{metadata['name']}"
    value = json.dumps({**stored, "metadata": metadata})
    return {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value.encode()).decode()}


def _identity(federation: Federation) -> ssl.SSLContext:
    authority = Authority(federation.directory.pki / "etcd", "etcd-ca")
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(*authority.issue(FEDERATION, common_name=FEDERATION))
    return context
