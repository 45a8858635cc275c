"""Tokens and rights, asked of a real API server."""

import socket

import pytest
from structlog.testing import capture_logs

from federation_quota import metrics
from federation_quota.kube import config
from federation_quota.kube.authorization import (
    Authorizer,
    ForbiddenError,
    PathAccess,
    UnauthenticatedError,
    UnavailableError,
)
from federation_quota.kube.client import Client
from localfed.federation import Federation
from localfed.ports import LOOPBACK
from tests.federation.tokens import Tokens, issue

pytestmark = pytest.mark.federation

READ = PathAccess("get", "/metrics")


@pytest.fixture
def tokens(federation: Federation, namespace: str) -> Tokens:
    return issue(federation, namespace)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_token_with_the_right_passes_and_others_are_told_why(
    client: Client, namespace: str, tokens: Tokens
) -> None:
    authorizer = Authorizer(client)
    user = await authorizer.require(f"Bearer {tokens.reader}", READ)
    assert user.name == f"system:serviceaccount:{namespace}:reader"
    assert f"system:serviceaccounts:{namespace}" in user.groups
    with pytest.raises(ForbiddenError, match=f"{namespace}:stranger may not get /metrics"):
        await authorizer.require(f"Bearer {tokens.stranger}", READ)
    with pytest.raises(ForbiddenError):  # the right is for that path alone
        await authorizer.require(f"Bearer {tokens.reader}", PathAccess("get", "/other"))
    for header in (
        None,
        "",
        "Bearer",
        "Basic dTpw",
        "Bearer made-up",
        f"Bearer {tokens.reader}x",
        "Bearer " + "x" * 20000,
    ):
        with pytest.raises(UnauthenticatedError):
            await authorizer.require(header, READ)


async def test_answers_are_kept_for_a_while_and_no_token_is(client: Client, tokens: Tokens) -> None:
    clock = Clock()
    authorizer = Authorizer(client, clock=clock)

    def asked() -> float:
        return (
            metrics.REGISTRY.get_sample_value("federation_quota_api_requests_total", {"verb": "POST", "code": "201"})
            or 0.0
        )

    before = asked()
    with capture_logs() as said:
        for _ in range(5):
            await authorizer.require(f"Bearer {tokens.reader}", READ)
            with pytest.raises(UnauthenticatedError):
                await authorizer.require("Bearer made-up", READ)
    assert asked() == before + 3
    clock.now += 60
    await authorizer.require(f"Bearer {tokens.reader}", READ)
    assert asked() == before + 5
    held = repr(vars(authorizer)) + repr(vars(authorizer._users)) + repr(vars(authorizer._access)) + repr(said)
    assert tokens.reader not in held
    assert "made-up" not in held


async def test_many_made_up_tokens_fill_no_memory(client: Client) -> None:
    authorizer = Authorizer(client)
    for number in range(3000):
        authorizer._users.put(number, None)
    assert len(authorizer._users._answers) == 1024


async def test_an_api_server_that_is_not_there_is_unavailable(tokens: Tokens) -> None:
    with socket.socket() as nobody:
        nobody.bind((LOOPBACK, 0))
        async with Client(config.static(f"https://{LOOPBACK}:{nobody.getsockname()[1]}")) as client:
            with pytest.raises(UnavailableError):
                await Authorizer(client, timeout_seconds=1.0).require(f"Bearer {tokens.reader}", READ)
