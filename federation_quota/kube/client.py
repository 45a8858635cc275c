"""A small client of one API server: the verbs, over one aiohttp session, bytes in and bytes out.

What to speak about is data (`Resource`); what is in the bytes is the caller's: this module never decodes an object.
Every call ends within its timeout, retries included. Retried is only what cannot have been done twice: what the server
says it did not carry out (429, or any refusal with Retry-After), what was never sent, and reads. A write that ends in
`NoAnswerError` may or may not have been carried out; a `ConflictError` may be about such a write of one's own.

Answers that matter in seconds (leader election) deserve a client of their own: here they would queue for a connection.
"""

import asyncio
import contextlib
import copy
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from enum import StrEnum
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from federation_quota import metrics
from federation_quota.kube import error, transport
from federation_quota.kube.config import Connection, Identity
from federation_quota.kube.resource import Resource
from federation_quota.kube.retry import Policy

Body = bytes | Mapping[str, Any] | list[Any] | msgspec.Struct
Params = dict[str, str | int | bool | None]

_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = 500


class PatchType(StrEnum):
    """How a patch is to be understood."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Page(msgspec.Struct, frozen=True):
    """One page of a list; all pages of one list are of one version."""

    items: list[msgspec.Raw]
    version: int
    remaining: int | None  # how many come after this page; None where the server does not say


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(default="0", name="resourceVersion")
    continuation: str = msgspec.field(default="", name="continue")
    remaining: int | None = msgspec.field(default=None, name="remainingItemCount")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_List)


class Client:
    """One API server. Used as an async context manager."""

    def __init__(
        self,
        connection: Connection,
        *,
        connections: int = 64,
        timeout_seconds: float = 30.0,
        retry: Policy = Policy(),  # noqa: B008 - frozen
        user_agent: str = "federation-quota",
        is_compressed: bool = False,  # pays over a slow network only: both sides would spend CPU on it
    ) -> None:
        self.connection = connection
        self._server = connection.server.rstrip("/")
        self._connections = connections
        self._timeout_seconds = timeout_seconds
        self._retry = retry
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "gzip" if is_compressed else "identity"}
        self._session: aiohttp.ClientSession | None = None
        self._permit: Callable[[], None] | None = None

    def permitted(self, permit: Callable[[], None]) -> Self:
        """This client, over the same connections, for whoever may change things only at times.

        Asked immediately before anything but a read is sent, every attempt of it; where it raises, nothing is.
        """
        if self._session is None:
            raise RuntimeError("a client is used inside its `async with` block")
        other = copy.copy(self)
        other._permit = permit
        return other

    async def __aenter__(self) -> Self:
        self._session = transport.session(self._connections, self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        only_metadata: bool = False,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """One object, as it is stored now."""
        path, accept = resource.item(name, namespace, subresource), _METADATA if only_metadata else _JSON
        return await self.request("GET", path, accept=accept, timeout_seconds=timeout_seconds)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = _PAGE,
        only_metadata: bool = False,
        timeout_seconds: float | None = None,
    ) -> AsyncGenerator[Page, None]:
        """All objects as of now, in pages; GoneError where the pages took longer than the server keeps them.

        The timeout is each page's.
        """
        params: Params = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": limit or None}
        path = resource.collection(namespace)
        while True:
            accept = _METADATA_LIST if only_metadata else _JSON
            body = await self.request("GET", path, params=params, accept=accept, timeout_seconds=timeout_seconds)
            try:
                page = _LIST.decode(body)
                version = int(page.metadata.version)
            except (msgspec.MsgspecError, ValueError) as problem:
                raise error.NoAnswerError(f"GET {path}: the answer is no list: {problem}") from problem
            yield Page(page.items or [], version, page.metadata.remaining)
            if not page.metadata.continuation:
                return
            params["continue"] = page.metadata.continuation

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        version: int,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int = 300,
        idle_seconds: float = 70.0,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The changes after that version, one event per line, bookmarks included.

        The stream ends when the server ends it (after `timeout_seconds` at the latest), with NoAnswerError when it
        breaks, with SilenceError when nothing came for `idle_seconds`. A line that was cut off is not given out.
        """
        params: Params = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": str(version),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "timeoutSeconds": timeout_seconds,
        }
        path = resource.collection(namespace)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=idle_seconds)
        async with self._exchange("GET", path, params, timeout=timeout) as answer:
            yield transport.lines(answer, f"watch of {path}")

    async def create(
        self,
        resource: Resource,
        body: Body,
        namespace: str | None = None,
        *,
        field_manager: str | None = None,
        is_dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Store a new object."""
        path = resource.collection(namespace)
        params = _write_params(field_manager, is_dry_run)
        return await self.request("POST", path, params=params, body=body, timeout_seconds=timeout_seconds)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        is_dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Store an object whole, under the resourceVersion that it carries. What it does not mention is removed."""
        path = resource.item(name, namespace, subresource)
        params = _write_params(field_manager, is_dry_run)
        return await self.request("PUT", path, params=params, body=body, timeout_seconds=timeout_seconds)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body,
        namespace: str | None = None,
        *,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - what everybody calls it
        subresource: str | None = None,
        field_manager: str | None = None,
        is_forced: bool = False,
        is_dry_run: bool = False,
        is_idempotent: bool = False,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Change an object; under its version where the patch names `metadata.resourceVersion`.

        Server-side apply (`PatchType.APPLY`) needs a field manager, creates what is not there, and with `is_forced`
        takes fields from other managers.
        """
        path = resource.item(name, namespace, subresource)
        params = _write_params(field_manager, is_dry_run)
        if is_forced:
            params["force"] = True
        return await self.request(
            "PATCH",
            path,
            params=params,
            body=body,
            content_type=type,
            is_idempotent=is_idempotent or type is PatchType.APPLY,
            timeout_seconds=timeout_seconds,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        propagation: str | None = None,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Delete an object: only that very one where its uid is given, only unchanged where its version is."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or version:
            pairs = (("uid", uid), ("resourceVersion", version))
            options["preconditions"] = {key: value for key, value in pairs if value}
        if propagation:
            options["propagationPolicy"] = propagation
        path = resource.item(name, namespace)
        return await self.request("DELETE", path, body=options, timeout_seconds=timeout_seconds)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Body | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        is_idempotent: bool | None = None,  # None: reads are
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Any request, answered within the timeout, retries included; ApiError or NoAnswerError otherwise."""
        allowed = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + allowed
        repeatable = method == "GET" if is_idempotent is None else is_idempotent
        encoded = body if isinstance(body, bytes) else None if body is None else msgspec.json.encode(body)
        if method != "GET":
            # The server gives up when we do: less is left in doubt after a timeout.
            params = {**(params or {}), "timeout": f"{allowed:.3f}s"}

        async def once() -> bytes:
            return await self._once(method, path, params, encoded, content_type, accept)

        try:
            async with asyncio.timeout(allowed):
                what = f"{method} {path}"
                return await self._retry.run(once, what, is_idempotent=repeatable, deadline=deadline)
        except TimeoutError:
            raise error.NoAnswerError(f"{method} {path}: no answer within {allowed:g} s") from None

    async def _once(
        self, method: str, path: str, params: Params | None, body: bytes | None, content_type: str, accept: str
    ) -> bytes:
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        async with self._exchange(method, path, params, body=body, headers=headers) as answer:
            with transport.translated(f"{method} {path}"):
                return await answer.read()

    @contextlib.asynccontextmanager
    async def _exchange(
        self,
        method: str,
        path: str,
        params: Params | None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout = transport.REQUEST,  # noqa: ASYNC109 - aiohttp's own, passed on
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One successful answer, its body still to be read; errors as ours. A refused identity is renewed once."""
        url = URL(f"{self._server}{path}{_query(params)}", encoded=True)
        credentials = self.connection.credentials
        verb = "WATCH" if params and "watch" in params else method
        with transport.translated(f"{method} {path}"):
            identity = await credentials.identity()
            answer = await self._send(method, url, identity, body, headers, timeout, verb)
            if answer.status == 401:
                await answer.read()  # kept by the answer, and the connection is free again
                if await credentials.renew(identity):
                    identity = await credentials.identity()
                    answer = await self._send(method, url, identity, body, headers, timeout, verb)
        try:
            if answer.status >= 300:
                with transport.translated(f"{method} {path}"):
                    said = await answer.read()
                after = answer.headers.get("Retry-After")
                raise error.from_answer(answer.status, said, retry_after=after, request=f"{method} {path}")
            yield answer
        finally:
            # A body that was read whole has already given its connection back; any other closes it.
            answer.close()

    async def _send(
        self,
        method: str,
        url: URL,
        identity: Identity,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, passed on
        verb: str,  # as it is counted
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("a client is used inside its `async with` block")
        tls: ssl.SSLContext | bool = identity.tls if identity.tls is not None else True
        if self._permit is not None and method != "GET":
            self._permit()
        code = "none"
        try:
            answer = await self._session.request(
                method,
                url,
                data=body,
                headers={**(headers or {}), **identity.headers},
                ssl=tls,
                server_hostname=self.connection.server_name,
                proxy=self.connection.proxy,
                proxy_headers=self.connection.proxy_headers or None,
                timeout=timeout,
                allow_redirects=False,  # an API server sends none; followed, one would carry the token elsewhere
            )
            code = str(answer.status)
        finally:
            metrics.api_requests.labels(verb, code).inc()
        return answer


def _write_params(field_manager: str | None, is_dry_run: bool) -> Params:
    return {"fieldManager": field_manager, "dryRun": "All" if is_dry_run else None}


def _query(params: Params | None) -> str:
    given = [(key, _text(value)) for key, value in (params or {}).items() if value is not None]
    return f"?{urlencode(given)}" if given else ""


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
