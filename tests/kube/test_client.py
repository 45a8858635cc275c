"""The client's verbs, errors and limits on the real API server."""

import asyncio
import dataclasses
import ssl
import time
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from federation_quota.kube import config, error
from federation_quota.kube.client import Client, PatchType
from federation_quota.kube.config import Connection
from federation_quota.kube.resource import Resource
from federation_quota.kube.retry import Policy
from localfed import ports
from localfed.faultproxy import FaultProxy
from tests.kube.kinds import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, configmap, deployment, loads
from tests.promises import promised

pytestmark = pytest.mark.federation

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


async def test_an_object_is_created_read_changed_in_every_way_and_deleted(client: Client, namespace: str) -> None:
    created = loads(await client.create(CONFIGMAPS, configmap("a", x="1"), namespace))
    assert created["data"] == {"x": "1"}

    merged = loads(await client.patch(CONFIGMAPS, "a", {"data": {"y": "2"}}, namespace))
    assert merged["data"] == {"x": "1", "y": "2"}

    operations = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "remove", "path": "/data/x"}]
    patched = loads(await client.patch(CONFIGMAPS, "a", operations, namespace, type=PatchType.JSON))
    assert patched["data"] == {"y": "2"}

    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "3"}}
    with pytest.raises(error.ConflictError) as refused:  # another manager has that field
        await client.patch(CONFIGMAPS, "a", wanted, namespace, type=PatchType.APPLY, field_manager="me")
    assert refused.value.causes[0].field == ".data.y"
    applied = await client.patch(
        CONFIGMAPS, "a", wanted, namespace, type=PatchType.APPLY, field_manager="me", is_forced=True
    )
    assert loads(applied)["data"] == {"y": "3"}

    whole = loads(await client.get(CONFIGMAPS, "a", namespace))
    whole["data"] = {"z": "4"}
    replaced = loads(await client.replace(CONFIGMAPS, "a", whole, namespace))
    assert replaced["data"] == {"z": "4"}

    with pytest.raises(error.ConflictError):  # `whole` carries the version from before
        await client.replace(CONFIGMAPS, "a", whole, namespace)
    with pytest.raises(error.ConflictError):
        await client.delete(CONFIGMAPS, "a", namespace, uid="another-object")
    with pytest.raises(error.ConflictError):
        await client.delete(CONFIGMAPS, "a", namespace, version=whole["metadata"]["resourceVersion"])
    await client.delete(CONFIGMAPS, "a", namespace, uid=replaced["metadata"]["uid"])
    with pytest.raises(error.NotFoundError):
        await client.get(CONFIGMAPS, "a", namespace)


async def test_apply_creates_what_is_not_there_and_dry_run_stores_nothing(client: Client, namespace: str) -> None:
    body = configmap("b", x="1")
    options = {"type": PatchType.APPLY, "field_manager": "me"}
    await client.patch(CONFIGMAPS, "b", body, namespace, is_dry_run=True, **options)  # type: ignore[arg-type]
    with pytest.raises(error.NotFoundError):
        await client.get(CONFIGMAPS, "b", namespace)
    await client.patch(CONFIGMAPS, "b", body, namespace, **options)  # type: ignore[arg-type]
    assert loads(await client.get(CONFIGMAPS, "b", namespace))["data"] == {"x": "1"}


async def test_subresources_status_and_scale(client: Client, namespace: str) -> None:
    await client.create(DEPLOYMENTS, deployment("d", replicas=1), namespace)
    scaled = await client.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 3}}, namespace, subresource="scale")
    assert loads(scaled)["kind"] == "Scale"
    stored = loads(await client.get(DEPLOYMENTS, "d", namespace))
    assert stored["spec"]["replicas"] == 3

    stored["status"] = {"replicas": 2, "observedGeneration": 1}
    stored["spec"]["replicas"] = 9
    answered = loads(await client.replace(DEPLOYMENTS, "d", stored, namespace, subresource="status"))
    assert answered["status"]["replicas"] == 2
    assert answered["spec"]["replicas"] == 3  # a status write changes nothing else


async def test_lists_come_in_pages_of_one_version(client: Client, namespace: str) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(25):
            body = configmap(f"c{number:02}", labels={"even": str(number % 2 == 0)})
            group.create_task(client.create(CONFIGMAPS, body, namespace))

    pages = [page async for page in client.list(CONFIGMAPS, namespace, limit=10)]
    assert [len(page.items) for page in pages] == [10, 10, 5]
    assert len({page.version for page in pages}) == 1
    assert pages[0].remaining == 15
    names = [loads(bytes(raw))["metadata"]["name"] for page in pages for raw in page.items]
    assert names == sorted(names)

    selected = [page async for page in client.list(CONFIGMAPS, namespace, label_selector="even=True")]
    assert len(selected[0].items) == 13
    one = [page async for page in client.list(CONFIGMAPS, namespace, field_selector="metadata.name=c07")]
    assert len(one[0].items) == 1


async def test_errors_are_types_that_say_what_the_server_said(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, configmap("a"), namespace)
    with pytest.raises(error.AlreadyExistsError) as taken:
        await client.create(CONFIGMAPS, configmap("a"), namespace)
    assert (taken.value.code, taken.value.reason) == (409, "AlreadyExists")

    with pytest.raises(error.InvalidError) as invalid:
        await client.create(CONFIGMAPS, configmap("NOT A NAME"), namespace)
    assert invalid.value.causes[0].field == "metadata.name"
    assert "NOT A NAME" in invalid.value.message

    with pytest.raises(error.NotFoundError):
        await client.get(Resource("nobody.example", "v1", "things", "Thing"), "a", namespace)
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="names no object"):
            await client.delete(CONFIGMAPS, name, namespace)
    with pytest.raises(ValueError, match="yet none was given"):
        await client.get(CONFIGMAPS, "a")
    with pytest.raises(ValueError, match="in no namespace"):
        await client.get(NAMESPACES, "a", namespace)


async def test_names_with_odd_characters_reach_their_object(client: Client) -> None:
    roles = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
    assert loads(await client.get(roles, "system:discovery"))["metadata"]["name"] == "system:discovery"


async def token_of(client: Client, name: str, namespace: str) -> str:
    """A token of a new service account, which may do nothing in particular."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await client.create(SERVICE_ACCOUNTS, account, namespace)
    path = SERVICE_ACCOUNTS.item(name, namespace, "token")
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = loads(await client.request("POST", path, body=asked))["status"]["token"]
    return token


async def authority_of(connection: Connection) -> bytes:
    tls = (await connection.credentials.identity()).tls
    assert tls is not None
    return "".join(map(ssl.DER_cert_to_PEM_cert, tls.get_ca_certs(binary_form=True))).encode()


async def test_another_identity_is_forbidden_and_a_false_one_unauthorized(
    client: Client, connection: Connection, namespace: str
) -> None:
    token = await token_of(client, "s", namespace)
    authority = await authority_of(connection)

    with capture_logs() as logs:
        async with Client(config.static(connection.server, token=token, authority=authority)) as stranger:
            with pytest.raises(error.ForbiddenError) as forbidden:
                await stranger.get(CONFIGMAPS, "a", namespace)
        assert forbidden.value.reason == "Forbidden"
        made_up = config.static(connection.server, token="made-up-token", authority=authority)  # noqa: S106
        async with Client(made_up) as nobody:
            with pytest.raises(error.UnauthorizedError) as refused:
                await nobody.get(CONFIGMAPS, "a", namespace)
    shown = f"{logs} {forbidden.value!r} {refused.value!r} {made_up!r}"
    assert token not in shown
    assert "made-up-token" not in shown


async def test_a_renewed_identity_takes_the_place_of_one_that_the_server_refuses(
    client: Client, connection: Connection, namespace: str
) -> None:
    tls = config.Tls(authority=await authority_of(connection))
    tokens = ["expired", await token_of(client, "s", namespace)]
    time_passed = iter([0.0] + [100.0] * 100)

    async def read() -> config.Material:
        return config.Material(connection.server, tls, f"Bearer {tokens.pop(0)}")

    credentials = config.RenewedCredentials(read, await read(), clock=lambda: next(time_passed))
    async with Client(dataclasses.replace(connection, credentials=credentials)) as renewing:
        with pytest.raises(error.ForbiddenError):  # it is known by now, though it may do nothing
            await renewing.get(CONFIGMAPS, "a", namespace)
    assert tokens == []


async def test_a_server_whose_certificate_does_not_verify_is_not_spoken_to(connection: Connection) -> None:
    async with Client(config.static(connection.server, token="t")) as client:  # noqa: S106 - the system's authorities
        with pytest.raises(error.NoAnswerError, match="certificate") as refused:
            await client.get(NAMESPACES, "default")
    assert refused.value.is_permanent
    assert not refused.value.was_sent


async def test_the_name_in_the_servers_certificate_may_be_given(connection: Connection) -> None:
    async with FaultProxy(urlsplit(connection.server).port or 443) as proxy:
        named = dataclasses.replace(connection, server=proxy.url, server_name="no-such-name.example")
        async with Client(named) as client:
            with pytest.raises(error.NoAnswerError, match="certificate"):
                await client.get(NAMESPACES, "default")
        async with Client(dataclasses.replace(named, server_name=ports.LOOPBACK)) as client:
            await client.get(NAMESPACES, "default")


async def test_an_http_proxy_is_used_where_one_is_configured(connection: Connection) -> None:
    asked: list[bytes] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        there, back = await asyncio.open_connection(ports.LOOPBACK, urlsplit(connection.server).port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while chunk := await source.read(65536):
                target.write(chunk)
            target.close()

        await asyncio.gather(pump(reader, back), pump(there, writer))

    async with await asyncio.start_server(tunnel, ports.LOOPBACK, 0) as server:
        port = server.sockets[0].getsockname()[1]
        through = dataclasses.replace(connection, proxy=f"http://{ports.LOOPBACK}:{port}")
        async with Client(through) as client:
            assert loads(await client.get(NAMESPACES, "default"))["kind"] == "Namespace"
    assert asked == [f"CONNECT {urlsplit(connection.server).netloc} HTTP/1.1".encode()]


async def test_connections_are_kept_and_shared(proxied: Client, proxy: FaultProxy) -> None:
    for _ in range(20):
        await proxied.get(NAMESPACES, "default")
    with pytest.raises(error.NotFoundError):
        await proxied.get(NAMESPACES, "no-such-namespace")
    assert [page async for page in proxied.list(NAMESPACES)]
    assert proxy.accepted == 1


async def test_a_flood_keeps_to_its_connections(connection: Connection, proxy: FaultProxy) -> None:
    async with Client(dataclasses.replace(connection, server=proxy.url), connections=4) as client:
        await asyncio.gather(*(client.get(NAMESPACES, "default") for _ in range(40)))
    assert proxy.accepted <= 4


@pytest.mark.prompt
async def test_a_server_that_hangs_costs_no_more_than_the_timeout(
    proxied: Client, proxy: FaultProxy, namespace: str
) -> None:
    await proxied.get(NAMESPACES, "default")
    proxy.hold()
    began = time.monotonic()
    with pytest.raises(error.NoAnswerError, match=r"within 0\.5 s") as unanswered:
        await proxied.create(CONFIGMAPS, configmap("late"), namespace, timeout_seconds=0.5)
    assert 0.4 < time.monotonic() - began < promised(2)
    assert unanswered.value.was_sent  # nobody knows whether it was carried out
    proxy.heal()
    await proxied.get(NAMESPACES, "default")


async def test_a_read_survives_a_connection_that_is_cut(proxied: Client, proxy: FaultProxy) -> None:
    await proxied.get(NAMESPACES, "default")
    proxy.hold(requests=False)  # the answer does not come back
    reading = asyncio.create_task(proxied.get(NAMESPACES, "default"))
    await asyncio.sleep(0.2)
    proxy.cut()
    proxy.heal()
    assert loads(await reading)["metadata"]["name"] == "default"


async def test_a_write_whose_answer_is_cut_off_is_reported_not_repeated(
    proxied: Client, proxy: FaultProxy, client: Client, namespace: str
) -> None:
    await proxied.get(NAMESPACES, "default")
    proxy.hold(requests=False)
    writing = asyncio.create_task(proxied.create(CONFIGMAPS, configmap("w"), namespace))
    async with asyncio.timeout(120):
        while True:  # it is carried out, though its answer is held
            try:
                await client.get(CONFIGMAPS, "w", namespace)
                break
            except error.NotFoundError:
                await asyncio.sleep(0.01)
    proxy.cut()
    proxy.heal()
    with pytest.raises(error.NoAnswerError) as lost:
        await writing
    assert lost.value.was_sent


async def test_a_server_that_is_not_there_is_tried_again_even_for_a_write(connection: Connection) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    nowhere = f"https://{ports.LOOPBACK}:1"
    async with Client(dataclasses.replace(connection, server=nowhere), retry=Policy(attempts=4, sleep=sleep)) as client:
        with pytest.raises(error.NoAnswerError) as refused:
            await client.create(CONFIGMAPS, configmap("a"), "default")
    assert not refused.value.was_sent
    assert len(slept) == 3
    assert slept == sorted(slept)


async def test_watch_gives_events_in_order_and_bookmarks_and_ends_at_its_timeout(
    client: Client, namespace: str
) -> None:
    first = loads(await client.create(CONFIGMAPS, configmap("a"), namespace))
    version = int(first["metadata"]["resourceVersion"])
    await client.patch(CONFIGMAPS, "a", {"data": {"x": "1"}}, namespace)
    await client.delete(CONFIGMAPS, "a", namespace)
    async with client.watch(CONFIGMAPS, namespace, version=version, timeout_seconds=4) as lines:
        events = [loads(line) async for line in lines]
    assert [event["type"] for event in events[:2]] == ["MODIFIED", "DELETED"]
    assert all(event["type"] == "BOOKMARK" for event in events[2:])  # the server sends one before it ends


@pytest.mark.prompt
async def test_a_watch_that_says_nothing_for_too_long_is_given_up(proxied: Client, proxy: FaultProxy) -> None:
    version = max([page.version async for page in proxied.list(NAMESPACES)])

    async def listen() -> None:
        async with proxied.watch(NAMESPACES, version=version, idle_seconds=0.7) as lines:
            proxy.hold()
            async for _ in lines:
                pass

    began = time.monotonic()
    with pytest.raises(error.NoAnswerError, match="nothing was heard"):
        await listen()
    assert time.monotonic() - began < promised(5)
