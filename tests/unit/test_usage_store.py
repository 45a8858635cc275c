"""Accounts of users and groups in the store: opened once, closed as they were read or not at all."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import ConflictError, UnreachableError
from federation_quota.kube import config
from federation_quota.kube.client import Client
from federation_quota.kube.lease import elapsed
from federation_quota.kube.quotas import QuotaStore
from federation_quota.kube.roster import Roster
from federation_quota.limits import usage
from federation_quota.limits.subject import USER, Subject

ANNS = Subject("lab", USER, "ann")
REASONS = {404: "NotFound", 409: "Conflict", 500: "InternalError"}


class Api:
    """An API server with one account on it."""

    def __init__(self) -> None:
        made = usage.manifest(ANNS)
        self.stored: dict[str, Any] = {**made, "metadata": {**made["metadata"], "uid": "u", "resourceVersion": "7"}}
        self.bodies: list[tuple[str, Any]] = []
        self.refusal = 0

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append((request.method, json.loads(body) if body else None))
        if request.method == "POST":
            return web.json_response({"kind": "Status", "code": 409, "reason": "AlreadyExists"}, status=409)
        if self.refusal:
            status = {"kind": "Status", "code": self.refusal, "reason": REASONS[self.refusal]}
            return web.json_response(status, status=self.refusal)
        return web.json_response(self.stored)

    @asynccontextmanager
    async def store(self) -> AsyncIterator[QuotaStore]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        async with TestServer(app) as server, Client(config.static(str(server.make_url("/")))) as client:
            yield QuotaStore(
                client, Observation(), roster=Roster(elapsed), presence_namespace="x", presence_selector="y"
            )


async def test_one_that_is_there_already_is_what_is_opened() -> None:
    api = Api()
    async with api.store() as store:
        account = await store.open(ANNS)
    assert (account.uid, account.version) == ("u", "7")
    assert [method for method, _ in api.bodies] == ["POST", "GET"]
    assert api.bodies[0][1]["spec"] == {"tree": "lab", "kind": "User", "name": "ann"}


async def test_one_is_closed_at_the_very_version_that_was_read() -> None:
    api = Api()
    async with api.store() as store:
        await store.close(replace(usage.unopened(ANNS), uid="u", version="7"))
    ((method, body),) = api.bodies
    assert method == "DELETE"
    assert body["preconditions"] == {"uid": "u", "resourceVersion": "7"}


@pytest.mark.parametrize("code", [404, 409])
async def test_one_that_is_another_by_now_is_read_again(code: int) -> None:
    api = Api()
    api.refusal = code
    async with api.store() as store:
        with pytest.raises(ConflictError):
            await store.close(replace(usage.unopened(ANNS), uid="u", version="7"))


async def test_where_the_server_is_in_trouble_nobody_knows() -> None:
    api = Api()
    api.refusal = 500
    async with api.store() as store:
        with pytest.raises(UnreachableError):
            await store.close(replace(usage.unopened(ANNS), uid="u", version="7"))
