"""A reflector: one kind of object on one API server, mirrored into a sink by list and watch.

It lists (in pages, the next of which is under way while one is decoded), giving way to others all the time, then
follows the watch. A stream that ends or breaks is resumed from the last version seen; a version that the server no
longer keeps means listing again, and `replace` lets the sink find the difference. What it mirrors is always something
that was true: the sink sees each object's versions in order, and `version` says how far it has seen everything.

Decoding is the caller's function: an object that it refuses is counted and reported, and the mirror goes on. The sink
is called synchronously, before `version` moves; an exception of its own ends `run`, because a mirror with a hole must
not go on unnoticed. The caller owns `run` (in its TaskGroup) and ends it by cancelling.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec
import structlog

from federation_quota import metrics
from federation_quota.kube import error
from federation_quota.kube.backoff import Backoff, Jitter
from federation_quota.kube.client import Client
from federation_quota.kube.lookahead import look_ahead
from federation_quota.kube.milestone import Milestones
from federation_quota.kube.resource import Resource

log = structlog.get_logger()

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Where the objects go. Called from the event loop: it must neither block nor wait."""

    def replace(self, items: Sequence[T_contra], version: int) -> None:
        """These and no others exist, as of that version."""

    def upsert(self, item: T_contra) -> None:
        """It was created or changed, or is seen for the first time."""

    def delete(self, item: T_contra) -> None:
        """It was deleted; this is its last state, at the version of the deletion."""

    def bookmark(self, version: int) -> None:
        """Everything up to that version has been seen."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that the decoder refused."""

    namespace: str
    name: str
    uid: str
    version: str
    was_deleted: bool
    problem: Exception


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_EVENT = msgspec.json.Decoder(_Event)
_OBJECT = msgspec.json.Decoder(_Object)

# A watch that lasted this long worked: what ends it now is not one more failure in a row.
_HEALTHY_SECONDS = 10.0
# Objects of a list between which others have their turn, and the next page comes in: a millisecond or two.
_DECODED_AT_ONCE = 50
# How long a look at a single object may take.
_GLANCE_SECONDS = 10.0


class _BrokenStreamError(error.KubeError):
    """The stream said something that is no event."""


class Reflector(Generic[T]):
    """One mirror."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        decode: Callable[[bytes], T],
        sink: Sink[T],
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = 500,
        watch_seconds: int = 300,
        idle_seconds: float = 70.0,  # bookmarks come once a minute, where the store's version moves
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
        on_undecodable: Callable[[Undecodable], None] | None = None,
        on_rewind: Callable[[int, int], None] | None = None,  # the version seen, the lower one that is now
        on_contact: Callable[[error.KubeError | None], None] = lambda _problem: None,  # each failure; None: it follows
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Jitter = random.random,
    ) -> None:
        self._client = client
        self.resource = resource
        self._decode = decode
        self._sink = sink
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._page_size = page_size
        self._watch_seconds = watch_seconds
        self._idle_seconds = idle_seconds
        self._backoff = backoff
        self._on_undecodable = on_undecodable
        self._on_rewind = on_rewind
        self._on_contact = on_contact
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._log = log.bind(resource=resource.plural, group=resource.group, server=client.connection.server)
        self._milestones = Milestones()
        self._lists = Milestones()
        self._scope: asyncio.Timeout | None = None
        self._asked = 1  # lists asked for,
        self._listed = 0  # and how many of them are done
        self._is_listing = False
        self._is_paged = True
        self._failures = 0
        self.synced = asyncio.Event()
        self.version = 0  # everything up to here has been given to the sink
        self.last_heard: float | None = None  # when anything last came from the server, by the clock
        self.lists = 0
        self.reconnects = 0
        self.undecodable = 0
        self._counted_lists = metrics.relists.labels(resource.plural)
        self._counted_errors = metrics.watch_errors.labels(resource.plural)
        self._counted_undecodable = metrics.undecodable.labels(resource.plural)

    async def run(self) -> NoReturn:
        """Mirror until cancelled."""
        while True:
            try:
                async with asyncio.timeout(None) as self._scope:  # `refresh` ends it
                    await self._follow()
            except TimeoutError:
                if self._scope is None or not self._scope.expired():
                    raise
            finally:
                self._scope = None

    async def wait_for_version(self, version: int, timeout_seconds: float) -> bool:
        """Whether the sink has seen everything up to that version, waiting for it that long at most."""
        return await self._milestones.wait(version, timeout_seconds)

    async def refresh(self, timeout_seconds: float) -> bool:
        """List anew, from now: whether that was done within the time. Several callers share what follows."""
        # A list that is under way may have been read before this call: it does not count, and is not interrupted.
        self._asked += 1
        if self._scope is not None and not self._scope.expired() and not self._is_listing:
            self._scope.reschedule(asyncio.get_running_loop().time())
        return await self._lists.wait(self._asked, timeout_seconds)

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        heard = self.last_heard
        return {
            "resource": self.resource.plural,
            "server": self._client.connection.server,
            "namespace": self._namespace,
            "synced": self.synced.is_set(),
            "version": self.version,
            "heard_seconds_ago": None if heard is None else round(self._clock() - heard, 3),
            "lists": self.lists,
            "reconnects": self.reconnects,
            "failures_in_a_row": self._failures,
            "undecodable": self.undecodable,
        }

    @property
    def _needs_list(self) -> bool:
        return self._listed < self._asked

    async def _follow(self) -> NoReturn:
        while True:
            began = self._clock()
            problem: error.KubeError | None = None
            try:
                if not self._needs_list:
                    await self._check_for_rewind()
                while self._needs_list:
                    await self._list()
                began = self._clock()
                await self._watch()
            except error.GoneError as raised:
                # An expired page is of a list that was slow: the next is asked for whole.
                self._is_paged = not self._needs_list
                self._asked += not self._needs_list
                problem = raised
            except error.KubeError as raised:
                problem = raised
            self.reconnects += 1
            lasted = self._clock() - began
            self._failures = 1 if lasted >= _HEALTHY_SECONDS else self._failures + 1
            if lasted >= 1.0 and (problem is None or isinstance(problem, error.SilenceError)):
                # The server ended a stream that worked, as it does every few minutes; or nothing happens there, and
                # without news of any kind there is no bookmark either. The look that comes next tells that from death.
                continue
            if not isinstance(problem, error.GoneError):  # a server that says so is there
                self._on_contact(problem or _BrokenStreamError("the stream ended at once"))
            delay = self._backoff.delay(self._failures, self._jitter)
            self._counted_errors.inc()
            self._log.log(
                logging.INFO if problem is None or self._failures == 1 else logging.WARNING,
                "reflector.reconnecting",
                version=self.version,
                needs_list=self._needs_list,
                failures=self._failures,
                delay_seconds=round(delay, 3),
                error=str(problem or "the stream ended at once"),
            )
            await self._sleep(delay)

    async def _list(self) -> None:
        asked = self._asked
        self._is_listing = True
        # Whole only once: where that takes longer than anybody waits, pages may be faster the next time.
        is_paged, self._is_paged = self._is_paged, True
        try:
            items, version = await self._read(self._page_size if is_paged else 0)
        finally:
            self._is_listing = False
        if version < self.version:
            self._rewound(version)
        self._sink.replace(items, version)
        self.version = version
        self.lists += 1
        self._counted_lists.inc()
        if not self.synced.is_set():
            self._log.info("reflector.synced", version=version, objects=len(items))
            self.synced.set()
        self._milestones.reach(version)
        self._listed = asked
        self._lists.reach(asked)

    async def _read(self, limit: int) -> tuple[list[T], int]:
        items: list[T] = []
        version = 0
        pages = self._client.list(
            self.resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=limit,
        )
        async with contextlib.aclosing(look_ahead(pages)) as coming:
            async for page in coming:
                self.last_heard = self._clock()
                version = page.version
                for start in range(0, len(page.items), _DECODED_AT_ONCE):
                    items += self._decoded(page.items[start : start + _DECODED_AT_ONCE])
                    await asyncio.sleep(0)
        return items, version

    def _decoded(self, objects: Sequence[msgspec.Raw]) -> Iterator[T]:
        for raw in objects:
            body = bytes(raw)
            try:
                yield self._decode(body)
            except Exception as problem:  # whatever it is, it is about one object
                self._report(_metadata(body), problem, was_deleted=False)

    async def _check_for_rewind(self) -> None:
        """Has the server forgotten what we saw (an etcd that was restored)? It would stay silent until it caught up."""
        pages = self._client.list(
            self.resource,
            self._namespace,
            # By name too, where it reads by name: a role may allow no more.
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=1,
            timeout_seconds=_GLANCE_SECONDS,
        )
        async with contextlib.aclosing(pages):
            page = await anext(pages)
        self.last_heard = self._clock()
        self._asked += page.version < self.version

    async def _watch(self) -> None:
        seconds = self._watch_seconds + int(self._watch_seconds * self._jitter())  # not all at the same instant
        async with self._client.watch(
            self.resource,
            self._namespace,
            version=self.version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=seconds,
            idle_seconds=self._idle_seconds,
        ) as lines:
            self.last_heard = self._clock()
            self._on_contact(None)
            async for line in lines:
                self.last_heard = self._clock()
                self._take(line)
                self._failures = 0

    def _take(self, line: bytes) -> None:
        try:
            event = _EVENT.decode(line)
            body = bytes(event.object)
            if event.type == "ERROR":
                raise error.from_answer(500, body, request=f"watch of {self.resource.plural}")
            metadata = _OBJECT.decode(body).metadata
            version = int(metadata.version)
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            raise _BrokenStreamError(f"watch of {self.resource.plural}: not an event: {problem}") from problem
        if version < self.version:
            raise _BrokenStreamError(f"watch of {self.resource.plural}: {version} after {self.version}")
        if event.type == "BOOKMARK":
            self._sink.bookmark(version)
        else:
            was_deleted = event.type == "DELETED"
            try:
                item = self._decode(body)
            except Exception as problem:  # whatever it is, it is about one object
                self._report(metadata, problem, was_deleted=was_deleted)
            else:
                (self._sink.delete if was_deleted else self._sink.upsert)(item)
        self.version = version
        self._milestones.reach(version)

    def _rewound(self, version: int) -> None:
        self._log.error("reflector.rewound", seen=self.version, version=version)
        self._milestones.rewind(version)
        if self._on_rewind:
            self._on_rewind(self.version, version)

    def _report(self, metadata: _Metadata, problem: Exception, *, was_deleted: bool) -> None:
        self.undecodable += 1
        self._counted_undecodable.inc()
        named = (metadata.namespace, metadata.name, metadata.uid, metadata.version)
        self._log.error("reflector.undecodable", namespace=named[0], name=named[1], error=str(problem))
        if self._on_undecodable:
            self._on_undecodable(Undecodable(*named, was_deleted, problem))


def _metadata(body: bytes) -> _Metadata:
    try:
        return _OBJECT.decode(body).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Metadata()
