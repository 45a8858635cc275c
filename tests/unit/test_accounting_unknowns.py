"""What nobody can judge: a stored binding whose cost is not known, and a mistake of our own."""

import asyncio

import pytest

from federation_quota.accounting.answer import Allowed, Later
from federation_quota.ledger.judging import Books
from federation_quota.ledger.view import Entry
from tests.conformance.bookstore import NAMESPACE, Bookstore, active, at_work, in_simulated_time, reserved
from tests.unit.accounts import claim, quota


@in_simulated_time
async def test_beside_a_binding_whose_cost_nobody_knows_nothing_is_admitted_or_refused() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        broken = Entry("uid-broken", replica.observation.view.version + 1, claim(1), fault="replicas: -1")
        replica.observation.upsert(NAMESPACE, "broken", broken)
        for amount in (1, 100):
            before = asyncio.get_running_loop().time()
            answer = await replica.answer(replica.create("web", claim(amount)), within_seconds=20)
            assert asyncio.get_running_loop().time() - before < 3, "and nobody is kept waiting for what may take hours"
            assert isinstance(answer, Later)
            assert "what binding broken costs cannot be told (replicas: -1): mend or delete it" in answer.reason
        replica.observation.delete(NAMESPACE, "broken", "uid-broken", broken.version + 1)
        assert await replica.answer(replica.create("web", claim(1))) == Allowed()


@in_simulated_time
async def test_a_mistake_of_ours_is_answered_later_and_the_account_goes_on() -> None:
    store = Bookstore()
    store.put(active(quota()))
    async with at_work(store) as replica:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Books, "judge", lambda _books, _ask: 1 / 0)
            answer = await replica.answer(replica.create("web", claim(1)))
            assert isinstance(answer, Later)
            assert "federation-quota's log says why" in answer.reason
        assert await replica.answer(replica.create("web", claim(1))) == Allowed()
        assert reserved(store) == ["web"]
