"""The guard on Works: what it reads before it answers, and what it says."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from federation_quota.accounting.store import Store, UnreachableError
from federation_quota.karmadaquota import HOLD, WARN
from federation_quota.kube import codec, error
from federation_quota.ledger.account import Account
from tests.unit.accounts import of_class, quota
from tests.unit.documents import BINDING
from tests.unit.limits import account as usage_account
from tests.unit.limits import limited, schemes
from tests.unit.reviews import TEAM, Api, Books, behaving, review, soon
from webhook.review import ALLOWED, Verdict
from webhook.works import WorkReview

QUOTA = behaving(quota("q", {"cpu": 9}))
HIGH = replace(QUOTA, selector=of_class("high"))  # the class that the binding was admitted with


def deployment(replicas: int = 3, cpu: str = "250m") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    pod = {"containers": [container], "priorityClassName": "high"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": replicas, "template": {"spec": pod}}}


def work(*manifests: dict[str, Any], binding: str = "web-deployment", namespace: str = TEAM) -> dict[str, Any]:
    annotations = {"resourcebinding.karmada.io/namespace": namespace, "resourcebinding.karmada.io/name": binding}
    return {
        "metadata": {"name": "web-1", "namespace": "karmada-es-m1", "annotations": annotations if binding else {}},
        "spec": {"workload": {"manifests": list(manifests)}},
    }


class Guard:
    """The guard, with one quota and one binding unless said otherwise."""

    def __init__(
        self,
        account: Account = QUOTA,
        *,
        stored: Account | Exception | None = None,
        binding: dict[str, Any] | Exception | None = BINDING,
        is_present: bool = True,
        is_warning_only: bool = False,
        owners: Iterable[Account] = (),
    ) -> None:
        self.api = Api({"web-deployment": binding} if binding else {})
        books = Books([account], {account.name: stored or account}, owners=list(owners))
        self.books = books
        self.review = WorkReview(
            books.accountant,
            self.api.client,
            cast(Store, books),
            lambda: is_present,
            is_warning_only,
            has_leaves=lambda: bool(books.owners),
        )

    async def __call__(self, new: dict[str, Any], old: dict[str, Any] | None = None) -> Verdict:
        return await self.review(review(new, old), soon())


async def test_what_the_binding_was_admitted_with_passes() -> None:
    guard = Guard()
    assert await guard(work(deployment())) == ALLOWED
    assert guard.api.reads == [f"resourcebindings/{TEAM}/web-deployment"]


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (deployment(cpu="300m"), "cpu=300m, admitted 250m"),
        (deployment(replicas=4), "replicas=4, admitted 3"),
        (deployment(replicas=4, cpu="1"), "replicas=4, admitted 3; cpu=1, admitted 250m"),
    ],
)
async def test_more_is_refused_with_all_that_one_needs_to_know(manifest: dict[str, Any], told: str) -> None:
    verdict = await Guard()(work(manifest))
    assert (verdict.is_allowed, verdict.code, verdict.reason) == (False, 403, "QuotaExceeded")
    assert verdict.message == (
        f"cluster m1 would get {told}: more than quota q admitted {TEAM}/web-deployment with. Free or raise it, "
        "lower what the workload asks for, or change the OverridePolicy that raises it."
    )
    assert [one["message"] for one in verdict.causes] == told.split("; ")


@pytest.mark.parametrize(
    ("account", "new"),
    [
        (QUOTA, work(deployment(9), binding="")),
        (QUOTA, work(deployment(9), namespace="elsewhere")),
        (behaving(quota("q", {"services": 1, "count/deployments.apps": 1})), work(deployment(9))),
    ],
    ids=["of no binding", "of another namespace", "under a quota of objects"],
)
async def test_what_cannot_matter_passes_without_a_read(account: Account, new: dict[str, Any]) -> None:
    guard = Guard(account)
    assert await guard(new) == ALLOWED
    assert guard.api.reads == []


async def test_a_quota_for_its_class_minds_and_one_for_another_does_not() -> None:
    assert not (await Guard(HIGH)(work(deployment(9)))).is_allowed
    assert (await Guard(replace(QUOTA, selector=of_class("low")))(work(deployment(9)))).is_allowed


@pytest.mark.parametrize(
    "fresh",
    [behaving(quota("q", {"memory": 1})), behaving(QUOTA, WARN), replace(HIGH, selector=of_class("low"))],
    ids=["limits something else now", "only warns now", "is for another class now"],
)
async def test_nobody_is_refused_by_a_quota_that_has_changed_since(fresh: Account) -> None:
    assert (await Guard(stored=fresh)(work(deployment(9)))).is_allowed


async def test_nobody_is_refused_by_a_quota_that_is_gone() -> None:
    guard = Guard()
    guard.books.stored.clear()
    assert await guard(work(deployment(9))) == ALLOWED


async def test_above_already_it_may_come_closer_and_not_change_otherwise() -> None:
    guard = Guard()
    assert (await guard(work(deployment(5)), work(deployment(6)))).is_allowed
    assert not (await guard(work(deployment(6)), work(deployment(6)))).is_allowed
    assert not (await guard(work(deployment(5, "1")), work(deployment(6)))).is_allowed


async def test_of_a_binding_that_is_gone_nothing_is_admitted() -> None:
    guard = Guard(binding=None)
    verdict = await guard(work(deployment(1)))
    assert verdict.code == 403
    assert (
        f"cluster m1 would get replicas=1, admitted 0; cpu=250m, admitted 0: and {TEAM}/web-deployment"
        in verdict.message
    )
    assert "is gone" in verdict.message
    assert await guard(work({"apiVersion": "v1", "kind": "Service", "spec": {}})) == ALLOWED


@pytest.mark.parametrize(
    "guard",
    [
        Guard(is_present=False),
        Guard(binding=error.NoAnswerError("cut off")),
        Guard(binding=error.ApiError(500, "InternalError")),
        Guard(stored=UnreachableError("cut off")),
    ],
    ids=["this replica", "the binding", "the API server", "the quota"],
)
async def test_what_cannot_be_told_is_asked_again_later(guard: Guard) -> None:
    verdict = await guard(work(deployment(9)))
    assert (verdict.is_allowed, verdict.code, verdict.retry_after_seconds) == (False, 429, 1)


async def test_a_quota_that_only_warns_and_a_system_that_does() -> None:
    for guard in (Guard(behaving(QUOTA, WARN)), Guard(is_warning_only=True)):
        verdict = await guard(work(deployment(9)))
        assert verdict.is_allowed
        assert verdict.warnings == (
            f"{TEAM}/web-deployment in m1: replicas=9, admitted 3 (let through: the quota only warns)",
        )
    assert not (await Guard(behaving(QUOTA, HOLD))(work(deployment(9)))).is_allowed


async def test_what_cannot_be_read_is_refused_with_the_reason() -> None:
    verdict = await Guard()(work(deployment(cpu="lots")))
    assert (verdict.code, verdict.reason) == (422, "Invalid")
    assert "'lots' is not a quantity" in verdict.message
    with pytest.raises(codec.CodecError):
        await Guard()({"metadata": {}})


ELSEWHERE = replace(QUOTA, namespace="elsewhere")
ANNS = usage_account(schemes({"dept": [limited("ann", cpu=9)]}))


async def test_a_limit_of_its_users_stands_in_the_way_whether_or_not_there_is_an_account_yet() -> None:
    guard = Guard(ELSEWHERE, owners=[ANNS])
    assert await guard(work(deployment())) == ALLOWED
    verdict = await guard(work(deployment(4)))
    assert (verdict.code, verdict.reason) == (403, "QuotaExceeded")
    assert f"more than limit of user ann in tree lab admitted {TEAM}/web-deployment with" in verdict.message
    assert ANNS.name not in guard.books.stored, "there is nothing to be read of it"


async def test_nobody_is_refused_by_a_limit_that_has_just_been_changed() -> None:
    guard = Guard(ELSEWHERE, owners=[ANNS])
    guard.books.limits_are_new = True
    verdict = await guard(work(deployment(4)))
    assert (verdict.code, verdict.retry_after_seconds) == (429, 1)
    assert "the limit of user ann in tree lab has just been changed" in verdict.message


async def test_a_limit_only_warns_where_the_whole_system_does_and_minds_pods_alone() -> None:
    verdict = await Guard(ELSEWHERE, owners=[ANNS], is_warning_only=True)(work(deployment(4)))
    assert (verdict.is_allowed, len(verdict.warnings)) == (True, 1)
    objects = usage_account(schemes({"dept": [limited("ann", **{"count/deployments.apps": 1})]}))
    assert await Guard(ELSEWHERE, owners=[objects])(work(deployment(4))) == ALLOWED
