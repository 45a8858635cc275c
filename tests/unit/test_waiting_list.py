"""Notes of refusals on their way to a quota's status."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from federation_quota import karmadaquota, waiting
from federation_quota.binding import Binding
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.stamp import Stamp
from tests.conformance.bookstore import in_simulated_time
from tests.unit.limits import ANN, LEAF, limited, schemes
from tests.unit.limits import account as usage_account
from tests.unit.waiters import QuotaShelf, binding, mirror, quota
from webhook.notes import COALESCE_SECONDS, PACE_SECONDS, REMEMBERED_SECONDS
from webhook.waiting import WaitingList


class Replica:
    """A waiting list at work, told of what is stored as a watch would."""

    def __init__(self, shelf: QuotaShelf, bindings: BindingMirror) -> None:
        self.shelf = shelf
        self.bindings = bindings
        self.list = WaitingList(lambda _namespace: list(shelf.accounts.values()), bindings, shelf)
        shelf.on_stored.append(self.list.learn)

    def refuse(self, new: Binding, old: Binding | None = None) -> None:
        self.list.note("q", new, old, "exceeded quota: q")

    def strike(self, *names: str) -> None:
        """What the controller does with those who no longer wait."""
        account = self.shelf.accounts["q"]
        status = karmadaquota.quota(account).status
        kept = [one for one in waiting.read(status) if one.name not in names]
        self.shelf.put(karmadaquota.stored_as(account, {**status, "waiting": waiting.write(kept)}))


@asynccontextmanager
async def at_work(*bindings: Binding) -> AsyncIterator[Replica]:
    _, view = mirror(*bindings)
    replica = Replica(QuotaShelf(quota()), view)
    task = asyncio.create_task(replica.list.run())
    try:
        yield replica
    finally:
        task.cancel()


async def settle(seconds: float = 2 * COALESCE_SECONDS) -> None:
    await asyncio.sleep(seconds)


@in_simulated_time
async def test_many_refusals_are_one_write() -> None:
    async with at_work() as replica:
        for number in range(50):
            replica.refuse(binding(f"w{number}", 3))
        assert replica.shelf.writes == 0, "nobody waits for it"
        await settle()
        assert replica.shelf.writes == 1
        assert len(replica.shelf.listed()) == 50


@in_simulated_time
async def test_at_most_one_write_in_a_while() -> None:
    async with at_work() as replica:
        for number in range(100):
            replica.refuse(binding(f"w{number}", 3))
            await asyncio.sleep(0.01)
            if number == 50:
                assert 10 < len(replica.shelf.listed()) < 30, "the first are told at once"
        await settle()
        assert replica.shelf.writes == 2
        assert len(replica.shelf.listed()) == 100


@in_simulated_time
async def test_who_is_refused_again_costs_no_write() -> None:
    async with at_work() as replica:
        for _ in range(20):
            replica.refuse(binding("web", 3))
            await settle()
        assert replica.shelf.writes == 1


@in_simulated_time
async def test_a_conflict_is_tried_again() -> None:
    async with at_work() as replica:
        replica.shelf.conflicts = 3
        replica.refuse(binding("web", 3))
        await settle(10 * COALESCE_SECONDS)
        assert replica.shelf.listed() == ["web"]


@in_simulated_time
async def test_who_is_struck_off_just_as_it_is_refused_again_is_noted_once_more() -> None:
    """The controller acts on something older than the refusal, of which nothing was written: it was listed already."""
    async with at_work() as replica:
        replica.refuse(binding("web", 3))
        await settle()
        replica.refuse(binding("web", 3))
        replica.strike("web")
        await settle(PACE_SECONDS)
        assert replica.shelf.listed() == ["web"]
        replica.strike("web")
        await settle()
        assert replica.shelf.listed() == [], "whoever strikes it off again has seen it"


@in_simulated_time
async def test_long_after_a_refusal_the_controller_is_right() -> None:
    async with at_work() as replica:
        replica.refuse(binding("web", 3))
        await settle(REMEMBERED_SECONDS + 1)
        replica.strike("web")
        await settle()
        assert replica.shelf.listed() == []


@in_simulated_time
async def test_who_has_arrived_meanwhile_is_not_noted_again() -> None:
    stored = binding("web", 3, template_version=7)
    cases = [
        # what was refused, what is stored after it, whether it still waits
        (binding("web", 5, template_version=8), stored, True),
        (binding("web", 5, template_version=8), binding("web", 5, version=11, template_version=8), False),
        (binding("web", 5, template_version=8), binding("web", 4, version=11, template_version=8), False),
        (binding("web", 5, template_version=8), binding("web", 4, version=11, template_version=9), False),
        # The scheduler's wish is for the template that is there: only a later one is another wish.
        (binding("web", 3, clusters={"m1": 3, "m2": 3}, template_version=7), stored, True),
        (
            binding("web", 3, clusters={"m1": 3, "m2": 3}, template_version=7),
            binding("web", 3, version=11, template_version=8),
            False,
        ),
    ]
    for new, after, waits in cases:
        async with at_work(stored) as replica:
            replica.refuse(new, stored)
            await settle()
            replica.bindings.upsert(after)
            replica.strike("web")
            await settle(PACE_SECONDS)
            assert replica.shelf.listed() == (["web"] if waits else []), (new, after)


@in_simulated_time
async def test_who_is_deleted_waits_no_longer() -> None:
    stored = binding("web", 3)
    async with at_work(stored) as replica:
        replica.refuse(binding("web", 5, template_version=2), stored)
        await settle()
        replica.bindings.delete(binding("web", 3, version=12))
        replica.strike("web")
        await settle()
        assert replica.shelf.listed() == []


@in_simulated_time
async def test_a_quota_that_is_gone_is_written_no_more() -> None:
    async with at_work() as replica:
        replica.refuse(binding("web", 3))
        replica.shelf.accounts.clear()
        await settle()
        assert replica.shelf.writes == 0


@in_simulated_time
async def test_nothing_is_remembered_for_ever() -> None:
    async with at_work() as replica:
        replica.refuse(binding("web", 3))
        await settle(3 * REMEMBERED_SECONDS)
        assert replica.list._notes == {}
        assert replica.shelf.listed() == ["web"]


@in_simulated_time
async def test_what_is_noted_last_of_all_is_written_before_the_end() -> None:
    async with at_work() as replica:
        replica.shelf.conflicts = 1
        replica.refuse(binding("web", 3))
        await replica.list.drain(1.0)
        assert replica.shelf.listed() == ["web"]


@in_simulated_time
async def test_a_list_that_is_full_is_left_alone_by_those_who_come_last() -> None:
    async with at_work() as replica:
        for number in range(300):
            replica.refuse(binding(f"w{number:03}", 3))
        await settle()
        assert len(replica.shelf.listed()) == 256
        written = replica.shelf.writes
        replica.refuse(binding("late", 3))
        await settle(5)
        assert replica.shelf.writes == written


@in_simulated_time
async def test_who_is_refused_by_a_limit_is_noted_in_the_account_with_where_it_would_stand() -> None:
    _, view = mirror()
    anns = usage_account(schemes({"dept": [limited("ann", cpu=4)]}))
    shelf = QuotaShelf(anns, usage_account(schemes({"dept": [limited("bob", cpu=4)]}), "bob"))
    found = WaitingList(lambda place: [one for one in shelf.accounts.values() if one.namespace == place], view, shelf)
    shelf.on_stored.append(found.learn)
    refused = binding("web", 5, stamp=Stamp(resource="deployments", owner=ANN, leaf=LEAF))
    found.note_in(anns.namespace, anns.name, refused, None, "exceeded limit")
    await found.drain(1.0)
    (waiter,) = waiting.listed(shelf.accounts[anns.name])
    assert (waiter.binding, waiter.claim.leaf, waiter.message) == (str(refused.key), LEAF, "exceeded limit")
    assert anns.lens.cost(waiter.claim), "whoever looks for room for it finds what it costs there"
    assert shelf.writes == 1
    view.upsert(replace(refused, version=20))
    found.learn(shelf.put(waiting.relisted(shelf.accounts[anns.name], ())))
    await found.drain(1.0)
    assert waiting.listed(shelf.accounts[anns.name]) == (), "it is there by now, and waits for nothing"
