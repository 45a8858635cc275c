"""Waiting for a version, for many at once."""

import asyncio

import pytest

from federation_quota.kube.milestone import Milestones


async def test_those_who_waited_for_it_or_for_less_go_on() -> None:
    milestones = Milestones()
    waiting = {number: asyncio.create_task(milestones.wait(number, 5)) for number in (3, 1, 2, 5)}
    await asyncio.sleep(0)
    milestones.reach(3)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert {number for number, task in waiting.items() if task.done()} == {1, 2, 3}
    milestones.reach(9)
    assert all(await asyncio.gather(*waiting.values()))
    assert len(milestones) == 0


async def test_time_runs_out_and_nothing_is_left_behind() -> None:
    milestones = Milestones()
    assert await asyncio.gather(*(milestones.wait(number % 4, 0.01) for number in range(40))) == [False] * 40
    cancelled = asyncio.create_task(milestones.wait(7, 5))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert len(milestones) == 0
    assert milestones._numbers == []


async def test_what_was_reached_needs_no_waiting_until_it_is_taken_back() -> None:
    milestones = Milestones()
    assert not await milestones.wait(0, 0)  # nothing was reached yet
    milestones.reach(10)
    milestones.reach(4)  # old news
    assert await milestones.wait(10, 0)
    milestones.rewind(5)
    assert not await milestones.wait(10, 0)
    assert await milestones.wait(5, 0)
