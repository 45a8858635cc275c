"""Reviews of bindings whose owner, or its group, is limited."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.answer import Answer, Denied, Later
from federation_quota.binding import Binding
from federation_quota.kube import codec
from federation_quota.ledger.account import Account
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Ask, Exceeded
from federation_quota.quantity import parse
from tests.unit.accounts import quota
from tests.unit.documents import BINDING, changed
from tests.unit.limits import ANN, LEAF, account, limited, schemes
from tests.unit.reviews import TEAM, behaving, review
from webhook.bindings import BindingReview

ANNS = account(schemes({"dept": [limited("ann", cpu=1)]}))
DENIAL = Denial(ANNS.name, [Exceeded("cpu@dept", parse("1"), parse("1"), parse("1"))], ANNS.namespace, ANNS.title)


class Judge:
    """An accountant that gives one answer, and keeps what it was asked."""

    def __init__(self, answer: Answer, *accounts: Account) -> None:
        self.told = answer
        self.known = accounts
        self.asks: list[Mapping[str, Ask]] = []
        self.may_exceed: list[bool] = []

    def accounts(self, place: str) -> list[Account]:
        return [one for one in self.known if one.namespace == place]

    async def answer(self, asks: Mapping[str, Ask], *, may_exceed: Any, **_options: object) -> Answer:  # noqa: ANN401
        self.asks.append(asks)
        self.may_exceed = [may_exceed(ANNS.namespace, ANNS.name), may_exceed(TEAM, ANNS.name)]
        return self.told

    @property
    def accountant(self) -> Accountant:
        return cast(Accountant, self)


def request(user: str = "karmada", *, dry_run: bool = False) -> codec.AdmissionRequest:
    found = review(changed("spec/replicas", 9), BINDING)
    return msgspec.structs.replace(found, user_info=codec.UserInfo(user), dry_run=dry_run)


@pytest.mark.parametrize(
    ("user", "dry_run", "is_noted"), [("karmada", False, True), ("system", False, False), ("karmada", True, False)]
)
async def test_who_is_refused_by_a_limit_waits_for_it_and_for_no_quota_of_its_name(
    user: str, dry_run: bool, is_noted: bool
) -> None:
    noted: list[tuple[str, str, str]] = []

    def note(place: str, name: str, new: Binding, _old: Binding | None, message: str) -> None:
        assert message == DENIAL.message
        noted.append((place, name, new.key.name))

    found = BindingReview(
        Judge(Denied(DENIAL)).accountant,
        "system".__eq__,
        would_hold=lambda _new, _old, _quota: True,  # a KarmadaQuota may have the account's name
        note=note,
    )
    verdict = await found(request(user, dry_run=dry_run), 0.0)
    assert (verdict.code, verdict.reason) == (403, "QuotaExceeded")
    assert verdict.message.startswith("exceeded limit of user ann in tree lab, on dept: requested: cpu=1, used: cpu=1")
    assert noted == ([(ANNS.namespace, ANNS.name, "web-deployment")] if is_noted else [])


async def test_what_is_asked_for_says_whose_it_is_and_where() -> None:
    judge = Judge(Later("not now"))
    verdict = await BindingReview(judge.accountant, "system".__eq__)(request(), 0.0)
    assert verdict.code == 429
    asked = judge.asks[0][TEAM].new
    assert (asked.owner, asked.leaf) == (ANN, LEAF)


@pytest.mark.parametrize("is_warning_only", [False, True])
async def test_a_limit_is_exceeded_only_where_the_whole_system_warns(is_warning_only: bool) -> None:
    judge = Judge(Later("not now"), ANNS, behaving(quota(ANNS.name, {"cpu": 1}), "Warn"))
    await BindingReview(judge.accountant, "system".__eq__, is_warning_only)(request(), 0.0)
    assert judge.may_exceed == [is_warning_only, True], "a quota of the same name may be one that warns"


async def test_less_is_never_refused() -> None:
    judge = Judge(Denied(DENIAL))
    found = review(changed("spec/replicas", 1, changed("spec/clusters", [])), changed("spec/clusters", []))
    assert (await BindingReview(judge.accountant, "system".__eq__)(found, 0.0)).is_allowed
    assert judge.asks == []
