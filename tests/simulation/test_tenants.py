"""One request of a tenant at a time, and no more than its validator allows: many seeds, and with parts missing."""

import logging
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest
import structlog

from federation_quota.kube.roster import Roster
from federation_quota.ledger.settling import LiveLook
from federation_quota.tenants import title as titles
from federation_quota.tenants.grants import Grants, Left
from federation_quota.tenants.title import Step, Title
from tests.simulation import clock, tenants
from tests.simulation.tenants import Replica, Scenario
from webhook.tenancy import Tenancy
from webhook.turn import Turn

SEEDS = max(10, int(os.environ.get("FEDQUOTA_SEEDS", "2000")) // 10)
MOST_SEEDS_FOR_A_MUTATION = 100

Mutation = Callable[[pytest.MonkeyPatch], None]


def run(seed: int) -> tuple[int, str, dict[str, int]]:
    """One seed: what was violated, if anything, and what happened in it."""
    # Much goes wrong there, and is said each time.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    scenario: Scenario | None = None

    async def main() -> None:
        nonlocal scenario
        scenario = Scenario(seed)
        await scenario.run()

    try:
        clock.run(main())
    finally:
        structlog.reset_defaults()
    assert scenario is not None
    return seed, scenario.world.violation, scenario.world.counts


@pytest.mark.timeout(3600)  # beside a busy federation it takes its time
def test_a_validator_sees_one_request_of_a_tenant_at_a_time_and_is_told_all_that_it_uses() -> None:
    happened: dict[str, int] = {}
    violations = []
    with ProcessPoolExecutor() as pool:
        for seed, violation, counts in pool.map(run, range(SEEDS), chunksize=5):
            if violation:
                violations.append(f"seed {seed}: {violation}")
            for what, count in counts.items():
                happened[what] = happened.get(what, 0) + count
    assert violations == []
    # A world in which nothing happens would prove nothing.
    for what in ("Allowed", "Objection", "Denied", "Later", "conflict", "lost answer", "late write", "crash", "leave"):
        assert happened.get(what, 0) > SEEDS / 5, (what, happened)


def taken_from_who_is_there(patch: pytest.MonkeyPatch) -> None:
    """A title is taken from its holder, although that one is there."""
    original = titles.next_step

    def next_step(title: Title | None, me: str, former: object, unsettled: object) -> Step:
        return original(title, me, (), ())

    patch.setattr(titles, "next_step", next_step)


def an_old_roll(patch: pytest.MonkeyPatch) -> None:
    """Who was not there at the last roll is taken for gone, although it may have come since."""

    async def next_step(self: Tenancy, hall: object, known: Title | None, me: str) -> Step:
        self._present = self._present or await self._roll()
        return titles.next_step(known, me, (), self._present)

    patch.setattr(Tenancy, "_next_step", next_step)


def taken_before_its_admissions_are_over(patch: pytest.MonkeyPatch) -> None:
    """A replica that died is followed as soon as it is known to be gone."""
    patch.setattr(Roster, "unsettled", lambda self, _seconds: self.live())


def nothing_is_passed_on(patch: pytest.MonkeyPatch) -> None:
    """Who hands a title over says nothing of what it let through."""
    patch.setattr(Grants, "left", lambda _self, _now: Left(0))


def no_wait_for_what_the_last_holder_saw(patch: pytest.MonkeyPatch) -> None:
    """Who takes over judges by a view that is further behind."""
    original = Grants.left
    patch.setattr(Grants, "left", lambda self, now: Left(0, original(self, now).grants))
    patch.setattr(tenants, "STALL_CHANCE", 0.02)


def nothing_is_counted_until_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """What was allowed is not counted."""
    patch.setattr(Turn, "grant", lambda *_: None)


def grants_end_without_a_look(patch: pytest.MonkeyPatch) -> None:
    """What is old enough is over, without anybody looking how it went."""

    async def look(_self: Replica, _namespace: str, _binding: str) -> LiveLook:
        return LiveLook(None)

    patch.setattr(Replica, "_look", look)
    patch.setattr(tenants, "STALL_CHANCE", 0.02)
    patch.setattr(tenants, "STALL_SECONDS", (70.0, 120.0))
    patch.setattr(tenants, "DELETION_CHANCE", 0.03)  # what is forgotten is still there


def a_doubtful_write_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Who tried to hand a title over, and heard nothing, goes on as before."""

    async def clear_up(_self: Tenancy, hall: "object") -> None:
        hall.is_in_doubt = False  # type: ignore[attr-defined]

    patch.setattr(Tenancy, "_clear_up", clear_up)


@pytest.mark.parametrize(
    "mutation",
    [
        taken_from_who_is_there,
        an_old_roll,
        taken_before_its_admissions_are_over,
        nothing_is_passed_on,
        no_wait_for_what_the_last_holder_saw,
        nothing_is_counted_until_it_is_stored,
        grants_end_without_a_look,
        a_doubtful_write_is_forgotten,
    ],
    ids=lambda mutation: mutation.__name__,
)
def test_turns_with_a_part_missing_are_caught(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in range(MOST_SEEDS_FOR_A_MUTATION):
        if run(seed)[1]:
            return
    pytest.fail(f"{mutation.__name__}: not noticed in {MOST_SEEDS_FOR_A_MUTATION} seeds")


def test_a_seed_is_the_same_every_time() -> None:
    assert run(7) == run(7)
