"""The federation's API server over bare HTTP, for tests that ask it many things a second."""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from localfed.federation import Federation

JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """The API server's answer was not a success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """GET, POST, PUT, PATCH with the administrator's certificate."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def get(self, path: str) -> dict[str, Any] | None:
        """An object; None where there is none."""
        try:
            return await self.send("GET", path)
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise

    async def send(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Any request; Refusal where the answer is no success."""
        data = None if body is None else json.dumps(body)
        headers: Mapping[str, str] = {"Content-Type": content_type} if data else {}
        async with self._session.request(method, path, data=data, headers=headers) as response:
            answer: dict[str, Any] = await response.json()
            if response.status >= 400:
                raise Refusal(response.status, answer.get("message", ""))
            return answer


@asynccontextmanager
async def api_of(federation: Federation, folder: Path) -> AsyncIterator[Api]:
    """The API server of the federation itself."""
    config = json.loads(federation.directory.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
    identity = folder / "administrator.pem"
    identity.write_text(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
    context.load_cert_chain(identity)
    connector = aiohttp.TCPConnector(ssl=context)
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(cluster["server"], connector=connector, timeout=timeout) as session:
        yield Api(session)


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()
