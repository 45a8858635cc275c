"""What programs are told of users and groups, over HTTP; who may ask is the listener's, and tested there."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from controllers.usage import UsageTeller
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.elastic import quota
from federation_quota.elastic.forest import Forest, Root
from federation_quota.kube import usage
from federation_quota.limits.limit import Limit
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from federation_quota.stamp import Owner, Stamp

LAB = "/ws/v1/partition/lab/usage"


def composite(name: str, **spec: Any) -> quota.Quota:  # noqa: ANN401
    metadata = {"name": name, "uid": name, "generation": 1}
    return quota.read({"kind": "CompositeElasticQuota", "metadata": metadata, "spec": {"tree": "lab", **spec}})


LIMITS = [{"users": ["ann"], "maxResources": {"cpu": "4"}}, {"groups": ["dev"], "maxApplications": 3}]
FOREST = Forest.of(
    [composite("research"), composite("vision", parent="research", namespaces=["a"], limits=LIMITS)],
    [Root("lab", limits=(Limit(users=("*",), applications=9),)), Root("empty")],
)


def binding(name: str, owner: Owner | None, leaf: str = "vision", cpu: str = "1") -> Binding:
    demand = Resources({"cpu": parse(cpu), "pods": parse(1)})
    template = TemplateRef("apps/v1", "Deployment", "a", name)
    return Binding(
        ObjectKey("a", name), name, 1, template, demand=demand, replicas=1, stamp=Stamp(owner=owner, leaf=leaf)
    )


BINDINGS = {
    one.key: one
    for one in (
        binding("web", Owner("ann", ("dev", "ops")), cpu="1500m"),
        binding("db", Owner("we/ird name")),
        binding("nobodys", None),
        binding("elsewhere", Owner("carl"), leaf="other"),
    )
}


@asynccontextmanager
async def serving(bindings: Mapping[ObjectKey, Binding], why_not: str = "") -> AsyncIterator[TestClient[Any, Any]]:
    app = web.Application()
    routes = UsageTeller(lambda: FOREST, lambda: bindings, lambda: why_not).routes()
    app.add_routes([web.get(path, teller) for path, teller in routes.items()])
    async with TestClient(TestServer(app)) as client:
        yield client


async def ask(client: TestClient[Any, Any], path: str) -> tuple[int, Any]:
    async with client.get(path) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if answer.content_type == "application/json" else text


async def test_users_and_groups_of_a_tree_are_told_as_the_document_has_them() -> None:
    async with serving(BINDINGS) as client:
        status, users = await ask(client, f"{LAB}/users")
        assert status == 200
        assert [one["userName"] for one in users] == ["ann", "we/ird name"]
        (research,) = users[0]["queues"]["children"]
        (vision,) = research["children"]
        assert users[0]["groups"] == {"a/web": "dev"}
        assert users[0]["queues"]["maxApplications"] == 9
        assert vision["queuename"] == "root.research.vision"
        assert vision["resourceUsage"] == {"pods": 1, "vcore": 1500}
        assert vision["maxResources"] == {"vcore": 4000}
        status, groups = await ask(client, f"{LAB}/groups")
        assert [(one["groupName"], one["users"]) for one in groups] == [("dev", ["ann"])]
        assert await ask(client, f"{LAB}/user/ann") == (200, users[0])
        assert await ask(client, f"{LAB}/user/we%2Fird%20name") == (200, users[1])
        assert await ask(client, f"{LAB}/group/dev") == (200, groups[0])
        assert await ask(client, "/ws/v1/partition/empty/usage/users") == (200, [])
        assert await ask(client, "/ws/v1/partition/default/usage/users") == (200, []), "it is there without being made"


async def test_what_is_not_there_is_not_found_and_said_in_words() -> None:
    async with serving(BINDINGS) as client:
        for path, words in (
            ("/ws/v1/partition/nowhere/usage/users", "Partition not found"),
            (f"{LAB}/user/carl", "User not found"),
            (f"{LAB}/group/ops", "Group not found"),
        ):
            status, said = await ask(client, path)
            assert (status, words in said) == (404, True)
        for path in (f"{LAB}/", f"{LAB}/user/", "/ws/v1/partition//usage/users"):
            assert (await ask(client, path))[0] == 404
        async with client.post(f"{LAB}/users") as answer:
            assert answer.status == 405


async def test_nothing_is_told_before_everything_was_read() -> None:
    async with serving(BINDINGS, "still reading") as client:
        assert await ask(client, f"{LAB}/users") == (503, "still reading\n")


async def test_many_who_ask_at_once_all_get_the_same() -> None:
    async with serving(BINDINGS) as client:
        told = await asyncio.gather(*(ask(client, f"{LAB}/users") for _ in range(20)))
    assert all(one == told[0] for one in told)


def test_it_is_the_same_whoever_reads_the_bindings() -> None:
    assert [one.name for one in usage.users(FOREST, "lab", BINDINGS.values())] == ["ann", "we/ird name"]
