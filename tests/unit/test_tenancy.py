"""Turns of tenants as they are measured, and as they end: in simulated time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from federation_quota import metrics
from tests.simulation import clock
from tests.unit.halls import Titles, tenancy
from webhook.tenancy import IDLE_SECONDS, LOOK_SECONDS, Tenancy
from webhook.turn import BusyError


def counted(name: str) -> float:
    found = metrics.REGISTRY.get_sample_value(f"federation_quota_{name}")
    return found or 0.0


def more(name: str, act: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """What that adds to a histogram: how many, and how long together."""
    before = [counted(f"{name}_{part}") for part in ("count", "sum")]

    async def main() -> None:
        await act()

    clock.run(main())
    count, total = (counted(f"{name}_{part}") - was for part, was in zip(("count", "sum"), before, strict=True))
    return count, round(total, 2)


async def stay(turns: Tenancy, seconds: float, patience_seconds: float = 60.0) -> None:
    async with turns.turn("shop", asyncio.get_running_loop().time() + patience_seconds):
        await asyncio.sleep(seconds)


async def one_after_the_other() -> None:
    turns = tenancy(Titles())
    await asyncio.gather(stay(turns, 3.0), stay(turns, 2.0))


def test_how_long_a_turn_is_waited_for_and_kept_is_counted() -> None:
    assert more("tenant_wait_seconds", one_after_the_other) == (2, 3.0)
    assert more("tenant_hold_seconds", one_after_the_other) == (2, 5.0)


async def one_in_vain() -> None:
    turns = tenancy(Titles())

    async def gives_up() -> None:
        with pytest.raises(BusyError, match="others came before this one"):
            await stay(turns, 0.0, patience_seconds=2.0)

    await asyncio.gather(stay(turns, 3.0), gives_up())
    await stay(turns, 0.0)  # who gave up left the line as it was


def test_who_gives_up_has_waited_too_and_kept_nothing() -> None:
    assert more("tenant_wait_seconds", one_in_vain) == (3, 2.0)
    assert more("tenant_hold_seconds", one_in_vain) == (2, 3.0)


async def one_at_the_head_in_vain() -> None:
    """The title is another replica's, which does not hand it over."""
    titles = Titles()
    holder, turns = tenancy(titles, "other", "me"), tenancy(titles, "me", "other")
    async with holder.turn("shop", 60.0):
        for _ in range(2):
            with pytest.raises(BusyError, match="another replica judges the requests of tenant shop"):
                await stay(turns, 0.0, patience_seconds=2.0)


def test_who_gives_up_at_the_head_of_the_line_has_waited_too() -> None:
    assert more("tenant_wait_seconds", one_at_the_head_in_vain) == (3, 4.0)


def test_a_title_that_is_passed_on_is_counted() -> None:
    async def both() -> None:
        titles = Titles()
        first, second = tenancy(titles, "first", "second"), tenancy(titles, "second", "first")
        await stay(first, 0.0)
        assert titles.stored["shop"].holder == "first"
        await stay(second, 0.0)
        assert titles.stored["shop"].holder == "second"

    before = counted("tenant_handovers_total")
    clock.run(both())
    assert counted("tenant_handovers_total") == before + 1


def test_a_hall_that_nobody_enters_is_closed_and_its_title_given_up() -> None:
    async def main() -> None:
        titles = Titles()
        turns = tenancy(titles)
        running = asyncio.create_task(turns.run())
        await stay(turns, 2 * IDLE_SECONDS)
        await asyncio.sleep(IDLE_SECONDS - LOOK_SECONDS)
        assert turns.describe() == {"shop": {"in_line": 0, "held": True, "under_way": 0, "hung": False}}
        await asyncio.sleep(3 * LOOK_SECONDS)
        assert turns.describe() == {}
        assert titles.stored["shop"].holder == ""
        running.cancel()

    before = counted("tenant_handovers_total")
    clock.run(main())
    assert counted("tenant_handovers_total") == before + 1
    assert counted("tenants") == 0


def test_a_hall_stays_for_as_long_as_a_call_hangs() -> None:
    async def main() -> None:
        titles = Titles()
        turns = tenancy(titles)
        running = asyncio.create_task(turns.run())
        hung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with turns.turn("shop", 60.0) as turn:
            turn.abandon(hung)
        await asyncio.sleep(2 * IDLE_SECONDS)
        assert turns.describe() == {"shop": {"in_line": 0, "held": True, "under_way": 0, "hung": True}}
        with pytest.raises(BusyError, match="a validator has not come back from an earlier request of tenant shop"):
            await stay(turns, 0.0)
        hung.set_result(None)
        await asyncio.sleep(2 * IDLE_SECONDS)
        assert turns.describe() == {}
        running.cancel()

    clock.run(main())
