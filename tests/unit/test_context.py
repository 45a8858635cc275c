"""What validators are offered, wherever they run: read on the webhook's own loop, and no longer than they wait."""

import asyncio
import json
from typing import Any, cast

import pytest

from federation_quota.kube import error
from federation_quota.kube.client import Client
from federation_quota.kube.resource import Resource
from federation_quota.resources import NOTHING
from federation_quota.validators import Context, Decision, Request, Tenant, allow, refuse
from tests.unit.test_calls import REQUEST, PassTime
from webhook import calls
from webhook.calls import Calls, UnheardError
from webhook.context import FederationContext


class Server:
    """An API server with one object, and one that it never answers about."""

    def __init__(self) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.is_asked, self.is_left = asyncio.Event(), asyncio.Event()

    async def get(self, resource: Resource, name: str, namespace: str | None, **_: object) -> bytes:
        self.loops.append(asyncio.get_running_loop())
        if name == "stuck":
            self.is_asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.is_left.set()
        if name != "money":
            raise error.NotFoundError(404, "NotFound")
        return json.dumps({"data": {"path": f"{resource.plural} of {namespace}"}}).encode()


class Reads:
    """Refuses with what it reads."""

    name, enabled = "reads", True

    async def start(self, context: Context) -> None:
        self.context = context
        assert await context.read("v1", "configmaps", "nothing", "system") is None

    async def validate(self, request: Request, tenant: Tenant) -> Decision:
        found = await self.context.read("v1", "configmaps", self.context.settings["config-map"], "system")
        return refuse(found["data"]["path"]) if found else allow()


class ReadsInAThread(Reads):
    def validate(self, request: Request, tenant: Tenant) -> Decision:  # type: ignore[override]
        return asyncio.run(super().validate(request, tenant))


async def asked(validator: Reads, server: Server, name: str) -> Decision:
    context = FederationContext(cast(Client, server), "system", {"config-map": name})
    await calls.start(validator, context)
    deadline = asyncio.get_running_loop().time() + 20
    tenant = Tenant("shop", ("shop",), NOTHING)
    abandoned: list[Any] = []
    return await Calls(20.0).ask(validator, REQUEST, tenant, deadline=deadline, abandon=abandoned.append)


@pytest.mark.parametrize("validator", [Reads(), ReadsInAThread()])
async def test_what_is_read_is_read_on_the_webhooks_own_loop(validator: Reads) -> None:
    server = Server()
    assert (await asked(validator, server, "money")).reason == "configmaps of system"
    assert (await asked(validator, server, "other")).allowed
    assert set(server.loops) == {asyncio.get_running_loop()}
    assert len(server.loops) == 4


async def test_who_is_cut_off_reads_no_longer(pass_time: PassTime) -> None:
    server = Server()
    call = asyncio.ensure_future(asked(Reads(), server, "stuck"))
    await asyncio.wait_for(server.is_asked.wait(), 120)
    pass_time(20)
    with pytest.raises(UnheardError, match="did not answer"):
        await call
    await asyncio.wait_for(server.is_left.wait(), 120)
