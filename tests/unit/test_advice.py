"""The early word: said where there is something to say, and never in the way."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from federation_quota.accounting.answer import Allowed, Denied, Exists, Later
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding
from federation_quota.elastic import leaf
from federation_quota.elastic.capacity import Cluster
from federation_quota.elastic.forest import Forest
from federation_quota.karmadaquota import HOLD, WARN
from federation_quota.kube import codec, error
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.account import Account
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Exceeded
from federation_quota.ledger.view import Entry
from federation_quota.quantity import parse
from federation_quota.resources import Resources
from federation_quota.stamp import OWNER_ANNOTATION, QUOTA_NAME_LABEL
from tests.unit.accounts import claim, creation, holding, quota
from tests.unit.documents import BINDING
from tests.unit.limits import ANN, limited, owned, schemes
from tests.unit.limits import account as usage_account
from tests.unit.reviews import TEAM, Api, Books, behaving, review, soon
from webhook.advice import Advice
from webhook.leaves import Leaves
from webhook.prospects import Prospects
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
        async with asyncio.timeout(120):
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


def team(runtime: int = 0, used: int = 0, name: str = "team", **spec: Any) -> Account:  # noqa: ANN401
    """A leaf of which so much is published."""
    account = leaf.read(
        {
            "kind": "CompositeElasticQuota",
            "metadata": {"name": name, "uid": "u", "resourceVersion": "1"},
            "spec": {"min": {"cpu": "0"}, "namespaces": [TEAM], **spec},
            "status": {"runtime": {"cpu": str(runtime)}, "used": {"cpu": str(used)}, "request": {"cpu": str(used)}},
        }
    )
    return active(account)


class UnderTree:
    """The hook, in a namespace that is under these leaves, on a federation of so many cores."""

    def __init__(self, *accounts: Account, cores: int = 20, used: int = 0, denies: bool = False) -> None:
        self.books = Books(list(accounts))
        self.api = Api()
        self.labels: dict[str, str] | Exception = {}
        observation = Observation()
        mirror = BindingMirror(observation)
        leaves = Leaves(
            roots=dict,
            labels=lambda _namespace: None,
            look=self._look,
            on_stored=lambda _account: None,
            on_deleted=lambda _place, _name, _version: None,
        )
        for one in accounts:
            leaves.quota_stored(one)
        known = {one.name: one for one in accounts}
        if used:
            observation.upsert(accounts[0].namespace, "elsewhere/other", Entry("u", 1, claim(used)))
        cluster = Cluster("m1", {}, Resources.parse({"cpu": cores}))
        forest = Forest.of((leaf.kept(one).quota for one in accounts), clusters=[cluster])
        prospects = Prospects(leaves, known.get, lambda: forest, observation, mirror)
        self.advice = Advice(
            self.books.accountant, observation, mirror, self.api.client, denies=denies, prospects=prospects
        )

    async def _look(self, _namespace: str) -> dict[str, str]:
        if isinstance(self.labels, Exception):
            raise self.labels
        return self.labels

    async def __call__(self, new: dict[str, Any], old: dict[str, Any] | None = None, quota_name: str = "") -> Verdict:
        named = {QUOTA_NAME_LABEL: quota_name} if quota_name else {}
        new = {**new, "metadata": {**new["metadata"], "labels": named}}
        asked = review(new, old, resource="deployments", group="apps", name=new["metadata"]["name"])
        return await self.advice(asked, soon())


class TestTrees:
    async def test_what_will_go_soon_is_not_talked_about(self) -> None:
        assert await UnderTree(team(max={"cpu": "10"}))(deployment(4)) == ALLOWED, (
            "nothing is published, and it will be"
        )

    async def test_what_waits_is_told_how_much_there_is(self) -> None:
        assert (await UnderTree(team(max={"cpu": "10"}), cores=3)(deployment(4))).warnings == (
            "quota team: 4 more cpu asked for, 0 of the 3 used that it could have now: "
            "if propagated, it is held until others in its tree need less, or something ends",
        )
        full = UnderTree(team(8, used=8, max={"cpu": "10"}), used=8)
        assert (await full(deployment(4))).warnings == (
            "quota team: 4 more cpu asked for, 8 of 10 used, its max: "
            "if propagated, it is held until something of this quota ends",
        )

    @pytest.mark.parametrize("denies", [False, True])
    async def test_what_can_never_fit_is_told_so_and_refused_where_that_is_asked_for(self, denies: bool) -> None:
        verdict = await UnderTree(team(max={"cpu": "3"}), denies=denies)(deployment(4))
        text = (
            "quota team: 4 more cpu asked for, 0 of 3 used, its max: "
            "if propagated, it is held until the quota is raised"
        )
        assert (verdict.is_allowed, verdict.message or verdict.warnings[0]) == (not denies, text)

    async def test_what_only_waits_is_denied_to_nobody(self) -> None:
        verdict = await UnderTree(team(max={"cpu": "10"}), cores=3, denies=True)(deployment(4))
        assert verdict.is_allowed
        assert len(verdict.warnings) == 1

    async def test_who_asks_for_less_than_before_is_only_warned(self) -> None:
        verdict = await UnderTree(team(max={"cpu": "3"}), denies=True)(deployment(4), deployment(5))
        assert verdict.is_allowed
        assert "until the quota is raised" in verdict.warnings[0]

    @pytest.mark.parametrize(
        ("named", "text"),
        [("nobody", "there is no quota nobody"), ("other", "the quota other is not for namespace team-a")],
    )
    async def test_a_quota_that_cannot_be_had_is_said_at_once(self, named: str, text: str) -> None:
        quotas = team(), team(name="other", namespaces=["elsewhere"])
        warned = await UnderTree(*quotas)(deployment(1), quota_name=named)
        assert text in warned.warnings[0]
        assert warned.warnings[0].endswith(": if propagated, it is refused")
        refused = await UnderTree(*quotas, denies=True)(deployment(1), deployment(1), quota_name=named)
        assert (refused.code, refused.reason) == (403, "QuotaExceeded")
        assert text in refused.message

    async def test_more_than_is_taken_in_is_told_and_judged_like_the_binding(self) -> None:
        busy = UnderTree(team(max={"cpu": "10"}, admission={"cpu": "5"}))
        assert (await busy(deployment(6))).warnings == (
            "quota team: 6 more cpu asked for, 0 of 5 asked for already, all that it takes in: "
            "if propagated, it is refused",
        )
        denying = UnderTree(team(max={"cpu": "10"}, admission={"cpu": "5"}), denies=True)
        denying.advice.observation.upsert("leaf:team", "elsewhere/b", Entry("u", 2, claim({"admission.cpu": 4})))
        denying.books.answers = Denied(Denial("team", EXCEEDED, "leaf:team"))
        refused = await denying(deployment(3))
        assert (refused.code, refused.message) == (403, Denial("team", EXCEEDED, "leaf:team").message)
        assert str(denying.books.asks[-1].new.charge["admission.cpu"]) == "3"

    async def test_a_leaf_of_which_too_little_is_known_says_nothing(self) -> None:
        for unknown in (replace(team(max={"cpu": "1"}), active_shape=""), replace(team(max={"cpu": "1"}), observed=99)):
            assert await UnderTree(unknown)(deployment(4)) == ALLOWED

    async def test_a_namespace_that_cannot_be_read_keeps_nobody(self) -> None:
        adviser = UnderTree(team(max={"cpu": "1"}), denies=True)
        adviser.labels = error.NoAnswerError("cut off")
        assert await adviser(deployment(4)) == ALLOWED


def anns(new: dict[str, Any], text: str = '{"user":"ann","groups":["dev"]}') -> dict[str, Any]:
    return {**new, "metadata": {**new["metadata"], "annotations": {OWNER_ANNOTATION: text}}}


class TestLimits:
    known = schemes({"dept": [limited("ann", cpu=6)]}, ["team"])

    def under(self, *, denies: bool = False, has: int = 0) -> UnderTree:
        """The hook where ann may have 6, and has so much."""
        under = UnderTree(team(100, max={"cpu": "100"}), denies=denies)
        under.books.owners = [usage_account(self.known)]
        view = under.advice.observation.view
        view.charge_to(self.known.domains)
        if has:
            view.upsert("elsewhere", "hers", Entry("u", 2, owned(ANN, {"cpu": has, "pods": 1}, "team")))
        return under

    async def test_what_is_too_much_for_its_owner_is_told(self) -> None:
        assert await self.under()(anns(deployment(6))) == ALLOWED
        assert (await self.under(has=4)(anns(deployment(3)))).warnings == (
            "limit of user ann in tree lab: 3 more cpu on dept asked for, 4 of 6 used: if propagated, it will not be "
            "scheduled until something is freed",
        )
        (told,) = (await self.under()(anns(deployment(7)))).warnings
        assert told.endswith("it will not be scheduled until the limit is raised")

    @pytest.mark.parametrize(
        "new", [deployment(7), anns(deployment(7), "nobody"), anns(deployment(7), '{"user":"bob"}')]
    )
    async def test_what_is_nobodys_or_somebody_elses_is_not_talked_about(self, new: dict[str, Any]) -> None:
        assert await self.under()(new) == ALLOWED

    async def test_it_is_refused_where_the_namespace_asks_for_that(self) -> None:
        under = self.under(denies=True)
        (account,) = under.books.owners
        exceeded = (Exceeded("cpu@dept", parse(7), parse(0), parse(6)),)
        under.books.answers = Denied(Denial(account.name, exceeded, account.namespace, account.title))
        verdict = await under(anns(deployment(7)))
        assert (verdict.code, verdict.reason) == (403, "QuotaExceeded")
        assert [(one.new.owner, one.new.leaf) for one in under.books.asks] == [(ANN, "team")]
        assert not under.books.may_exceed(account.namespace, account.name)
