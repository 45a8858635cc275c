"""The state of a process on one line, whatever fails on the way."""

import asyncio
import json
import os
import signal
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from federation_quota import dump
from federation_quota.accounting.observation import Observation
from federation_quota.ledger.settling import Expiry
from federation_quota.ledger.view import Entry
from tests.conformance.bookstore import NAMESPACE, active
from tests.unit.accounts import claim, creation, holding, quota


async def test_a_signal_writes_one_document_and_a_part_that_fails_costs_only_itself(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken() -> object:
        raise RuntimeError("no")

    loop = asyncio.get_running_loop()
    dump.on_signal("webhook", {"good": lambda: {"a": 1}, "bad": broken})
    try:
        with capture_logs() as said:
            os.kill(os.getpid(), signal.SIGUSR2)
            await asyncio.sleep(0.05)
    finally:
        loop.remove_signal_handler(signal.SIGUSR2)
    [line] = [one for one in capfd.readouterr().err.splitlines() if one.startswith("{")]
    document = json.loads(line)
    assert (document["event"], document["process"], document["pid"]) == ("process.state", "webhook", os.getpid())
    assert document["good"] == {"a": 1}
    assert "bad" not in document
    assert any("test_a_signal" in one["runs"] for one in document["tasks"])
    assert [one["part"] for one in said] == ["bad"]


def test_an_account_says_why_it_is_not_in_force_and_how_old_its_reservations_are() -> None:
    observation, expiry = Observation(), Expiry()
    account = replace(holding(active(quota(), "replica-1"), creation("web", 3)), version="12", observed=50)
    expiry.expired(account, 100.0)

    def age_seconds(one: object, identifier: str) -> float | None:
        assert one is account
        return expiry.age_seconds(account, identifier, 104.5)

    found = dump.describe_account(account, observation.view, age_seconds)
    assert found["why_not"] == "the view, at 0, has yet to see what others have seen"
    [reservation] = found["reservations"]
    assert (reservation["binding"], reservation["seconds"], reservation["charge"]) == ("web", 4.5, {"cpu": "3"})
    assert found["joined"] == ["replica-1"]
    observation.reach(50)
    assert dump.describe_account(account, observation.view, age_seconds)["why_not"] == ""
    idle = replace(account, active_shape="")
    assert dump.describe_account(idle, observation.view, lambda _account, _id: None)["why_not"].startswith("not every")


def test_a_view_is_told_by_its_size_and_its_faults() -> None:
    observation = Observation()
    observation.upsert(NAMESPACE, "web", Entry("u", 7, claim(1)))
    observation.upsert(NAMESPACE, "odd", Entry("v", 8, claim(1), fault="cpu: what is that"))
    assert dump.describe_view(observation.view) == {
        "version": 8,
        "namespaces": 1,
        "bindings": 2,
        "faults": {NAMESPACE: {"odd": "cpu: what is that"}},
    }


def test_the_oldest_reservation_is_the_one_seen_first() -> None:
    expiry = Expiry()
    assert expiry.oldest_seconds(1000.0) == 0
    first = holding(quota(), creation("web", 3))
    expiry.expired(first, 100.0)
    expiry.expired(holding(first, creation("other", 1)), 130.0)
    assert expiry.oldest_seconds(150.0) == 50
    expiry.expired(quota(), 160.0)
    assert expiry.oldest_seconds(160.0) == 0
