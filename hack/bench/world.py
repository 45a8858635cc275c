"""Both deployables' parts around a federation of any size, in one process: what one event costs them.

Everything of the product's own is real: reflector, mirrors, view, accountant, reviews, reconcilers. The API server is
played from memory, because its time is none of ours: its pages are listed, its lines watched, its writes always taken,
and what it spends on them is not counted.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast

import msgspec

from bench import stored
from bench.leader import Leader
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.observation import Observation
from federation_quota.binding import ObjectKey
from federation_quota.kube import codec
from federation_quota.kube.client import Client, Page
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.quotas import RESOURCE_BINDINGS, QuotaStore, decode_quota
from federation_quota.kube.reflector import Reflector
from federation_quota.kube.resource import Resource
from federation_quota.kube.roster import Roster
from federation_quota.ledger.advance import Terms
from federation_quota.ledger.judging import Books
from webhook import review
from webhook.bindings import BindingReview

PAGE = 500
_FOREVER = 1e9


class Server:
    """The API server's part. `spent` is what playing it has taken, in nanoseconds of the processor."""

    connection = SimpleNamespace(server="https://memory")

    def __init__(self, bindings: Sequence[bytes], quotas: Sequence[dict[str, Any]]) -> None:
        self.version = 1_000_000
        self.spent = 0
        self.writes = 0
        self.written: list[bytes] = []  # since the last look
        self._bindings = bindings
        self._quotas = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in quotas}
        self._batches: asyncio.Queue[tuple[Sequence[bytes], asyncio.Future[int]]] = asyncio.Queue()

    async def list(self, _resource: Resource, *_: object, **__: object) -> AsyncIterator[Page]:
        """Every binding, in pages."""
        for start in range(0, len(self._bindings), PAGE):
            yield Page([msgspec.Raw(one) for one in self._bindings[start : start + PAGE]], self.version, None)

    @contextlib.asynccontextmanager
    async def watch(self, *_: object, **__: object) -> AsyncIterator[AsyncIterator[bytes]]:
        """What is given to `send`."""
        yield self._lines()

    async def send(self, lines: Sequence[bytes]) -> int:
        """Send these, and wait until they have been taken; the processor's time that this took, in nanoseconds."""
        taken: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._batches.put_nowait((lines, taken))
        return await taken

    async def _lines(self) -> AsyncIterator[bytes]:
        while True:
            lines, taken = await self._batches.get()
            began = time.process_time_ns()
            for line in lines:
                yield line
            taken.set_result(time.process_time_ns() - began)

    async def replace(
        self, _resource: Resource, name: str, body: Mapping[str, Any], namespace: str, **_: object
    ) -> bytes:
        """Store a quota's status."""
        sent = msgspec.json.encode(body)  # the client's part
        began = time.process_time_ns()
        self.version += 1
        self.writes += 1
        known = self._quotas[namespace, name]
        metadata = {**known["metadata"], "resourceVersion": str(self.version)}
        self._quotas[namespace, name] = {**known, "metadata": metadata, "status": msgspec.json.decode(sent)["status"]}
        self.written.append(msgspec.json.encode(self._quotas[namespace, name]))
        self.spent += time.process_time_ns() - began
        return self.written[-1]


class World:
    """So many bindings in so many namespaces, each of which has a quota."""

    def __init__(self, bindings: Sequence[bytes], namespaces: int) -> None:
        self.count = len(bindings)
        self._namespaces = namespaces
        quotas = [stored.quota(number) for number in range(namespaces)]
        self._accounts = [decode_quota(msgspec.json.encode(one)) for one in quotas]
        self._server = Server(bindings, quotas)
        self._client = cast(Client, self._server)
        self.observation = Observation()
        self._store = QuotaStore(
            self._client, self.observation, roster=Roster(float), presence_namespace="", presence_selector=""
        )
        self._tasks = asyncio.TaskGroup()
        self._serial = 0

    async def _follow(self, mirror: BindingMirror) -> None:
        reflector = Reflector(
            self._client, RESOURCE_BINDINGS, decode=codec.decode_stored_binding, sink=mirror, page_size=PAGE
        )
        self._tasks.create_task(reflector.run())
        await reflector.synced.wait()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # what is measured is over, here and elsewhere
            task.cancel()
        await self._tasks.__aexit__(kind, raised, traceback)

    @property
    def writes(self) -> int:
        """How many statuses were written."""
        return self._server.writes

    async def change(self, number: int) -> float:
        """What one event of a binding takes, in nanoseconds of the processor, over so many."""
        raise NotImplementedError

    def changes(self, number: int) -> list[tuple[ObjectKey, bytes]]:
        """So many scale-ups and scale-downs of bindings all over it, as the watch brings them."""
        found = []
        for _ in range(number):
            self._serial += 1
            index = self._serial * 7919 % self.count
            binding = stored.binding(index, self._namespaces)
            binding["spec"]["replicas"] = self._serial % 11 + 1
            found.append((_key(binding), self._event("MODIFIED", binding)))
        return found

    def _event(self, kind: str, binding: dict[str, Any]) -> bytes:
        self._server.version += 1
        binding["metadata"]["resourceVersion"] = str(self._server.version)
        return json.dumps({"type": kind, "object": binding}).encode()


class Replica(World):
    """A replica of the webhook in it."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._follow(BindingMirror(self.observation))
        accountant = Accountant(
            replica=lambda: "webhook-0",
            observation=self.observation,
            store=self._store,
            tasks=self._tasks,
            is_present=lambda: True,
            terms=Terms(worth=10**9),  # every admission with a write of its own: the dearer way
        )
        for account in self._accounts:
            accountant.learn(account)
            Books(account, self.observation.view)  # the first look at a namespace sums it up once
        self._review = BindingReview(accountant, is_system=lambda _user: False)
        return self

    async def change(self, number: int) -> float:
        """What one event of a binding takes."""
        return await self._server.send([line for _, line in self.changes(number)]) / number

    async def admit(self, number: int) -> float:
        """What one admission of a new binding takes. Each is stored and deleted before the next one comes."""
        took = 0
        for _ in range(number):
            self._serial += 1
            binding = stored.binding(10**7 + self._serial * 7919, self._namespaces)
            body = _creation(binding)
            spent, began = self._server.spent, time.process_time_ns()
            request = codec.decode_review(body)
            verdict = await self._review(request, _FOREVER)
            review.encode(request.uid, verdict)
            took += time.process_time_ns() - began - (self._server.spent - spent)
            if not verdict.is_allowed:
                raise AssertionError(f"refused: {verdict.message}")
            await self._server.send([self._event(kind, binding) for kind in ("ADDED", "DELETED")])
        self._server.written.clear()
        return took / number


class Controllers(World):
    """The controllers' leader in it."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._leader = Leader(self._client, self.observation, self._store)
        for account in self._accounts:
            self._leader.quotas.upsert(account)
        await self._follow(self._leader.bindings)
        for account in self._accounts:
            await self._reconcile(ObjectKey(account.namespace, account.name))
        return self

    async def change(self, number: int) -> float:
        """What one event of a binding takes, its quota's status and the event of that included."""
        changes = self.changes(number)
        took = await self._server.send([line for _, line in changes])
        spent, began = self._server.spent, time.process_time_ns()
        for key, _ in changes:
            await self._reconcile(ObjectKey(key.namespace, "everything"))
        took += time.process_time_ns() - began - (self._server.spent - spent)
        return took / number

    async def _reconcile(self, key: ObjectKey) -> None:
        await self._leader.accounts.reconcile(key)
        for body in self._server.written:
            self._leader.quotas.upsert(decode_quota(body))
        self._server.written.clear()


def listed(count: int, namespaces: int) -> list[bytes]:
    """So many bindings, as they are listed."""
    return [json.dumps(stored.binding(index, namespaces)).encode() for index in range(count)]


def _key(binding: dict[str, Any]) -> ObjectKey:
    return ObjectKey(binding["metadata"]["namespace"], binding["metadata"]["name"])


def _creation(binding: dict[str, Any]) -> bytes:
    metadata = {key: value for key, value in binding["metadata"].items() if key != "resourceVersion"}
    new = {**binding, "metadata": metadata, "status": {}}
    kind = {"group": "work.karmada.io", "version": "v1alpha2"}
    request = {
        "uid": metadata["uid"],
        "operation": "CREATE",
        "kind": {**kind, "kind": "ResourceBinding"},
        "resource": {**kind, "resource": "resourcebindings"},
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "userInfo": {"username": "system:karmada", "groups": ["system:masters"]},
        "object": new,
        "oldObject": None,
    }
    return json.dumps({"apiVersion": codec.REVIEW_VERSION, "kind": "AdmissionReview", "request": request}).encode()
