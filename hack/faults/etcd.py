"""etcd itself, over its HTTP gateway: what is stored, every version of it, and what an administrator does to it."""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from localfed.authority import Authority
from localfed.federation import Federation
from localfed.ports import LOOPBACK

ANSWER_SECONDS = 30.0


class CompactedError(Exception):
    """The versions that were asked for are not kept any more."""


class Etcd:
    """One etcd."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call; aiohttp's errors where it fails."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with self._session.post(self._url + path, json=body, timeout=timeout) as answer:
            answer.raise_for_status()
            found: dict[str, Any] = await answer.json(content_type=None)
            return found

    async def read(self, first: str, last: str) -> tuple[int, list[dict[str, Any]]]:
        """What is stored between two keys, and the version that this was so at."""
        found = await self.call("/v3/kv/range", {"key": encode(first), "range_end": encode(last)})
        return int(found["header"]["revision"]), found.get("kvs") or []

    async def watch(self, first: str, last: str, version: int) -> AsyncIterator[tuple[int, list[dict[str, Any]]]]:
        """Every version from that one on, in order: the version that is reached, and the events up to it."""
        request = {
            "create_request": {
                "key": encode(first),
                "range_end": encode(last),
                "start_revision": str(version),
                "progress_notify": True,
            }
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with self._session.post(self._url + "/v3/watch", json=request, timeout=timeout) as answer:
            answer.raise_for_status()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if not line.strip():
                        continue
                    said = json.loads(line)
                    if "result" not in said:
                        raise aiohttp.ClientError(f"the watch ended: {said}")
                    result = said["result"]
                    if result.get("canceled"):
                        if result.get("compact_revision"):
                            raise CompactedError(f"etcd keeps versions from {result['compact_revision']} on")
                        raise aiohttp.ClientError(f"the watch ended: {result.get('cancel_reason')}")
                    if not result.get("created"):  # which says how far the store is, not how far this watch is
                        yield int(result["header"]["revision"]), result.get("events") or []


@asynccontextmanager
async def connected(federation: Federation) -> AsyncIterator[Etcd]:
    """The federation's etcd, with a certificate of one's own."""
    state = federation.directory.load()
    if state is None:
        raise RuntimeError("there is no federation")
    authority = Authority(federation.directory.pki / "etcd", "etcd-ca")
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(*authority.issue("faults", common_name="faults"))
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
        yield Etcd(f"https://{LOOPBACK}:{state.ports['etcd']}", session)


def encode(text: str) -> str:
    """As etcd's gateway wants keys."""
    return base64.b64encode(text.encode()).decode()


def decode(text: str) -> bytes:
    """What it gives."""
    return base64.b64decode(text)
