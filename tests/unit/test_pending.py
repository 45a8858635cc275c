"""What validators refuse: held with a note, noted on what is stored, and tried again when its time comes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from controllers.pending import UNDER_WAY_SECONDS, PendingController
from controllers.reporting import Reporting
from federation_quota import pending
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.answer import Allowed, Answer, Denied, Later
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube import codec
from federation_quota.kube.client import Client
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.denial import Denial
from federation_quota.pending import Pending
from federation_quota.resources import Resources
from federation_quota.stamp import PENDING_ANNOTATION
from federation_quota.validators import refuse
from tests.conformance.bookstore import in_simulated_time
from tests.unit.documents import changed
from tests.unit.reviews import review
from tests.unit.test_holding import NEW, RUNNING, Hook, is_held
from tests.unit.test_waking import Journal
from tests.unit.waiters import binding, mirror
from webhook.bindings import BindingReview
from webhook.holding import Holding
from webhook.pending import REMEMBERED_SECONDS, PendingList
from webhook.validation import Change, Objection, Validation

NOTE = Pending(
    "budget", "no money", "2026-01-01T00:00:09Z", "2026-01-01T00:00:05Z", 60, Resources.parse({"cpu": "4"}), 7
)
REFUSED = Objection("budget", refuse("no money", {"EUR": "2"}, retry_after_seconds=20))


def test_a_note_is_read_as_it_was_written_and_what_is_none_is_none() -> None:
    assert pending.decode(NOTE.encode()) == NOTE
    assert pending.decode(None) is None
    fields = json.loads(NOTE.encode())
    for text in ("", "[]", "{}", "x", "[" * 10_000, json.dumps({**fields, "charge": {"cpu": "NaN"}})):
        assert pending.decode(text) is None
    for name in fields:
        assert pending.decode(json.dumps({**fields, name: None})) is None
    assert len(json.loads(replace(NOTE, message="x" * 9999).encode())["message"]) == 1024


@pytest.mark.parametrize(
    ("wanted", "seconds"),
    [(None, 60), (0, 1), (-5.0, 1), (30.9, 30), (1e9, 3600), (float("nan"), 60), (float("inf"), 3600)],
)
def test_when_to_try_again_is_neither_at_once_nor_never(wanted: float | None, seconds: int) -> None:
    assert pending.retry_seconds(wanted) == seconds


def test_a_note_is_over_when_all_of_it_is_there_or_something_else_is_wanted() -> None:
    assert NOTE.is_over(Resources.parse({"cpu": "4", "memory": "1"}), 7)
    assert not NOTE.is_over(Resources.parse({"cpu": "3"}), 7)
    assert NOTE.is_over(Resources.parse({"cpu": "3"}), 8)


# Holding, with what was refused a moment ago.


def remembering(charge: str) -> Hook:
    hook = Hook()
    note = replace(NOTE, charge=codec.decode_binding(json.dumps(NEW).encode()).charge)
    if charge != "same":
        note = replace(note, charge=Resources.parse({"cpu": charge}))
    fields = {name: getattr(hook.holding, name) for name in Holding.__dataclass_fields__}
    hook.holding = Holding(**{**fields, "pending": lambda _key: note})
    return hook


async def test_what_was_refused_is_held_with_its_note_when_it_is_asked_for_again() -> None:
    stored = await remembering("same").outcome(NEW)
    assert is_held(stored)
    assert pending.decode(stored["metadata"]["annotations"][PENDING_ANNOTATION]) is not None


async def test_a_smaller_wish_is_asked_about_anew() -> None:
    stored = await remembering("99").outcome(NEW)
    assert not is_held(stored)
    assert PENDING_ANNOTATION not in stored["metadata"]["annotations"]


# The review: what it answers, and what it notes.


class Says:
    """Validators, as a review asks them."""

    is_on = True

    def __init__(self, said: Objection | None) -> None:
        self.said = said

    async def judge(
        self, _change: Change, _deadline: float, quotas: Callable[[], Awaitable[Answer]]
    ) -> Answer | Objection:
        return self.said or await quotas()


class Quotas:
    """Quotas that say one thing."""

    def __init__(self, says: Answer) -> None:
        self._says = says
        self.asked = 0

    def accounts(self, _place: str) -> list[object]:
        return []

    async def answer(self, *_: object, **__: object) -> Answer:
        self.asked += 1
        return self._says


class Notes:
    """What was noted."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.cleared: list[str] = []

    def note(self, new: Binding, _objection: Objection) -> None:
        self.noted.append(str(new.key))

    def clear(self, new: Binding) -> None:
        self.cleared.append(str(new.key))


def judged(said: Objection | None, quotas: Answer = Allowed()) -> tuple[BindingReview, Quotas, Notes]:  # noqa: B008
    books, notes = Quotas(quotas), Notes()
    found = BindingReview(
        cast(Accountant, books),
        "system".__eq__,
        validation=cast(Validation, Says(said)),
        pending=cast(PendingList, notes),
    )
    return found, books, notes


async def test_a_creation_that_a_validator_refuses_is_to_come_again_and_be_held() -> None:
    judge, books, notes = judged(REFUSED)
    verdict = await judge(review(NEW, resource="resourcebindings"), 0.0)
    assert (verdict.code, verdict.retry_after_seconds) == (429, 1)
    assert verdict.message.startswith("validator budget: no money (short of: EUR=2): it is held when it is asked")
    assert notes.noted == ["team-a/web-deployment"]
    assert books.asked == 0, "no quota has reserved anything"


async def test_a_change_that_cannot_be_held_is_refused_and_noted() -> None:
    judge, _, notes = judged(REFUSED)
    dearer = changed("spec/replicaRequirements/resourceRequest/cpu", "2", RUNNING)
    verdict = await judge(review(dearer, RUNNING, resource="resourcebindings"), 0.0)
    assert (verdict.code, verdict.reason) == (403, "QuotaExceeded")
    assert notes.noted == ["team-a/web-deployment"]


async def test_a_dry_run_leaves_no_note() -> None:
    judge, _, notes = judged(REFUSED)
    request = codec.AdmissionRequest(**{**_fields(review(NEW)), "dry_run": True})
    verdict = await judge(request, 0.0)
    assert verdict.code == 403
    assert not notes.noted


@pytest.mark.parametrize("answer", [Allowed(), Denied(Denial("q", (), ""))])
async def test_who_no_longer_has_a_validator_against_it_has_no_note(answer: Answer) -> None:
    judge, _, notes = judged(None, answer)
    await judge(review(NEW), 0.0)
    assert notes.cleared == ["team-a/web-deployment"]


async def test_no_answer_changes_no_note() -> None:
    judge, _, notes = judged(None, Later("no"))
    await judge(review(NEW), 0.0)
    assert not notes.cleared
    assert not notes.noted


async def test_what_cannot_be_accounted_for_is_no_validators_to_allow() -> None:
    judge, _, _ = judged(None)
    verdict = await judge(review(changed("spec/replicaRequirements/resourceRequest/cpu", "much", NEW)), 0.0)
    assert verdict.code == 422


def _fields(request: codec.AdmissionRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__struct_fields__}


# The list: notes that are written on bindings.


class Shelf:
    """Bindings that take a note."""

    def __init__(self, *bindings: Binding) -> None:
        _, self.mirror = mirror(*bindings)
        self.written: list[tuple[ObjectKey, str | None]] = []
        self.list = PendingList(self.mirror, self._write)

    async def _write(self, key: ObjectKey, text: str | None) -> None:
        self.written.append((key, text))
        found = self.mirror.bindings[key]
        self.mirror.upsert(replace(found, version=found.version + 1, pending=pending.decode(text)))


@in_simulated_time
async def test_a_note_is_written_once_and_never_on_what_has_it_by_now() -> None:
    stored = binding("web", 1)
    shelf = Shelf(stored)
    task = asyncio.create_task(shelf.list.run())
    shelf.list.note(replace(stored, demand=Resources.parse({"cpu": "4"})), REFUSED)
    await asyncio.sleep(0.2)
    assert [key for key, _ in shelf.written] == [stored.key]
    assert shelf.mirror.bindings[stored.key].pending is not None

    # It is let through meanwhile: nothing puts the note back.
    shelf.mirror.upsert(replace(stored, version=20, demand=Resources.parse({"cpu": "4"})))
    await asyncio.sleep(REMEMBERED_SECONDS + 5)
    assert len(shelf.written) == 1
    assert shelf.list.find(stored.key) is None
    task.cancel()


@in_simulated_time
async def test_a_note_that_another_replica_took_off_is_not_put_back() -> None:
    stored = binding("web", 1)
    shelf = Shelf(stored)
    task = asyncio.create_task(shelf.list.run())
    shelf.list.note(replace(stored, demand=Resources.parse({"cpu": "4"})), REFUSED)
    await asyncio.sleep(0.2)
    shelf.mirror.upsert(replace(stored, version=20))
    await asyncio.sleep(REMEMBERED_SECONDS + 5)
    assert len(shelf.written) == 1
    task.cancel()


@in_simulated_time
async def test_a_creation_is_remembered_until_it_is_there_with_its_note() -> None:
    new = binding("web", 4)
    shelf = Shelf()
    task = asyncio.create_task(shelf.list.run())
    shelf.list.note(new, REFUSED)
    await asyncio.sleep(1)
    note = shelf.list.find(new.key)
    assert note is not None
    assert (note.retry_seconds, note.charge) == (20, new.charge)
    shelf.mirror.upsert(replace(new, is_held=True, is_suspended=True, pending=note))
    await asyncio.sleep(REMEMBERED_SECONDS + 5)
    assert not shelf.written
    assert shelf.list.find(new.key) is None
    task.cancel()


@in_simulated_time
async def test_a_note_that_nobody_needs_is_taken_off() -> None:
    stored = binding("web", 4, pending=NOTE)
    shelf = Shelf(stored)
    task = asyncio.create_task(shelf.list.run())
    shelf.list.clear(stored)
    shelf.list.clear(binding("other", 1))
    await asyncio.sleep(0.2)
    assert shelf.written == [(stored.key, None)]
    task.cancel()


# The controller: whose time has come.


class Waits:
    """The controller, beside these bindings."""

    def __init__(self) -> None:
        _, self.mirror = mirror()
        self.due: list[str] = []
        self.controller = PendingController(
            self.mirror,
            Reporting(Journal()),
            tenant_of=lambda _namespace: "shop",
            on_due=lambda one: self.due.append(one.key.name),
        )
        self.mirror._on_change = self.controller.binding_changed

    def rests(self, one: Binding) -> float:
        """For how long it is left alone from now."""
        found = self.mirror.bindings[one.key]
        return self.controller.rests_until(found) - asyncio.get_running_loop().time()


def waiting(name: str = "web", **fields: Any) -> Binding:  # noqa: ANN401
    return binding(name, 4, is_held=True, is_suspended=True, pending=NOTE, **fields)


@in_simulated_time
async def test_it_rests_until_its_time_or_until_its_tenant_uses_less() -> None:
    world = Waits()
    world.mirror.upsert(binding("runs", 5))
    world.mirror.upsert(waiting())
    assert world.rests(waiting()) == 60
    world.mirror.upsert(binding("runs", 7, version=11))
    assert world.rests(waiting()) == 60, "more is no reason"
    world.mirror.upsert(binding("runs", 4, version=12))
    assert world.rests(waiting()) <= 0
    world.controller.tried(world.mirror.bindings[waiting().key])
    assert world.rests(waiting()) == 60, "what fell before it was tried has been tried"
    await asyncio.sleep(1)
    world.mirror.delete(binding("runs", 4, version=13))
    assert world.rests(waiting()) <= 0


@in_simulated_time
async def test_what_fell_while_the_refusal_was_on_its_way_counts() -> None:
    world = Waits()
    world.mirror.upsert(binding("runs", 5))
    await asyncio.sleep(10)
    world.mirror.upsert(binding("runs", 1, version=11))
    await asyncio.sleep(UNDER_WAY_SECONDS / 2)
    world.mirror.upsert(waiting(version=12))
    assert world.rests(waiting()) <= 0
    # Refused again: now only what falls from here on.
    world.mirror.upsert(replace(waiting(version=13), pending=replace(NOTE, at="2026-01-01T00:01:00Z")))
    assert world.rests(waiting()) == 60


@in_simulated_time
async def test_another_wish_is_tried_at_once() -> None:
    world = Waits()
    world.mirror.upsert(waiting())
    assert world.rests(waiting()) == 60
    world.mirror.upsert(replace(waiting(version=11), demand=Resources.parse({"cpu": "2"})))
    assert world.rests(waiting()) <= 0


class Server(Client):
    """An API server that takes patches of one binding."""

    def __init__(self, found: BindingMirror) -> None:
        self._mirror = found
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.conditions: list[dict[str, Any]] = [{"type": "Scheduled", "status": "True", "lastTransitionTime": "t"}]

    async def get(self, *_: Any, **__: Any) -> bytes:  # noqa: ANN401
        return json.dumps({"metadata": {"resourceVersion": "5"}, "status": {"conditions": self.conditions}}).encode()

    async def patch(self, _resource: Any, _name: str, body: Any, _namespace: Any = None, **more: Any) -> bytes:  # type: ignore[override] # noqa: ANN401
        self.patches.append((more.get("subresource") or "", body))
        if "status" in body:
            self.conditions = body["status"]["conditions"]
            said = next((one["message"] for one in self.conditions if one["type"] == pending.CONDITION), "")
            for found in list(self._mirror.bindings.values()):
                self._mirror.upsert(replace(found, version=found.version + 1, said_pending=said))
        return json.dumps({"metadata": {"resourceVersion": "6"}}).encode()


@in_simulated_time
async def test_people_are_told_by_a_condition_which_goes_with_the_note() -> None:
    world = Waits()
    server = Server(world.mirror)
    world.mirror.upsert(waiting())
    task = asyncio.create_task(world.controller.run(server))
    await asyncio.sleep(1)
    assert {one["type"] for one in server.conditions} == {"Scheduled", "QuotaPending"}
    assert not world.due
    await asyncio.sleep(60)
    assert world.due == ["web-deployment"], "its time has come"
    found = world.mirror.bindings[waiting().key]
    world.mirror.upsert(replace(found, version=99, pending=None, is_held=False, is_suspended=False))
    await asyncio.sleep(1)
    assert {one["type"] for one in server.conditions} == {"Scheduled"}
    task.cancel()


@in_simulated_time
async def test_a_note_on_what_has_what_it_was_refused_is_taken_off() -> None:
    world = Waits()
    server = Server(world.mirror)
    world.mirror.upsert(binding("web", 4, pending=NOTE))
    task = asyncio.create_task(world.controller.run(server))
    await asyncio.sleep(0.5)
    assert {"metadata": {"annotations": {PENDING_ANNOTATION: None}}} in [body for _, body in server.patches]
    task.cancel()
