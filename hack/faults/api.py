"""The federation's API server, for clients that write down what it says instead of raising it."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from localfed.authority import Authority
from localfed.controlplane import FEDERATION, MASTERS
from localfed.federation import Federation
from localfed.ports import LOOPBACK

# An API server ends every write at 34 s: what has not been answered by then was not answered.
PATIENCE_SECONDS = 45.0

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; code 0 where nothing did."""

    code: int
    reason: str = ""
    message: str = ""
    body: dict[str, Any] | None = None


class Api:
    """One API server, with every right."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """One request, never tried again."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = json.dumps(body) if body is not None else None
        try:
            async with self._session.request(
                method, self._url + path, data=data, headers={"Content-Type": kind}
            ) as answer:
                text = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            return Answer(0, type(problem).__name__, str(problem))
        try:
            found = json.loads(text)
        except ValueError:
            found = {}
        if answer.status < 300:
            return Answer(answer.status, body=found)
        return Answer(answer.status, str(found.get("reason", "")), str(found.get("message", text[:200])))


@asynccontextmanager
async def connected(federation: Federation) -> AsyncIterator[Api]:
    """The federation's API server itself, whatever stands between it and the product."""
    state = federation.directory.load()
    if state is None:
        raise RuntimeError("there is no federation")
    authority = Authority(federation.directory.pki / FEDERATION, f"{FEDERATION}-ca")
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(*authority.issue("load", common_name="load", organizations=[MASTERS]))
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS, sock_connect=5)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Api(f"https://{LOOPBACK}:{state.ports[f'{FEDERATION}-apiserver']}", session)
