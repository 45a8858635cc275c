"""Writes the history down while it happens, from etcd itself: no version is missed when an API server dies.

One watch over one range of keys, so that bindings and quotas come in the order in which they were stored. When etcd
dies too, the watch goes on at the version after the last one.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from faults import etcd, history
from faults.etcd import CompactedError, Etcd
from faults.history import Epoch, Event, History, Key, State

# Keys are /PREFIX/GROUP/RESOURCE/NAMESPACE/NAME; what lies between these two is little else.
PREFIX = "/federation"
QUOTAS = f"{PREFIX}/quota.karmada.io/karmadaquotas/"
BINDINGS = f"{PREFIX}/work.karmada.io/resourcebindings/"
FIRST, LAST = QUOTAS, BINDINGS[:-1] + "0"

RETRY_SECONDS = 0.2
LOST = (aiohttp.ClientError, OSError, TimeoutError)


class Recorder:
    """Follows one etcd; `history` is what it has written so far."""

    def __init__(self, source: Etcd, namespaces: str) -> None:
        self.history = History()
        self.began = time.monotonic()
        self._source = source
        self._namespaces = namespaces  # what the names of namespaces that matter begin with
        self._task: asyncio.Task[None] | None = None
        self._reached = 0

    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    async def start(self, reason: str = "", *, is_complete: bool = True) -> None:
        """Begin an epoch with what is stored now, and follow."""
        await self.stop()
        began, version, state = self.now(), 0, State()
        while not version:
            try:
                version, kvs = await self._source.read(FIRST, LAST)
            except LOST:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for kv in kvs:
                event = self._event(kv, version, is_deleted=False)
                if event:
                    state.take(event)
        self.history.begin(Epoch(began, version, state, reason, is_complete))
        self._reached = version
        self._task = asyncio.create_task(self._follow(), name="recorder")

    async def stop(self) -> None:
        """Follow no longer."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def caught_up(self, within_seconds: float = 30.0) -> None:
        """Return when everything that is stored now has been written down."""
        async with asyncio.timeout(within_seconds):
            while True:
                self.check()
                with contextlib.suppress(*LOST):
                    _, kvs = await self._source.read(FIRST, LAST)
                    newest = max((int(kv["mod_revision"]) for kv in kvs), default=0)
                    state = State()
                    for kv in kvs:
                        event = self._event(kv, newest, is_deleted=False)
                        if event:
                            state.take(event)
                    if self._reached >= newest and state == self.history.now:
                        return
                await asyncio.sleep(0.05)

    def check(self) -> None:
        """Raise what ended it, if anything did."""
        if self._task and self._task.done():
            self._task.result()

    async def _follow(self) -> None:
        while True:
            try:
                watch = self._source.watch(FIRST, LAST, self._reached + 1)
                async with contextlib.aclosing(watch) as answers:  # type: ignore[type-var]
                    async for version, events in answers:
                        for one in events:
                            self._take(one)
                        self._reached = max(self._reached, version if not events else self._reached)
            except LOST:
                await asyncio.sleep(RETRY_SECONDS)
            except CompactedError as lost:
                # The next epoch begins in a task of its own: this one ends with it.
                self._task = None
                await self.start(f"{lost}, and {self._reached} was the last one seen", is_complete=False)
                return

    def _take(self, one: dict[str, Any]) -> None:
        kv = one["kv"]
        version = int(kv["mod_revision"])
        event = self._event(kv, version, is_deleted=one.get("type") == "DELETE")
        if event:
            self.history.take(event)
        self._reached = version

    def _event(self, kv: dict[str, Any], version: int, *, is_deleted: bool) -> Event | None:
        path = etcd.decode(kv["key"]).decode()
        is_quota = path.startswith(QUOTAS)
        if not is_quota and not path.startswith(BINDINGS):
            return None
        namespace, _, name = path.removeprefix(QUOTAS if is_quota else BINDINGS).partition("/")
        if not namespace.startswith(self._namespaces):
            return None
        key, at = Key(namespace, name), self.now()
        if is_deleted:
            return Event(version, at, key, is_quota=is_quota)
        stored = json.loads(etcd.decode(kv["value"]))
        if is_quota:
            return Event(version, at, key, quota=history.read_quota(stored), is_quota=True)
        return Event(version, at, key, binding=history.read_binding(stored))


@contextlib.asynccontextmanager
async def recording(source: Etcd, namespaces: str) -> AsyncIterator[Recorder]:
    """From now on, until the block is left."""
    recorder = Recorder(source, namespaces)
    await recorder.start()
    try:
        yield recorder
    finally:
        await recorder.stop()
