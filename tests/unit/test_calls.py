"""Calls of validators: answered, cut off, failed; and whom that concerns."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from federation_quota.resources import NOTHING
from federation_quota.validators import Context, Decision, Request, Tenant, Validator, allow, refuse
from federation_quota.validators.registry import ValidatorError
from webhook import calls
from webhook.calls import Call, Calls, UnheardError

REQUEST = Request("shop", "web", "apps/v1", "Deployment", "web", None, "", NOTHING, NOTHING, True, False, {})


class Says:
    """A validator that does what it is made with."""

    name = "says"
    enabled = True

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    def start(self, context: Context) -> None:
        self._act()

    def validate(self, request: Request, tenant: Tenant) -> Decision:
        found: Decision = self._act()
        return found


class SaysLater(Says):
    """The same, on the event loop."""

    async def start(self, context: Context) -> None:  # type: ignore[override]
        await self._act()

    async def validate(self, request: Request, tenant: Tenant) -> Decision:  # type: ignore[override]
        found: Decision = await self._act()
        return found


def ask(
    host: Calls, validator: Validator, tenant: str = "shop", abandoned: list[Call] | None = None
) -> Awaitable[Decision]:
    kept = abandoned if abandoned is not None else []
    deadline = asyncio.get_running_loop().time() + 5
    standing = Tenant(tenant, (tenant,), NOTHING)
    return host.ask(validator, REQUEST, standing, deadline=deadline, abandon=kept.append)


async def test_in_a_thread_or_on_the_loop_as_it_is_written() -> None:
    here = threading.get_ident()
    where: list[int] = []

    def act() -> Decision:
        where.append(threading.get_ident())
        return refuse("no")

    async def act_later() -> Decision:
        return act()

    host = Calls(1.0)
    assert (await ask(host, Says(act))).reason == "no"
    assert (await ask(host, SaysLater(act_later))).reason == "no"
    assert where[0] != here
    assert where[1] == here


@pytest.mark.parametrize("kind", [Says, SaysLater])
async def test_what_is_no_decision_lets_nothing_through(kind: type[Says]) -> None:
    def fails() -> Decision:
        raise SystemExit("no database")

    async def fails_later() -> Decision:
        raise StopIteration

    async def nothing() -> None:
        return None

    host = Calls(1.0)
    for act in (fails, lambda: True, lambda: None) if kind is Says else (fails_later, nothing):
        with pytest.raises(UnheardError, match="validator says failed"):
            await ask(host, kind(act))


async def test_a_thread_that_hangs_is_left_alone_and_takes_nothing_from_others() -> None:
    release = threading.Event()
    host, abandoned = Calls(0.05, most=1), list[Call]()

    def hangs() -> Decision:
        release.wait(20)
        return allow()

    with pytest.raises(UnheardError, match=r"did not answer within 0\.1 s|did not answer within 0\.0 s"):
        await ask(host, Says(hangs), abandoned=abandoned)
    [call] = abandoned
    assert not call.done()
    assert (await ask(host, Says(allow), "bank")).allowed, "its place is free again"
    release.set()
    await asyncio.wait_for(call, 5)


async def test_a_coroutine_that_hangs_is_cancelled() -> None:
    host, abandoned = Calls(0.05), list[Call]()
    ended = asyncio.Event()

    async def hangs() -> Decision:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return allow()

    with pytest.raises(UnheardError):
        await ask(host, SaysLater(hangs), abandoned=abandoned)
    assert ended.is_set()
    assert abandoned[0].done()


async def test_one_whose_client_is_gone_is_told_of_too() -> None:
    host, abandoned = Calls(5.0), list[Call]()
    entered, release = threading.Event(), threading.Event()

    def hangs() -> Decision:
        entered.set()
        release.wait(20)
        return allow()

    asking = asyncio.ensure_future(ask(host, Says(hangs), abandoned=abandoned))
    assert await asyncio.to_thread(entered.wait, 5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(abandoned) == 1
    release.set()


async def test_tenants_take_turns_where_there_is_not_room_for_all() -> None:
    """One that has much to ask, and one that has little: each waits for one answer of the other's."""
    host = Calls(5.0, most=1)
    order: list[str] = []

    async def client(tenant: str, requests: int) -> None:
        async def act() -> Decision:
            order.append(tenant)
            await asyncio.sleep(0)
            return allow()

        for _ in range(requests):
            await ask(host, SaysLater(act), tenant)

    await asyncio.gather(client("flood", 10), client("quiet", 3))
    assert order[:6] == ["flood", "quiet"] * 3


async def test_a_start_that_fails_or_does_not_end_is_one_line() -> None:
    context: Any = None

    def fails() -> None:
        raise ValueError("no budget is set")

    with pytest.raises(ValidatorError, match=r"validator 'says' did not start: .*no budget is set"):
        await calls.start(Says(fails), context)
    with pytest.raises(ValidatorError, match=r"validator 'says' did not start within 0\.05 s"):
        await calls.start(SaysLater(asyncio.Event().wait), context, limit_seconds=0.05)
    await calls.start(Says(lambda: None), context)
