"""Wakes a waiting test as soon as something is stored where it acts, so that no test looks again by the clock alone.

One thread follows, with watches of its own, what tests wait for most: in a test's namespace on the federation and in
its members, and the kinds without a namespace. What it carries is only that there is news: a condition is always
looked up anew in the API server, so that a slow watch can delay a test and never mislead it.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.clusters import CLUSTERS
from federation_quota.kube.error import KubeError
from federation_quota.kube.quotas import (
    COMPOSITE_ELASTIC_QUOTAS,
    ELASTIC_QUOTAS,
    KARMADA_QUOTAS,
    QUOTA_TREES,
    RESOURCE_BINDINGS,
    USAGE_ACCOUNTS,
)
from federation_quota.kube.resource import Resource
from localfed.federation import Federation

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
EVENTS = Resource("", "v1", "events", "Event")
IN_A_NAMESPACE = (RESOURCE_BINDINGS, KARMADA_QUOTAS, ELASTIC_QUOTAS, DEPLOYMENTS, EVENTS)
WITHOUT = (COMPOSITE_ELASTIC_QUOTAS, QUOTA_TREES, USAGE_ACCOUNTS, CLUSTERS)
# For what no watch tells of: logs, metrics, roles. Also the pause after a watch that failed.
LOOK_SECONDS = 0.2
# A burst of events is one piece of news. What has no namespace changes for other tests' sake most of the time.
COALESCE_SECONDS = 0.02
OF_ALL_SECONDS = 0.1


class News:
    """What has been stored since somebody last looked."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due: asyncio.TimerHandle | None = None
        self._clients: dict[str, asyncio.Task[Client]] = {}
        self._lasting: dict[str, list[asyncio.Task[None]]] = {}  # by federation: what has no namespace

    @property
    def count(self) -> int:
        """Rises with every change; to be read before a condition is looked up."""
        return self._count

    def wait(self, seen: int) -> None:
        """Return when something was stored since `seen` was read, and soon in any case."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != seen, LOOK_SECONDS)

    @contextlib.contextmanager
    def about(self, federation: Federation, *namespaces: str) -> Iterator[None]:
        """Follow what is stored in these namespaces while the block lasts; what has none is followed from then on."""
        follow = self._follow_all(federation, namespaces)
        running = asyncio.run_coroutine_threadsafe(follow, self._running_loop())
        try:
            yield
        finally:
            running.cancel()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="news", daemon=True).start()
        return self._loop

    async def _follow_all(self, federation: Federation, namespaces: Iterable[str]) -> None:
        async with asyncio.TaskGroup() as watches:
            for watch in await self._watches(federation, namespaces):
                watches.create_task(watch)

    async def _watches(self, federation: Federation, namespaces: Iterable[str]) -> list[Coroutine[Any, Any, None]]:
        kubeconfig = str(federation.directory.kubeconfig)
        control_plane = await self._client(kubeconfig, None)
        if kubeconfig not in self._lasting:
            lasting = [self._follow(control_plane, resource, None) for resource in WITHOUT]
            self._lasting[kubeconfig] = [asyncio.create_task(watch) for watch in lasting]
        watches = []
        for namespace in namespaces:
            watches += [self._follow(control_plane, resource, namespace) for resource in IN_A_NAMESPACE]
            for member in federation.members:
                watches.append(self._follow(await self._client(kubeconfig, member), DEPLOYMENTS, namespace))
        return watches

    async def _client(self, kubeconfig: str, context: str | None) -> Client:
        """A client per cluster, for as long as the process lives."""

        async def connect() -> Client:
            connection = await config.load(kubeconfig=kubeconfig, context=context)
            return await Client(connection, connections=500).__aenter__()

        key = f"{kubeconfig} {context}"
        if key not in self._clients:
            self._clients[key] = asyncio.create_task(connect())
        return await self._clients[key]

    async def _follow(self, client: Client, resource: Resource, namespace: str | None) -> None:
        while True:
            with contextlib.suppress(KubeError):  # a kind that is not there, a server that is gone: looked at anew
                async with client.watch(resource, namespace, version=0, timeout_seconds=600) as lines:
                    async for _ in lines:
                        self._tell_soon(COALESCE_SECONDS if namespace else OF_ALL_SECONDS)
            await asyncio.sleep(LOOK_SECONDS)

    def _tell_soon(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._due is None or due < self._due.when():
            if self._due is not None:
                self._due.cancel()
            self._due = loop.call_at(due, self._tell)

    def _tell(self) -> None:
        self._due = None
        with self._changed:
            self._count += 1
            self._changed.notify_all()


NEWS = News()
