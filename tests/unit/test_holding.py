"""The mutating review of bindings: who is held, who is not, and who may say so."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from federation_quota import karmadaquota
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.answer import Denied
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding
from federation_quota.kube import codec
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.outline import Outline
from federation_quota.ledger.account import Account
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Exceeded
from federation_quota.quantity import parse
from federation_quota.room import Room
from federation_quota.stamp import HELD_LABEL, STAMP_ANNOTATION, Stamp
from tests.unit.documents import BINDING, changed, encode
from webhook.bindings import BindingReview
from webhook.holding import Holding
from webhook.review import ALLOWED, Verdict, later

NAMESPACE = "team-a"
STAMP = Stamp("gold", 7, "deployments").encode()

# Nobody has looked at it yet: as the detector sends it. Five replicas of 250m.
NEW = changed("metadata/annotations", ..., changed("spec/clusters", ..., changed("status", ...)))
# It runs, four of its five replicas placed.
RUNNING = copy.deepcopy(BINDING)
RUNNING["metadata"]["annotations"][STAMP_ANNOTATION] = STAMP


def quota(cpu: str, on_exceeded: str = "Hold", name: str = "q", **more: str) -> Account:
    account = karmadaquota.read(
        {
            "metadata": {"namespace": NAMESPACE, "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"hard": {"cpu": cpu, **more}, "onExceeded": on_exceeded},
        }
    )
    return replace(account, active_shape=account.lens.shape)


class Hook:
    """The review, beside these quotas and what is stored."""

    def __init__(self, *accounts: Account, stored: list[dict[str, Any]] | None = None) -> None:
        observation = Observation()
        BindingMirror(observation).replace([codec.decode_binding(encode(one)) for one in stored or []], 9000)
        self.noted: list[tuple[str, Binding, str]] = []
        self.stamp = Verdict(
            patch=({"op": "add", "path": "/metadata/annotations", "value": {STAMP_ANNOTATION: STAMP}},)
        )
        self.holding = Holding(
            stamping=self._stamp,
            is_system="system".__eq__,
            holders=lambda _namespace: [
                one.name for one in accounts if karmadaquota.quota(one).on_exceeded == karmadaquota.HOLD
            ],
            room=lambda _namespace: Room(accounts, observation.view),
            note=lambda quota, new, _old, message: self.noted.append((quota, new, message)),
        )

    async def _stamp(self, _new: Outline, _old: Outline | None) -> Verdict:
        return self.stamp

    async def review(
        self, new: dict[str, Any], old: dict[str, Any] | None = None, user: str = "karmada", dry_run: bool = False
    ) -> Verdict:
        self.stamp = self.stamp if old is None else ALLOWED
        request = codec.AdmissionRequest(
            uid="1",
            operation="UPDATE" if old else "CREATE",
            kind=codec.GroupVersionKind(),
            resource=codec.GroupVersionResource(),
            namespace=NAMESPACE,
            name="web-deployment",
            user_info=codec.UserInfo(user),
            dry_run=dry_run,
            object=msgspec.Raw(encode(new)),
            old_object=msgspec.Raw(encode(old)) if old else msgspec.Raw(b"null"),
        )
        return await self.holding(request, 0.0)

    async def outcome(self, new: dict[str, Any], old: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        """The document as it would be stored."""
        verdict = await self.review(new, old, **more)
        assert verdict.is_allowed, verdict.message
        return patched(new, verdict.patch)


def patched(document: dict[str, Any], patch: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    result = copy.deepcopy(document)
    for operation in patch:
        *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"][1:].split("/"))
        node = result
        for parent in parents:
            node = node[parent]
        if operation["op"] == "remove":
            del node[last]
        else:
            node[last] = operation["value"]
    return result


def is_held(document: dict[str, Any]) -> bool:
    return codec.decode_binding(json.dumps(document).encode()).is_held


def held(document: dict[str, Any]) -> dict[str, Any]:
    marked = changed("spec/suspension", {"scheduling": True}, document)
    marked["metadata"]["labels"][HELD_LABEL] = "true"
    return marked


def without_clusters(document: dict[str, Any]) -> dict[str, Any]:
    return changed("spec/clusters", ..., document)


async def test_a_new_one_that_fits_is_only_stamped() -> None:
    stored = await Hook(quota("1250m")).outcome(NEW)
    assert not is_held(stored)
    assert stored["metadata"]["annotations"] == {STAMP_ANNOTATION: STAMP}
    assert "suspension" not in stored["spec"]


async def test_a_new_one_that_does_not_fit_is_stamped_and_held_and_costs_nothing() -> None:
    stored = await Hook(quota("1249m")).outcome(NEW)
    assert is_held(stored)
    assert stored["metadata"]["annotations"] == {STAMP_ANNOTATION: STAMP}
    assert not codec.decode_binding(encode(stored)).charge


@pytest.mark.parametrize("labels", [None, {}, {"a": "b"}])
@pytest.mark.parametrize("suspension", [None, {}, {"dispatching": True}, {"scheduling": False}])
async def test_whatever_labels_and_suspension_it_has(labels: object, suspension: object) -> None:
    document = changed("metadata/labels", labels if labels is not None else ..., NEW)
    if suspension is not None:
        document = changed("spec/suspension", suspension, document)
    stored = await Hook(quota("0")).outcome(document)
    assert is_held(stored)
    assert stored["metadata"]["labels"] == {**(labels or {}), HELD_LABEL: "true"}  # type: ignore[dict-item]
    assert stored["spec"]["suspension"] == {**(suspension or {}), "scheduling": True}  # type: ignore[dict-item]


@pytest.mark.parametrize("on_exceeded", ["Deny", "Warn"])
async def test_other_quotas_do_not_hold(on_exceeded: str) -> None:
    assert not is_held(await Hook(quota("0", on_exceeded)).outcome(NEW))


async def test_a_quota_that_denies_goes_first() -> None:
    assert not is_held(await Hook(quota("0"), quota("0", "Deny", "other")).outcome(NEW))
    assert is_held(await Hook(quota("0"), quota("2", "Deny", "other")).outcome(NEW))
    assert is_held(await Hook(quota("0"), quota("0", "Warn", "other")).outcome(NEW))


async def test_a_quota_that_is_being_taken_up_does_not_hold() -> None:
    assert not is_held(await Hook(replace(quota("0"), active_shape="")).outcome(NEW))


async def test_what_the_stamp_says_decides() -> None:
    silver = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["silver"]}]}
    gold = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}]}
    for selector, expected in ((silver, False), (gold, True)):
        account = karmadaquota.read(
            {
                "metadata": {"namespace": NAMESPACE, "name": "q", "uid": "q", "resourceVersion": "1"},
                "spec": {"hard": {"cpu": "0"}, "scopeSelector": selector, "onExceeded": "Hold"},
            }
        )
        account = replace(account, active_shape=account.lens.shape)
        assert is_held(await Hook(account).outcome(NEW)) is expected


async def test_objects_are_counted_by_the_plural_in_the_stamp() -> None:
    assert is_held(await Hook(quota("9", **{"count/deployments.apps": "0"})).outcome(NEW))


async def test_what_a_suspension_would_not_keep_from_clusters_is_not_held() -> None:
    hook = Hook(quota("0"))
    assert not is_held(await hook.outcome(changed("spec/clusters", [{"name": "m1", "replicas": 5}], NEW)))
    needed = {"namespace": NAMESPACE, "name": "app", "clusters": [{"name": "m1"}]}
    assert not is_held(await hook.outcome(changed("spec/requiredBy", [needed], NEW)))


async def test_what_others_suspended_is_not_marked() -> None:
    document = changed("spec/suspension", {"scheduling": True}, NEW)
    stored = await Hook(quota("0")).outcome(document)
    assert HELD_LABEL not in stored["metadata"]["labels"]


async def test_a_mark_that_a_client_makes_is_taken_off_a_new_one() -> None:
    stored = await Hook(quota("2")).outcome(held(NEW))
    assert HELD_LABEL not in stored["metadata"]["labels"]
    assert stored["spec"]["suspension"] == {"scheduling": True}
    marked = changed("metadata/labels", {HELD_LABEL: "true"}, NEW)
    assert not is_held(await Hook(quota("2")).outcome(marked))
    assert is_held(await Hook(quota("0")).outcome(marked)), "and put on by us"


async def test_a_refusal_to_stamp_stands() -> None:
    hook = Hook(quota("0"))
    hook.stamp = later("the template cannot be read")
    assert (await hook.review(NEW)).code == 429


# Changes


async def test_more_replicas_of_a_running_one_are_held_with_their_clusters() -> None:
    bigger = changed("spec/replicas", 8, RUNNING)
    stored = await Hook(quota("1500m"), stored=[RUNNING]).outcome(bigger, RUNNING)
    assert is_held(stored)
    assert stored["spec"]["clusters"] == RUNNING["spec"]["clusters"]
    assert codec.decode_binding(encode(stored)).charge["cpu"].to_json() == "1"
    assert not is_held(await Hook(quota("2"), stored=[RUNNING]).outcome(bigger, RUNNING))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: changed("spec/replicaRequirements/resourceRequest", {"cpu": "9"}, document),
        lambda document: changed("spec/clusters", [{"name": "m1", "replicas": 8}], document),
        lambda document: changed("spec/gracefulEvictionTasks", [{"fromCluster": "m2", "replicas": 1}], document),
        lambda document: changed("spec/replicas", 5, document),
    ],
)
async def test_nothing_else_that_grows_is_held(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    bigger = change(changed("spec/replicas", 8, RUNNING))
    assert not is_held(await Hook(quota("0"), stored=[RUNNING]).outcome(bigger, RUNNING))


async def test_a_held_one_changes_as_it_likes_and_stays_held() -> None:
    waiting = held(without_clusters(RUNNING))
    assert is_held(await Hook(quota("0")).outcome(changed("spec/replicas", 50, waiting), waiting))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: changed("spec/suspension", {"scheduling": False}, document),
        lambda document: changed("spec/suspension", ..., document),
        lambda document: changed("metadata/labels", {}, document),
        lambda document: changed("metadata/labels", {}, changed("spec/suspension", ..., document)),
    ],
)
async def test_only_the_system_releases(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    waiting = held(without_clusters(RUNNING))
    hook = Hook(quota("99"))
    verdict = await hook.review(change(waiting), waiting)
    assert (verdict.code, verdict.reason) == (403, "Forbidden")
    assert "federation-quota alone releases it" in verdict.message
    assert (await hook.review(change(waiting), waiting, user="system")).is_allowed


async def test_a_release_that_does_not_fit_is_left_to_the_ledger() -> None:
    waiting = held(without_clusters(RUNNING))
    released = without_clusters(RUNNING)
    stored = await Hook(quota("0")).outcome(released, waiting, user="system")
    assert not is_held(stored)


async def test_only_the_system_marks() -> None:
    for marked in (held(RUNNING), changed("metadata/labels", {HELD_LABEL: "true"}, RUNNING)):
        verdict = await Hook(quota("99")).review(marked, RUNNING)
        assert verdict.code == 403
        assert "can be marked as held by federation-quota alone" in verdict.message
        assert (await Hook(quota("99")).review(marked, RUNNING, user="system")).is_allowed


async def test_a_held_one_that_loses_a_cluster_goes_on_at_its_size() -> None:
    waiting = held(changed("spec/replicas", 8, RUNNING))
    evicted = changed("spec/clusters", [{"name": "m1", "replicas": 3}], waiting)
    evicted["spec"]["gracefulEvictionTasks"] = [{"fromCluster": "m2", "replicas": 1}]
    hook = Hook(quota("1"))
    stored = await hook.outcome(evicted, waiting)
    assert not is_held(stored)
    assert HELD_LABEL not in stored["metadata"]["labels"]
    assert stored["spec"]["replicas"] == 4, "what its clusters had"
    before, after = (codec.decode_binding(encode(one)).charge for one in (waiting, stored))
    assert after == before, "nothing that the quota would have to be asked for"
    ((quota_name, wish, _),) = hook.noted
    assert (quota_name, wish.charge["cpu"].to_json()) == ("q", "2"), "what it grew to waits"


async def test_each_copy_goes_on_at_its_size() -> None:
    waiting = held(changed("spec/placement/replicaScheduling", {"replicaSchedulingType": "Duplicated"}, RUNNING))
    waiting["spec"]["clusters"] = [{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 3}]
    evicted = changed("spec/clusters", [{"name": "m1", "replicas": 3}], waiting)
    stored = await Hook(quota("1")).outcome(evicted, waiting)
    assert stored["spec"]["replicas"] == 3


async def test_a_dry_run_notes_nothing() -> None:
    waiting = held(changed("spec/replicas", 8, RUNNING))
    hook = Hook(quota("1"))
    await hook.outcome(changed("spec/clusters", [{"name": "m1", "replicas": 3}], waiting), waiting, dry_run=True)
    assert hook.noted == []


async def test_what_the_system_takes_clusters_from_stays_held() -> None:
    waiting = held(changed("spec/replicas", 8, RUNNING))
    stored = await Hook(quota("1")).outcome(without_clusters(waiting), waiting, user="system")
    assert is_held(stored)


async def test_who_was_refused_for_want_of_luck_is_to_be_held() -> None:
    """The room went between the two reviews, or is not seen to have gone here."""
    new = codec.decode_binding(encode(without_clusters(RUNNING)))
    hook = Hook(quota("9"), quota("9", "Deny", "other"))
    assert hook.holding.would_hold(new, None, "q")
    assert not hook.holding.would_hold(new, None, "other")
    assert not Hook(quota("9"), quota("0", "Deny", "other")).holding.would_hold(new, None, "q")


# What the ledger refuses after all


class Refusing(Accountant):
    """An accountant of a namespace that has no room."""

    def __init__(self) -> None:
        pass

    def accounts(self, namespace: str) -> list[Account]:
        return []

    async def answer(self, *_: Any, **__: Any) -> Denied:  # noqa: ANN401
        exceeded = Exceeded("cpu", parse("1250m"), parse("1"), parse("2"))
        return Denied(Denial("q", [exceeded]))


@pytest.mark.parametrize(
    ("would_hold", "user", "dry_run", "code", "is_noted"),
    [
        (False, "karmada", False, 403, True),
        (False, "karmada", True, 403, False),
        (False, "system", False, 403, False),
        (True, "karmada", False, 429, False),
    ],
)
async def test_a_refusal_is_noted_or_to_be_held(
    would_hold: bool, user: str, dry_run: bool, code: int, is_noted: bool
) -> None:
    noted = []
    review = BindingReview(
        Refusing(),
        "system".__eq__,
        would_hold=lambda _new, _old, quota: would_hold and quota == "q",
        note=lambda _place, quota, new, old, message: noted.append((quota, new.key.name, old, message)),
    )
    request = codec.AdmissionRequest(
        uid="1",
        operation="CREATE",
        kind=codec.GroupVersionKind(),
        resource=codec.GroupVersionResource(),
        user_info=codec.UserInfo(user),
        dry_run=dry_run,
        object=msgspec.Raw(encode(without_clusters(RUNNING))),
    )
    verdict = await review(request, 0.0)
    assert verdict.code == code
    assert verdict.reason == ("QuotaExceeded" if code == 403 else "TooManyRequests")
    message = "exceeded quota: q, requested: cpu=1250m, used: cpu=1, limited: cpu=2"
    assert message in verdict.message
    assert noted == ([("q", "web-deployment", None, message)] if is_noted else [])
