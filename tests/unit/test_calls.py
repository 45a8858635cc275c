"""Calls of validators: answered, cut off, failed; and whom that concerns."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from federation_quota import metrics
from federation_quota.resources import NOTHING
from federation_quota.validators import Context, Decision, Request, Tenant, Validator, allow, refuse
from federation_quota.validators.registry import ValidatorError
from webhook import calls
from webhook.call import Over
from webhook.calls import Calls, UnheardError

REQUEST = Request("shop", "web", "apps/v1", "Deployment", "web", None, "", NOTHING, NOTHING, True, False, {})
LIMIT_SECONDS = 20.0
PassTime = Callable[[float], None]


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
    """The same, to be awaited."""

    async def start(self, context: Context) -> None:  # type: ignore[override]
        await self._act()

    async def validate(self, request: Request, tenant: Tenant) -> Decision:  # type: ignore[override]
        found: Decision = await self._act()
        return found


class StartsLater(Says):
    """Gives what is to be awaited, without saying so."""

    def start(self, context: Context) -> Any:  # noqa: ANN401
        return self._act()


def ask(
    host: Calls, validator: Validator, tenant: str = "shop", abandoned: list[Over] | None = None
) -> Awaitable[Decision]:
    kept = abandoned if abandoned is not None else []
    deadline = asyncio.get_running_loop().time() + 5
    standing = Tenant(tenant, (tenant,), NOTHING)
    return host.ask(validator, REQUEST, standing, deadline=deadline, abandon=kept.append)


async def cut_off(asking: Awaitable[Decision], has_begun: threading.Event, pass_time: PassTime) -> None:
    """Let a call's time run out once the call has begun."""
    call = asyncio.ensure_future(asking)
    assert await asyncio.to_thread(has_begun.wait, 20)
    pass_time(LIMIT_SECONDS)
    with pytest.raises(UnheardError, match="validator says did not answer within"):
        await call


def counted(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(f"federation_quota_{name}", {"validator": "says", **labels}) or 0.0


class Promise:
    """What can be awaited, and is no coroutine."""

    def __init__(self, act: Callable[[], Awaitable[Decision]]) -> None:
        self._act = act

    def __await__(self) -> Generator[Any, Any, Decision]:
        return self._act().__await__()


async def test_never_on_the_event_loop_of_the_webhook_however_it_is_written() -> None:
    where: list[int] = []

    def act() -> Decision:
        where.append(threading.get_ident())
        return refuse("no")

    async def act_later() -> Decision:
        await asyncio.sleep(0)
        return act()

    host = Calls(5.0)
    for validator in (Says(act), SaysLater(act_later), Says(act_later), Says(lambda: Promise(act_later))):
        assert (await ask(host, validator)).reason == "no"
    assert len(where) == 4
    assert threading.get_ident() not in where


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
    host, abandoned = Calls(0.05, most=1), list[Over]()

    def hangs() -> Decision:
        release.wait(20)
        return allow()

    with pytest.raises(UnheardError, match=r"did not answer within 0\.1 s|did not answer within 0\.0 s"):
        await ask(host, Says(hangs), abandoned=abandoned)
    [call] = abandoned
    assert not call.done()
    assert (await ask(host, Says(allow), "bank")).allowed, "its place is free again"
    release.set()
    await asyncio.wait_for(call, 120)


@pytest.mark.parametrize("kind", [Says, SaysLater])
async def test_a_coroutine_that_hangs_is_cancelled(kind: type[Says], pass_time: PassTime) -> None:
    abandoned, has_begun, ended = list[Over](), threading.Event(), threading.Event()

    async def hangs() -> Decision:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return allow()

    await cut_off(ask(Calls(LIMIT_SECONDS), kind(hangs), abandoned=abandoned), has_begun, pass_time)
    await asyncio.wait(abandoned, timeout=120)
    assert abandoned[0].done()
    assert ended.is_set()


class Blocks(Says):
    """Blocks the thread that it is in, about one tenant, where it promised to await."""

    async def validate(self, request: Request, tenant: Tenant) -> Decision:  # type: ignore[override]
        if tenant.name == "shop":
            self._act()
        return allow()


async def test_a_coroutine_that_blocks_is_cut_off_and_holds_nobody_else(pass_time: PassTime) -> None:
    """Neither this loop, nor the same validator's calls about others."""
    entered, release = threading.Event(), threading.Event()
    abandoned, released = list[Over](), list[bool]()

    def block() -> None:
        entered.set()
        released.append(release.wait(20))

    validator = Blocks(block)
    before = counted("validator_hanging"), counted("validator_answers_total", result="cut-off")
    try:
        await cut_off(ask(Calls(LIMIT_SECONDS), validator, abandoned=abandoned), entered, pass_time)
        assert not abandoned[0].done()
        assert (counted("validator_hanging"), counted("validator_answers_total", result="cut-off")) == (
            before[0] + 1,
            before[1] + 1,
        )
        assert (await ask(Calls(20.0), validator, "bank")).allowed
    finally:
        release.set()
    await asyncio.wait(abandoned, timeout=120)
    assert abandoned[0].done()
    assert released == [True], "everything above was done while it was blocked"
    assert counted("validator_hanging") == before[0]


async def test_what_a_coroutine_began_in_a_thread_is_part_of_its_call(pass_time: PassTime) -> None:
    has_begun, release, abandoned = threading.Event(), threading.Event(), list[Over]()

    def wait() -> None:
        has_begun.set()
        release.wait(60)

    async def waits() -> Decision:
        await asyncio.to_thread(wait)
        return allow()

    await cut_off(ask(Calls(LIMIT_SECONDS), SaysLater(waits), abandoned=abandoned), has_begun, pass_time)
    assert not abandoned[0].done(), "cancelled, but what it began goes on"
    release.set()
    await asyncio.wait(abandoned, timeout=120)
    assert abandoned[0].done()


async def test_an_answer_after_the_limit_is_none(pass_time: PassTime) -> None:
    has_begun = threading.Event()

    async def stubborn() -> Decision:
        has_begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return allow()

    abandoned = list[Over]()
    await cut_off(ask(Calls(LIMIT_SECONDS), SaysLater(stubborn), abandoned=abandoned), has_begun, pass_time)
    assert (await abandoned[0]).allowed, "it said yes, and nobody listened"


async def test_how_long_an_answer_took_and_what_it_was_is_counted() -> None:
    before = [counted("validator_seconds_count"), counted("validator_answers_total", result="refused")]
    await ask(Calls(20.0), Says(lambda: refuse("no")))
    assert [counted("validator_seconds_count"), counted("validator_answers_total", result="refused")] == [
        before[0] + 1,
        before[1] + 1,
    ]


async def test_where_no_thread_can_be_had_nothing_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(UnheardError, match="validator says failed"):
        await ask(Calls(20.0), Says(allow))


class Unreadable(Mapping[str, str]):
    def __getitem__(self, key: str) -> str:
        raise OSError("no database")

    def __iter__(self) -> Any:  # noqa: ANN401
        return iter(["EUR"])

    def __len__(self) -> int:
        return 1


def decision(*fields: Any) -> Decision:  # noqa: ANN401
    return Decision(*fields)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (decision("no money"), "`allowed` of its Decision is str, and neither True nor False"),
        (decision(1), "`allowed` of its Decision is int"),
        (decision(None), "`allowed` of its Decision is NoneType"),
        (decision(False, None), "`reason` of its Decision is NoneType, and no text"),
        (decision(True, b"x"), "`reason` of its Decision is bytes, and no text"),
        (decision(False, "x", None), "`shortfall` of its Decision is NoneType, and no mapping"),
        (decision(False, "x", [("EUR", "1")]), "`shortfall` of its Decision is list"),
        (decision(False, "x", {"EUR": 1}), "`shortfall` of its Decision is to map texts to texts"),
        (decision(False, "x", {1: "EUR"}), "`shortfall` of its Decision is to map texts to texts"),
        (decision(False, "x", Unreadable()), "no database"),
        (decision(False, "x", {}, "60"), "`retry_after_seconds` of its Decision is str, and no number"),
        (decision(False, "x", {}, True), "`retry_after_seconds` of its Decision is bool, and no number"),
        (decision(False, "x", {}, -1), "`retry_after_seconds` of its Decision is -1"),
        (decision(False, "x", {}, float("nan")), "`retry_after_seconds` of its Decision is nan"),
        (decision(False, "x", {}, float("inf")), "`retry_after_seconds` of its Decision is inf"),
        (decision(False, "x", {}, 10**400), "OverflowError"),
        (object.__new__(Decision), "AttributeError"),
    ],
)
async def test_a_decision_that_is_only_nearly_one_is_a_failure(said: Decision, problem: str) -> None:
    before = counted("validator_answers_total", result="failed")
    with capture_logs() as lines, pytest.raises(UnheardError, match="validator says failed"):
        await ask(Calls(20.0), Says(lambda: said))
    [line] = lines
    assert line["event"] == "validator.failed"
    assert problem in line["problem"]
    assert counted("validator_answers_total", result="failed") == before + 1


class Nearly(Decision):
    @property
    def message(self) -> str:
        raise OSError("no database")


async def test_a_decision_is_taken_as_it_is_now_and_nothing_of_its_own_is_run_later() -> None:
    missing = {"EUR": "3"}
    found = await ask(Calls(20.0), Says(lambda: Nearly(False, "no money", missing, 0)))
    missing.clear()
    assert found.message == "no money (short of: EUR=3)"
    assert found.retry_after_seconds == 0


async def test_one_whose_client_is_gone_is_told_of_too() -> None:
    host, abandoned = Calls(5.0), list[Over]()
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


async def test_a_start_that_is_to_be_awaited_is_and_what_it_leaves_running_goes_on() -> None:
    context: Any = None
    turned, release, kept = threading.Event(), threading.Event(), set[Any]()

    async def refresh() -> None:
        await asyncio.to_thread(release.wait, 60)
        turned.set()

    async def act() -> None:
        kept.add(asyncio.create_task(refresh()))

    for validator in (SaysLater(act), StartsLater(act)):
        turned.clear()
        release.clear()
        await calls.start(validator, context)
        assert kept, "it was awaited"
        kept.clear()
        release.set()
        assert await asyncio.to_thread(turned.wait, 20)
    with pytest.raises(ValidatorError, match=r"did not start within 0\.05 s"):
        await calls.start(StartsLater(asyncio.Event().wait), context, limit_seconds=0.05)
