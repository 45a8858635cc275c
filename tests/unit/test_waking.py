"""The controller that wakes: whom, how, how often, and who is struck off."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from controllers import waking
from controllers.reporting import Reporting
from controllers.waking import FLIGHT_SECONDS, MOST_WAKES, WakingController
from federation_quota import waiting
from federation_quota.binding import Binding
from federation_quota.kube import error
from federation_quota.kube.client import Client
from federation_quota.kube.correlation import Reference
from federation_quota.kube.events import Recorder
from federation_quota.kube.mirrors import claim
from federation_quota.ledger.account import Account
from federation_quota.limits import usage
from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.scheme import NO_LIMITS
from federation_quota.limits.subject import USER, Subject
from federation_quota.stamp import Stamp
from federation_quota.waiting import Waiter
from tests.conformance.bookstore import in_simulated_time
from tests.unit.limits import ANN, LEAF, TREE, limited, schemes
from tests.unit.waiters import NAMESPACE, QuotaShelf, binding, mirror, quota, waiter

DISCOVERY = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": "apps"},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {"resource": "deployments", "responseKind": {"kind": "Deployment"}, "scope": "Namespaced"}
                    ],
                }
            ],
        }
    ],
}


class Server(Client):
    """An API server that takes patches."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, str, dict[str, Any]]] = []  # plural, name, body
        self.problems: dict[str, Exception] = {}  # by name

    async def request(self, method: str, path: str, **_: Any) -> bytes:  # noqa: ANN401
        return json.dumps(DISCOVERY if path == "/apis" else {"kind": "APIVersions"}).encode()

    @property
    def connection(self) -> Any:  # type: ignore[override]  # noqa: ANN401
        return type("Connection", (), {"server": "test"})

    async def patch(self, resource: Any, name: str, body: Any, namespace: Any = None, **_: Any) -> bytes:  # noqa: ANN401
        self.patches.append((resource.plural, name, body))
        await asyncio.sleep(0.005)
        if name in self.problems:
            raise self.problems[name]
        return json.dumps({"metadata": {"uid": f"uid-{name}"}}).encode()

    async def get(self, resource: Any, name: str, namespace: Any = None, **_: Any) -> bytes:  # noqa: ANN401
        if name in self.problems:
            raise self.problems[name]
        return b"{}"

    @property
    def woken(self) -> list[str]:
        return [name for _, name, _ in self.patches]


class Journal(Recorder):
    """What was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def record(self, about: Reference, reason: str, message: str, *, is_warning: bool = False) -> None:
        self.said.append((about.kind, reason, message))


@dataclass
class World:
    server: Server
    shelf: QuotaShelf
    journal: Journal
    controller: WakingController

    def store(self, one: Binding) -> None:
        self.controller._mirror.upsert(one)

    def delete(self, one: Binding) -> None:
        self.controller._mirror.delete(one)


@asynccontextmanager
async def leading(*bindings: Binding, accounts: list[Account]) -> AsyncIterator[World]:
    observation, view = mirror()
    shelf = QuotaShelf(*accounts)
    server, journal = Server(), Journal()
    controller = WakingController(observation, view, shelf, Reporting(journal))
    view._on_change = controller.binding_changed
    shelf.on_stored.append(controller.quota_stored)
    for account in accounts:
        controller.quota_stored(account)
    view.replace(bindings, 100)
    task = asyncio.create_task(controller.run(server))
    try:
        yield World(server, shelf, journal, controller)
    finally:
        task.cancel()


async def settle(seconds: float = 0.2) -> None:
    await asyncio.sleep(seconds)


def full(*waiters: Waiter, cpu: int = 10) -> list[Account]:
    return [quota(cpu, waiters=waiters)]


USED = binding("used", 8, clusters={"m1": 8})
GONE = replace(USED, version=110)


@in_simulated_time
async def test_freed_quota_wakes_the_first_who_fits_and_nobody_else() -> None:
    waiters = [waiter("low", 6, since=1), waiter("high", 6, priority=1, since=2), waiter("small", 3, since=3)]
    async with leading(USED, accounts=full(*waiters)) as world:
        await settle()
        assert world.server.woken == []
        world.delete(GONE)
        await settle(0.1)
        assert world.server.woken == ["high", "small"]
        (plural, _, body), _ = world.server.patches
        assert plural == "deployments"
        assert list(body["metadata"]["annotations"]) == ["federation-quota/woken-at"]
        assert ("Deployment", "Woken", "tried again: quota q has room (cpu: 6 asked, 10 left)") in world.journal.said


@in_simulated_time
async def test_a_waiter_that_comes_after_the_release_is_woken_all_the_same() -> None:
    async with leading(accounts=[quota(10)]) as world:
        await settle()
        world.shelf.put(quota(10, waiters=[waiter("late", 6)]))
        await settle(0.1)
        assert world.server.woken == ["late"]


@in_simulated_time
async def test_the_end_of_a_reservation_and_a_raised_limit_are_news() -> None:
    pending = replace(waiter("pending", 8), binding="pending").ask(None).reservation
    held_up = full(waiter("web", 6))[0].with_reservations([pending])
    async with leading(accounts=[held_up]) as world:
        await settle()
        assert world.server.woken == []
        world.shelf.put(held_up.with_reservations([]))
        await settle(0.1)
        assert world.server.woken == ["web"]
    async with leading(USED, accounts=full(waiter("web", 6))) as world:
        await settle()
        world.shelf.put(quota(14, waiters=[waiter("web", 6)]))
        await settle(0.1)
        assert world.server.woken == ["web"]


@in_simulated_time
async def test_one_without_clusters_that_was_refused_to_the_scheduler_is_rescheduled() -> None:
    stuck = binding("web", 2, version=20, scheduled_reason="QuotaExceeded")
    async with leading(USED, stuck, accounts=full(waiter("web", 4))) as world:
        await settle()
        world.delete(GONE)
        await settle(0.1)
        ((plural, name, body),) = world.server.patches
        assert (plural, name) == ("resourcebindings", "web-deployment")
        assert body["metadata"]["resourceVersion"] == "20", "one that has clusters by now must not be shuffled"
        assert body["spec"]["rescheduleTriggeredAt"]


@in_simulated_time
async def test_one_with_clusters_is_woken_by_its_template() -> None:
    stuck = binding("web", 2, clusters={"m1": 1}, scheduled_reason="QuotaExceeded")
    async with leading(USED, stuck, accounts=full(waiter("web", 4))) as world:
        await settle()
        world.delete(GONE)
        await settle(0.1)
        assert [plural for plural, _, _ in world.server.patches] == ["deployments"]


@in_simulated_time
async def test_woken_again_and_again_it_is_never_woken_by_the_same_time() -> None:
    stuck = binding("web", 2, scheduled_reason="QuotaExceeded")
    async with leading(stuck, accounts=full(waiter("web", 4))) as world:
        await settle(30)
        moments = [body["spec"]["rescheduleTriggeredAt"] for _, _, body in world.server.patches]
        assert len(moments) > 3
        assert all(one != other for one, other in itertools.pairwise(moments))


@in_simulated_time
async def test_who_has_arrived_is_struck_off() -> None:
    async with leading(accounts=full(waiter("web", 4))) as world:
        await settle(0.1)
        assert world.shelf.listed() == ["web"], "who is woken may be refused again"
        world.store(binding("web", 4, version=120))
        await settle(1)
        assert world.shelf.listed() == []
        assert world.server.woken == ["web"]


@in_simulated_time
async def test_whose_clusters_were_granted_is_struck_off() -> None:
    stuck = binding("web", 2, scheduled_reason="QuotaExceeded")
    async with leading(stuck, accounts=full(waiter("web", 4))) as world:
        await settle()
        assert world.shelf.listed() == ["web"]
        world.store(binding("web", 2, version=120, clusters={"m1": 2, "m2": 2}))
        await settle(1)
        assert world.shelf.listed() == []


@in_simulated_time
async def test_who_wants_no_more_is_struck_off_without_being_woken() -> None:
    running = binding("web", 4, clusters={"m1": 4})
    async with leading(USED, running, accounts=full(waiter("web", 6), cpu=12)) as world:
        await settle()
        world.store(replace(running, version=120, template=replace(running.template, version=2)))
        await settle(1)
        assert world.shelf.listed() == []
        assert world.server.woken == []


@in_simulated_time
async def test_who_is_gone_is_struck_off() -> None:
    async with leading(accounts=full(waiter("web", 4), waiter("other", 4))) as world:
        world.server.problems["web"] = error.NotFoundError(404)
        await settle(1)
        assert world.shelf.listed() == ["other"]
    stuck = binding("web", 2, scheduled_reason="QuotaExceeded")
    async with leading(USED, stuck, accounts=full(waiter("web", 4))) as world:
        await settle()
        world.delete(replace(stuck, version=120))
        await settle(1)
        assert world.shelf.listed() == []
        assert world.server.woken == []


@in_simulated_time
async def test_a_template_that_goes_while_nothing_is_freed_is_noticed_in_the_end() -> None:
    async with leading(USED, accounts=full(waiter("web", 4))) as world:
        await settle()
        world.server.problems["web"] = error.NotFoundError(404)
        await settle(2 * waking.PATROL_SECONDS + 1)
        assert world.shelf.listed() == []
        assert world.server.woken == []


@in_simulated_time
async def test_one_that_was_struck_off_as_gone_and_is_refused_anew_waits_again() -> None:
    stuck = binding("web", 2, scheduled_reason="QuotaExceeded")
    async with leading(USED, stuck, accounts=full(waiter("web", 4))) as world:
        await settle()
        world.delete(replace(stuck, version=120))
        await settle(1)
        assert world.shelf.listed() == []
        world.shelf.put(quota(10, waiters=[waiter("web", 4)]))
        await settle(1)
        assert world.shelf.listed() == ["web"]
        world.delete(GONE)
        await settle(0.1)
        assert world.server.woken == ["web"]


@in_simulated_time
async def test_who_does_not_come_is_woken_again_ever_later_and_then_given_up() -> None:
    async with leading(accounts=full(waiter("web", 4))) as world:
        await settle(FLIGHT_SECONDS + 0.1)
        assert len(world.server.woken) == 2
        await settle(300)
        assert len(world.server.woken) == MOST_WAKES
        assert world.shelf.listed() == []


@in_simulated_time
async def test_room_that_comes_anew_does_not_wait_for_the_next_turn() -> None:
    async with leading(accounts=full(waiter("web", 4))) as world:
        await settle(6)
        turns = len(world.server.woken)
        other = binding("other", 8, version=130)
        world.store(other)  # somebody else was faster
        await settle()
        assert len(world.server.woken) == turns
        world.delete(replace(other, version=131))
        await settle(0.1)
        assert len(world.server.woken) == turns + 1


@in_simulated_time
async def test_who_does_not_come_keeps_nobody_waiting() -> None:
    async with leading(accounts=full(waiter("stale", 8, priority=9), waiter("web", 4))) as world:
        await settle(0.1)
        world.store(binding("unrelated", 1, version=120))
        await settle(0.1)
        assert world.server.woken == ["stale"], "its room is kept for it while it may be on its way"
        await settle(2 * FLIGHT_SECONDS)
        assert "web" in world.server.woken


@in_simulated_time
async def test_a_quota_that_goes_wakes_those_who_waited_for_it() -> None:
    waits = waiter("web", 6)
    async with leading(USED, accounts=[quota(10, "a", waiters=[waits]), quota(100, "b")]) as world:
        await settle()
        assert world.server.woken == []
        world.controller.quota_deleted("test", "a")
        await settle(0.1)
        assert world.server.woken == ["web"]
        await settle(60)
        assert world.server.woken == ["web"], "once: if the other refuses it, that one lists it"


@in_simulated_time
async def test_one_that_does_not_lead_forgets_the_lists_of_quotas_that_are_gone() -> None:
    observation, view = mirror()
    controller = WakingController(observation, view, QuotaShelf(), Reporting(Journal()))
    controller.quota_stored(quota(10, waiters=[waiter("web", 6)]))
    controller.quota_deleted("test", "q")
    await settle(waking.ORPHANED_SECONDS + 1)
    assert controller._places == {}


@in_simulated_time
async def test_one_that_is_on_no_list_is_found_by_the_patrol() -> None:
    async with leading(accounts=full(cpu=10)) as world:
        await settle()
        world.store(binding("web", 2, version=120, scheduled_reason="QuotaExceeded"))
        await settle(1)
        assert world.server.woken == [], "it may be on its way to the list"
        await settle(waking.PATROL_SECONDS)
        assert world.server.woken == ["web-deployment"]


# Held


def held(name: str, cpu: int, **fields: Any) -> Binding:  # noqa: ANN401
    return binding(name, cpu, **{"is_held": True, "is_suspended": True, **fields})


@in_simulated_time
async def test_held_ones_stand_in_the_same_queue_and_are_released() -> None:
    waiting = held("held", 6)
    async with leading(USED, waiting, accounts=full(waiter("low", 6, priority=-1))) as world:
        await settle()
        assert world.server.woken == []
        world.delete(GONE)
        await settle(0.1)
        ((plural, name, body),) = world.server.patches
        assert (plural, name) == ("resourcebindings", "held-deployment")
        assert body == {
            "metadata": {"resourceVersion": "10", "labels": {"quota.karmada.io/held": None}},
            "spec": {"suspension": {"scheduling": False}},
        }
        assert ("ResourceBinding", "Released", "quota q has room (cpu: 6 asked, 10 left)") in world.journal.said


@in_simulated_time
async def test_a_release_that_is_refused_stays_held_and_is_tried_again_later() -> None:
    async with leading(held("web", 6), accounts=full()) as world:
        world.server.problems["web-deployment"] = error.ForbiddenError(403, "QuotaExceeded")
        await settle(10)
        assert 2 <= len(world.server.woken) <= 6
        assert not [reason for _, reason, _ in world.journal.said if reason == "Released"]
        await settle(120)
        assert len(world.server.woken) <= 12


@in_simulated_time
async def test_one_that_changed_meanwhile_is_looked_at_again_at_once() -> None:
    async with leading(held("web", 6), accounts=full()) as world:
        world.server.problems["web-deployment"] = error.ConflictError(409)
        await settle(0.1)
        assert len(world.server.woken) > 1
        del world.server.problems["web-deployment"]
        await settle(0.1)
        assert ("ResourceBinding", "Released", "quota q has room (cpu: 6 asked, 10 left)") in world.journal.said


@in_simulated_time
async def test_what_others_suspended_and_what_a_tree_holds_is_left_alone() -> None:
    theirs = binding("theirs", 1, is_suspended=True)
    leaf = held("leaf", 1, stamp=replace(USED.stamp, leaf="team-a"))
    dying = held("dying", 1, is_deleting=True)
    async with leading(theirs, leaf, dying, accounts=full()) as world:
        await settle(60)
        assert world.server.woken == []


@pytest.mark.parametrize("on_exceeded", ["Hold", "Deny", "Warn"])
def test_what_a_quota_does_when_exceeded_decides_who_is_released(on_exceeded: str) -> None:
    @in_simulated_time
    async def act() -> None:
        async with leading(USED, held("web", 6), accounts=[quota(10, on_exceeded="Hold")]) as world:
            await settle()
            world.shelf.put(quota(10, on_exceeded=on_exceeded))
            await settle(0.1)
            assert world.server.woken == (["web-deployment"] if on_exceeded == "Warn" else [])

    act()


@in_simulated_time
async def test_it_is_said_once_that_something_is_held_and_why() -> None:
    async with leading(USED, accounts=full()) as world:
        await settle()
        for version in (120, 121, 122):
            world.store(held("web", 6, version=version))
            await settle()
        said = [one for one in world.journal.said if one[1] == "Held"]
        message = "it is held until it fits: quota q has no room (cpu: 6 asked, 2 left)"
        assert said == [("ResourceBinding", "Held", message), ("Deployment", "Held", message)]


@in_simulated_time
async def test_what_happens_to_a_quota_is_said_on_it() -> None:
    async with leading(accounts=[quota(10, is_active=False)]) as world:
        await settle()
        account = world.shelf.put(quota(10))
        world.shelf.put(quota(10, waiters=[replace(waiter("web", 99), message="exceeded quota: q")]))
        over = {"exceeded": "cpu", "summary": "cpu: 12/10"}
        shelf_account = replace(account, beside=replace(account.beside, status=over))  # type: ignore[type-var]
        world.shelf.put(shelf_account)
        world.shelf.put(quota(10))
        assert [(reason, message.split(":")[0]) for _, reason, message in world.journal.said] == [
            ("Activated", "every replica of the webhook enforces it"),
            ("QuotaExceeded", "Deployment web was refused"),
            ("OverLimit", "more is used than its limit of cpu allows (cpu"),
            ("WithinLimit", "no more is used than it allows (None)"),
        ]


# Limits of users and groups


LIMITS = schemes({ROOT: [limited("ann", cpu=10)]})


def anns(*waiters: Waiter) -> Account:
    """Her account, with these on its list."""
    stored = usage.manifest(Subject(TREE, USER, "ann"))
    stored["metadata"] |= {"uid": "u", "resourceVersion": "50"}
    listed = [
        replace(one, binding=f"{NAMESPACE}/{one.binding}", claim=replace(one.claim, leaf=LEAF)) for one in waiters
    ]
    return usage.fitted(usage.read({**stored, "status": {"waiting": waiting.write(listed)}}), LIMITS)


@in_simulated_time
async def test_who_waits_for_a_users_limit_is_woken_when_her_use_falls_and_when_the_limit_goes() -> None:
    runs = replace(USED, stamp=Stamp(leaf=LEAF, owner=ANN))
    async with leading(runs, accounts=[]) as world:
        world.controller._observation.charge_to(LIMITS.domains)
        world.controller.quota_stored(anns(waiter("web", 6)))
        await settle()
        assert world.server.woken == []
        world.controller._observation.delete(*runs.key, runs.uid, 120)
        world.controller.owners_changed(LIMITS.domains(claim(runs)))
        await settle(0.1)
        assert world.server.woken == ["web"]
        assert ("Deployment", "Woken") in {one[:2] for one in world.journal.said}
    async with leading(runs, accounts=[]) as world:
        world.controller._observation.charge_to(LIMITS.domains)
        world.controller.quota_stored(anns(waiter("web", 6)))
        await settle()
        world.controller.fit(NO_LIMITS)
        await settle(0.1)
        assert world.server.woken == ["web"]


@in_simulated_time
async def test_who_could_not_be_scheduled_for_a_limit_is_not_taken_for_lost() -> None:
    runs = replace(USED, stamp=Stamp(leaf=LEAF, owner=ANN))
    stuck = binding("web", 2, scheduled_reason="QuotaExceeded")
    async with leading(runs, stuck, accounts=[]) as world:
        world.controller._observation.charge_to(LIMITS.domains)
        world.controller.quota_stored(anns(waiter("web", 6)))
        await settle(100)
        assert world.server.woken == []
