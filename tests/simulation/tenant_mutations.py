"""Turns of tenants with one part taken out. Each must be caught by the simulation: else that part is not tested."""

import pytest

from federation_quota.kube.roster import Roster
from federation_quota.ledger.settling import LiveLook
from federation_quota.tenants import title as titles
from federation_quota.tenants.grants import Grants, Left
from federation_quota.tenants.title import Step, Title
from tests.simulation import tenants
from tests.simulation.tenants import Replica
from webhook.tenancy import Tenancy
from webhook.turn import Turn


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


ALL = (
    taken_from_who_is_there,
    an_old_roll,
    taken_before_its_admissions_are_over,
    nothing_is_passed_on,
    no_wait_for_what_the_last_holder_saw,
    nothing_is_counted_until_it_is_stored,
    grants_end_without_a_look,
    a_doubtful_write_is_forgotten,
)
