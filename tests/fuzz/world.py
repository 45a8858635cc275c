"""The webhook with all of its hooks, listening, on an API server that is a table.

The table stands in for the API server because it has to be put back between two examples in no time. It takes what the
schema of the CRD takes: a status that a real API server would refuse is refused here too.
"""

import asyncio
import base64
import copy
import functools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, cast

import aiohttp
import msgspec
import pydantic
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from federation_quota import hooks, karmadaquota
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.observation import Observation
from federation_quota.api.compositeelasticquota import CompositeElasticQuota
from federation_quota.api.karmadaquota import KarmadaQuota
from federation_quota.api.meta import Model
from federation_quota.api.usageaccount import UsageAccount
from federation_quota.elastic import leaf
from federation_quota.health import Health
from federation_quota.identity import Identities
from federation_quota.kube import codec, error
from federation_quota.kube.client import Client, Page
from federation_quota.kube.discovery import Discovery
from federation_quota.kube.lease import elapsed
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.quotas import (
    COMPOSITE_ELASTIC_QUOTAS,
    KARMADA_QUOTAS,
    RESOURCE_BINDINGS,
    USAGE_ACCOUNTS,
    QuotaStore,
    decode_elastic,
    decode_quota,
    decode_usage,
)
from federation_quota.kube.resource import Resource
from federation_quota.kube.roster import Roster
from federation_quota.limits import usage
from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.room import Room
from tests.unit.documents import BINDING
from tests.unit.forests import Mirror, Shared
from tests.unit.limits import TREE, schemes
from webhook.advice import Advice
from webhook.assignment import refuse_assignment
from webhook.bindings import BindingReview
from webhook.deliberation import Deliberation
from webhook.elastic import ElasticReview
from webhook.holding import Holding
from webhook.identity import IdentityReview
from webhook.namespaces import NamespaceReview
from webhook.quotas import QuotaReview
from webhook.server import Server
from webhook.stamping import Stamping
from webhook.waiting import WaitingList
from webhook.works import WorkReview
from webhook.writers import refuse_account, refuse_writer

TEAM = "team-a"
REPLICA = "here"
PATHS = (
    hooks.VALIDATE_BINDINGS,
    hooks.STAMP_BINDINGS,
    hooks.GUARD_BINDINGS,
    hooks.GUARD_ACCOUNTS,
    hooks.STAMP_TEMPLATES,
    hooks.VALIDATE_QUOTAS,
    hooks.VALIDATE_ELASTIC,
    hooks.MANAGE_ELASTIC,
    hooks.VALIDATE_NAMESPACES,
    hooks.VALIDATE_TENANTS,
    hooks.VALIDATE_WORKS,
    hooks.WARN_WORKLOADS,
    hooks.DENY_WORKLOADS,
)
# A stored binding, small beside the limits, so that updates have something to be compared with.
STORED = copy.deepcopy(BINDING)

_DISCOVERY = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": "apps"},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "deployments",
                            "responseKind": {"kind": "Deployment"},
                            "scope": "Namespaced",
                        }
                    ],
                }
            ],
        }
    ],
}


def stored_quota(name: str, limits: dict[str, str], on_exceeded: str = karmadaquota.DENY) -> dict[str, Any]:
    """A quota of the team's that its one replica has joined."""
    document: dict[str, Any] = {
        "apiVersion": "quota.karmada.io/v1alpha1",
        "kind": "KarmadaQuota",
        "metadata": {"namespace": TEAM, "name": name, "uid": f"uid-{name}", "resourceVersion": "5000", "generation": 1},
        "spec": {"hard": limits, "onExceeded": on_exceeded, "memberUsage": {"policy": "Report", "graceSeconds": 300}},
    }
    shape = karmadaquota.read(document).lens.shape
    document["status"] = {"shape": shape, "joined": [{"replica": REPLICA, "shape": shape}]}
    return document


QUOTAS = [
    stored_quota("cpu", {"cpu": "1000000", "pods": "2000000000"}),
    stored_quota("held", {"memory": "1Ei", "count/deployments.apps": "10"}, karmadaquota.HOLD),
]


def stored_leaf(name: str, runtime: dict[str, str]) -> dict[str, Any]:
    """An elastic quota that the one replica has joined, and that may use so much now."""
    document: dict[str, Any] = {
        "apiVersion": "quota.karmada.io/v1alpha1",
        "kind": "CompositeElasticQuota",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "5000", "generation": 1},
        "spec": {"min": runtime, "namespaces": [TEAM]},
    }
    shape = leaf.read(document).lens.shape
    document["status"] = {"runtime": runtime, "shape": shape, "joined": [{"replica": REPLICA, "shape": shape}]}
    return document


# The one that the stored binding is under.
LEAF = stored_leaf("team-a", {"cpu": "1000000", "memory": "1Ei"})

# Its owner's limits, and their group's, who have joined accounts as well.
LIMITS = schemes(
    {
        ROOT: [
            {"users": ["ann"], "maxResources": {"cpu": "1000000", "pods": "2000000000"}},
            {"groups": ["dev"], "maxResources": {"memory": "1Ei"}, "maxApplications": 10},
        ]
    }
)


def stored_account(kind: str, name: str) -> dict[str, Any]:
    """The account of somebody that the one replica has joined."""
    subject = Subject(TREE, kind, name)
    document = usage.manifest(subject)
    shape = usage.fitted(usage.unopened(subject), LIMITS).shape
    metadata = {**document["metadata"], "uid": f"uid-{name}", "resourceVersion": "5000"}
    return {
        **document,
        "metadata": metadata,
        "status": {"shape": shape, "joined": [{"replica": REPLICA, "shape": shape}]},
    }


ACCOUNTS = [stored_account(USER, "ann"), stored_account(GROUP, "dev")]

# A parent with room below it.
PARENT: dict[str, Any] = {
    "apiVersion": "quota.karmada.io/v1alpha1",
    "kind": "CompositeElasticQuota",
    "metadata": {"name": "dept", "uid": "uid-dept", "generation": 1},
    "spec": {"min": {"cpu": "10"}, "managers": [{"kind": "User", "name": "somebody"}]},
}


_MODELS: dict[Resource, type[Model]] = {
    KARMADA_QUOTAS: KarmadaQuota,
    COMPOSITE_ELASTIC_QUOTAS: CompositeElasticQuota,
    USAGE_ACCOUNTS: UsageAccount,
}


class Api:
    """An API server that is a table."""

    class _Connection:
        server = "https://table"

    connection = _Connection()

    def __init__(self) -> None:
        self.version = 5000
        self.quotas: dict[str, dict[str, Any]] = {}
        self.refused: list[str] = []  # why, for each write that was

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        only_metadata: bool = False,
        timeout_seconds: float | None = None,
    ) -> bytes:
        await asyncio.sleep(0)
        if resource in _MODELS and name in self.quotas:
            return json.dumps(self.quotas[name]).encode()
        if resource == RESOURCE_BINDINGS and (name, namespace) == (STORED["metadata"]["name"], TEAM):
            return json.dumps(STORED).encode()
        raise error.NotFoundError(404, "NotFound")

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: dict[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        timeout_seconds: float | None = None,
    ) -> bytes:
        await asyncio.sleep(0)
        assert (resource.namespaced, subresource) == (namespace == TEAM, "status")
        current = self.quotas[name]
        document = {**current, "status": json.loads(msgspec.json.encode(body["status"]))}
        try:
            _MODELS[resource].model_validate(document)
        except pydantic.ValidationError as problem:
            self.refused.append(str(problem))
            raise error.InvalidError(422, "Invalid", str(problem)) from None
        if body["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise error.ConflictError(409, "Conflict")
        return json.dumps(self.put(document)).encode()

    def put(self, document: dict[str, Any]) -> dict[str, Any]:
        """Store a quota at the next version."""
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        stored = self.quotas[metadata["name"]] = {**document, "metadata": metadata}
        return stored

    async def list(self, resource: Resource, *_place: object, **_options: object) -> AsyncIterator[Page]:
        yield Page([], self.version, 0)

    async def request(self, method: str, path: str, **_options: object) -> bytes:
        await asyncio.sleep(0)
        return json.dumps(_DISCOVERY if path == "/apis" else {**_DISCOVERY, "items": []}).encode()


@dataclass(frozen=True)
class Answer:
    """What came back, and what was written into the log meanwhile."""

    status: int
    body: bytes
    log: list[dict[str, Any]]
    charges: dict[str, dict[str, str]]
    """What each quota has reserved for the binding of the review, if it has."""
    refused_writes: list[str]

    @property
    def response(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["response"]
        return found

    @property
    def patch(self) -> list[dict[str, Any]]:
        operations: list[dict[str, Any]] = json.loads(base64.b64decode(self.response["patch"]))
        return operations


class World:
    """One replica of the webhook, in a loop of its own that stands still between two questions."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._start())

    async def _start(self) -> None:
        self.api = api = Api()
        client = cast(Client, api)
        observation = Observation()
        mirror = BindingMirror(observation)
        store = QuotaStore(client, observation, roster=Roster(elapsed), presence_namespace="x", presence_selector="y")
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        self.accountant = accountant = Accountant(
            replica=lambda: REPLICA,
            observation=observation,
            store=store,
            tasks=self._tasks,
            is_present=lambda: True,
        )
        accountant.limit(LIMITS)
        mirror.replace([codec.decode_stored_binding(json.dumps(STORED).encode())], 4800)
        self._waiting = waiting = WaitingList(accountant.accounts, mirror, store)
        holding = Holding(
            stamping=Stamping(client, Discovery(client), {}),
            is_system=_is_system,
            holders=lambda place: [
                one.name
                for one in accountant.accounts(place)
                if karmadaquota.quota(one).on_exceeded == karmadaquota.HOLD
            ],
            room=lambda place: Room(accountant.accounts(place), observation.view),
            note=waiting.note,
        )
        advice = Advice(accountant, observation, mirror, client)
        bindings = BindingReview(accountant, _is_system, would_hold=holding.would_hold, note=waiting.note_in)
        forest, self._changes = Mirror(PARENT), Shared()
        deliberation = Deliberation(forest, self._changes)
        elastic = ElasticReview(forest, deliberation, _is_system, _is_idle)
        server = Server(
            {
                hooks.VALIDATE_BINDINGS: bindings,
                hooks.STAMP_BINDINGS: holding,
                hooks.GUARD_BINDINGS: refuse_writer,
                hooks.GUARD_ACCOUNTS: refuse_account,
                hooks.STAMP_TEMPLATES: IdentityReview(Identities(administrators=frozenset({"steward"}))),
                hooks.VALIDATE_QUOTAS: QuotaReview(_is_system),
                hooks.VALIDATE_ELASTIC: elastic,
                hooks.MANAGE_ELASTIC: replace(elastic, is_for_managers=True),
                hooks.VALIDATE_NAMESPACES: NamespaceReview(deliberation, _is_idle),
                hooks.VALIDATE_TENANTS: refuse_assignment,
                hooks.VALIDATE_WORKS: WorkReview(accountant, client, store, lambda: True, has_leaves=lambda: True),
                hooks.WARN_WORKLOADS: advice,
                hooks.DENY_WORKLOADS: replace(advice, denies=True),
            },
            health=Health(ready={}, live={}),
        )
        self._server = TestServer(server._app)
        await self._server.start_server()
        self._session = aiohttp.ClientSession()

    def close(self) -> None:
        """End the server, its client and what runs beside them."""
        self._runner.run(self._stop())
        self._runner.close()

    async def _stop(self) -> None:
        await self._session.close()
        await self._server.close()

    def ask(self, path: str, body: bytes, binding: str = "") -> Answer:
        """The answer to a body, from quotas in which nothing is reserved."""
        return self._runner.run(self._ask(path, body, binding))

    async def _ask(self, path: str, body: bytes, binding: str) -> Answer:
        self.api.refused.clear()
        self._changes.clear()
        for document in QUOTAS:
            self.accountant.learn(decode_quota(json.dumps(self.api.put(document)).encode()))
        self.accountant.learn(decode_elastic(json.dumps(self.api.put(LEAF)).encode()))
        for document in ACCOUNTS:
            self.accountant.learn(decode_usage(json.dumps(self.api.put(document)).encode()))
        url = self._server.make_url(path).with_query(timeout="3s")
        with capture_logs() as lines:
            # Far beyond what the server may take: it would be a hang.
            async with asyncio.timeout(60), self._session.post(url, data=body) as answer:
                said = await answer.read()
            await self._waiting.drain(timeout_seconds=10)
            for noted in list(self._waiting._notes):
                self._waiting._drop(noted)
        charges = {
            name: one["charge"]
            for name, document in self.api.quotas.items()
            for one in document["status"].get("reservations") or ()
            if one["binding"] == binding
        }
        return Answer(answer.status, said, cast(list[dict[str, Any]], lines), charges, list(self.api.refused))


def _is_idle(_namespace: str) -> bool:
    return False


def _is_system(user: str) -> bool:
    return user == "system"


@functools.cache
def world() -> World:
    """The one of this process."""
    return World()
