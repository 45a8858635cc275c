"""The early word: said where there is something to say, and never in the way."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from federation_quota.accounting.answer import Allowed, Denied, Exists, Later
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding
from federation_quota.karmadaquota import HOLD, WARN
from federation_quota.kube import codec, error
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.account import Account
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Exceeded
from federation_quota.ledger.view import Entry
from federation_quota.quantity import parse
from tests.unit.accounts import claim, creation, holding, quota
from tests.unit.documents import BINDING
from tests.unit.reviews import TEAM, Api, Books, behaving, review, soon
from webhook.advice import Advice
from webhook.review import ALLOWED, Verdict

EXCEEDED = (Exceeded("cpu", parse(4), parse(8), parse(10)),)


def active(account: Account) -> Account:
    return replace(account, active_shape=account.lens.shape)


QUOTA = active(behaving(quota("q")))


def deployment(replicas: int = 4, cpu: str = "1", name: str = "new") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }


def scale(replicas: int) -> dict[str, Any]:
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "new"},
        "spec": {"replicas": replicas},
    }


class Adviser:
    """The hook, in a namespace where 8 of 10 cpu are used."""

    def __init__(
        self,
        *accounts: Account,
        bindings: tuple[Binding, ...] = (),
        denies: bool = False,
        is_warning_only: bool = False,
    ) -> None:
        self.books = Books(list(accounts or [QUOTA]))
        self.api = Api()
        observation = Observation()
        mirror = BindingMirror(observation)
        for binding in bindings:
            mirror.upsert(binding)
        observation.upsert(TEAM, "other", Entry("u", 1, claim(8)))
        accountant = self.books.accountant
        self.advice = Advice(accountant, observation, mirror, self.api.client, denies, is_warning_only)

    async def __call__(
        self, new: dict[str, Any], old: dict[str, Any] | None = None, *, sub_resource: str = ""
    ) -> Verdict:
        asked = review(
            new, old, resource="deployments", group="apps", sub_resource=sub_resource, name=new["metadata"]["name"]
        )
        return await self.advice(asked, soon())


WARNING = (
    "quota q: 4 more cpu asked for, 8 of 10 used: if propagated, it will not be scheduled until something is freed"
)


async def test_what_will_not_fit_is_warned_of() -> None:
    assert await Adviser()(deployment()) == Verdict(warnings=(WARNING,))


async def test_what_fits_or_is_not_limited_is_not_talked_about() -> None:
    assert await Adviser()(deployment(2)) == ALLOWED
    assert await Adviser(active(behaving(quota("q", {"memory": 1}))))(deployment()) == ALLOWED
    assert await Adviser(replace(QUOTA, namespace="elsewhere"))(deployment()) == ALLOWED


async def test_every_quota_has_its_word_also_beside_one_that_has_room() -> None:
    roomy = active(behaving(quota("a", 100)))
    verdict = await Adviser(roomy, QUOTA, active(behaving(quota("z", 9), WARN)))(deployment())
    assert verdict.warnings == (
        WARNING,
        "quota z: 4 more cpu asked for, 8 of 9 used: let through, this quota only warns",
    )


async def test_what_is_reserved_is_used() -> None:
    account = holding(QUOTA, creation("under-way", 1))
    verdict = await Adviser(account)(deployment(2))
    assert verdict.warnings[0].startswith("quota q: 2 more cpu asked for, 9 of 10 used")


async def test_a_change_counts_from_what_is_bound() -> None:
    """`web` has 5 replicas of 250m, 4 of them assigned: 1250m."""
    bound = (codec.decode_binding(json.dumps(BINDING).encode()),)
    adviser = Adviser(bindings=bound)
    verdict = await adviser(deployment(5, "1", "web"), deployment(5, "250m", "web"))
    assert verdict.warnings == (
        "quota q: 3750m more cpu asked for, 9250m of 10 used: "
        "if propagated, the change will not reach the members until something is freed",
    )


async def test_scaling_counts_what_the_stored_workload_asks_for() -> None:
    adviser = Adviser()
    adviser.api.objects["new"] = deployment(1)
    assert (await adviser(scale(4), scale(1), sub_resource="scale")).warnings == (WARNING,)
    assert adviser.api.reads == [f"deployments/{TEAM}/new"]
    assert await adviser(scale(2), scale(1), sub_resource="scale") == ALLOWED


@pytest.mark.parametrize(
    "account",
    [replace(QUOTA, active_shape=""), replace(QUOTA, observed=99)],
    ids=["being taken up", "ahead of this replica"],
)
async def test_nothing_is_said_where_too_little_is_known(account: Account) -> None:
    assert await Adviser(account)(deployment()) == ALLOWED


class TestFailingOpen:
    @pytest.mark.parametrize(
        "manifest",
        [
            deployment(cpu="lots"),
            {"metadata": {"name": "new"}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "new"}, "spec": []},
        ],
    )
    async def test_what_cannot_be_read_passes(self, manifest: dict[str, Any]) -> None:
        assert await Adviser()(manifest) == ALLOWED
        assert await Adviser(denies=True)(manifest) == ALLOWED

    async def test_what_is_gone_or_does_not_answer_passes(self) -> None:
        adviser = Adviser()
        assert await adviser(scale(4), scale(1), sub_resource="scale") == ALLOWED
        adviser.api.objects["new"] = error.NoAnswerError("cut off")
        assert await adviser(scale(4), scale(1), sub_resource="scale") == ALLOWED

    async def test_an_accountant_that_fails_or_hesitates_denies_nobody(self) -> None:
        for answer in (RuntimeError("a bug"), Later("no decision"), Exists()):
            adviser = Adviser(denies=True)
            adviser.books.answers = answer
            assert await adviser(deployment()) == ALLOWED
            assert adviser.books.asks

    async def test_out_of_time_it_passes(self) -> None:
        adviser = Adviser(denies=True)
        adviser.books.is_stuck = True
        asked = review(deployment(), resource="deployments", group="apps", name="new")
        async with asyncio.timeout(5):
            assert await adviser.advice(asked, asyncio.get_running_loop().time() + 0.05) == ALLOWED


class TestDenying:
    async def test_says_what_the_binding_would_be_told(self) -> None:
        adviser = Adviser(denies=True)
        adviser.books.answers = Denied(Denial("q", EXCEEDED))
        verdict = await adviser(deployment())
        assert (verdict.is_allowed, verdict.code, verdict.reason) == (False, 403, "QuotaExceeded")
        assert verdict.message == "exceeded quota: q, requested: cpu=4, used: cpu=8, limited: cpu=10"
        assert verdict.causes

    async def test_passes_on_what_quotas_say_that_do_not_deny(self) -> None:
        adviser = Adviser(active(behaving(QUOTA, HOLD)), denies=True)
        adviser.books.answers = Allowed((Denial("q", EXCEEDED), Denial("unheard-of", EXCEEDED)))
        assert (await adviser(deployment())).warnings == (
            "quota q: 4 more cpu asked for, 8 of 10 used: if propagated, it is held until something is freed",
        )

    async def test_who_asks_for_less_than_before_is_only_warned(self) -> None:
        adviser = Adviser(denies=True)
        adviser.books.answers = Denied(Denial("q", EXCEEDED))
        assert await adviser(deployment(), deployment(9)) == Verdict(warnings=(WARNING,))
        assert await adviser(deployment(), deployment()) == Verdict(warnings=(WARNING,))
        assert not (await adviser(deployment(), deployment(3))).is_allowed
        adviser.api.objects["new"] = deployment(9)
        assert (await adviser(scale(4), scale(9), sub_resource="scale")).warnings == (WARNING,)

    async def test_a_system_that_only_warns_denies_nobody(self) -> None:
        adviser = Adviser(denies=True, is_warning_only=True)
        verdict = await adviser(deployment())
        assert verdict.is_allowed
        assert verdict.warnings[0].endswith("let through, federation-quota only warns for now")
        assert adviser.books.asks == []
