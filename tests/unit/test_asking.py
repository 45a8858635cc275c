"""Which validators are asked about an increase, and what becomes of it where one is broken."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from federation_quota.accounting.answer import Allowed, Answer, Later
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.kube import codec
from federation_quota.kube.mirrors import claim
from federation_quota.ledger.claim import NO_CLAIM
from federation_quota.ledger.judging import Ask
from federation_quota.resources import Resources
from federation_quota.validators import Context, Decision, Request, Tenant, refuse
from tests.unit.halls import Titles, tenancy
from webhook.calls import Calls
from webhook.validation import Change, Objection, Validation


class Never:
    """Refuses, if it is asked."""

    name = "never"

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self.asked = 0

    def start(self, context: Context) -> None: ...

    def validate(self, request: Request, tenant: Tenant) -> Decision:
        self.asked += 1
        return refuse("no")


class Fails(Never):
    """Cannot say whether it wants to be asked."""

    @property
    def enabled(self) -> bool:
        raise OSError("no database")

    @enabled.setter
    def enabled(self, _value: bool) -> None: ...


class Nonsense(Never):
    """Gives an answer that means no, and reads as yes."""

    def validate(self, request: Request, tenant: Tenant) -> Decision:
        said: type = Decision
        made: Decision = said("no money")
        return made


def validation(*validators: Never, is_warning_only: bool = False) -> Validation:
    turns = tenancy(Titles())

    async def look(_namespace: str) -> dict[str, str]:
        raise AssertionError("whose it is is known")

    return Validation(
        validators, Calls(20.0), turns, turns.view, lambda _: {}, look, lambda tenant: [tenant], is_warning_only
    )


async def judged(asked: Validation) -> Answer | Objection:
    key, template = ObjectKey("shop", "web"), TemplateRef("apps/v1", "Deployment", "shop", "web")
    new = Binding(key, "uid", 0, template, demand=Resources.parse({"cpu": "1"}))
    review = codec.AdmissionRequest(
        uid="1",
        operation="CREATE",
        kind=codec.GroupVersionKind(),
        resource=codec.GroupVersionResource(),
        object=msgspec.Raw(b"{}"),
    )

    async def quotas() -> Answer:
        return Allowed()

    change = Change(review, new, Ask("1", "web", claim(new), NO_CLAIM, "uid", None))
    return await asked.judge(change, asyncio.get_running_loop().time() + 20, quotas)


async def test_who_is_not_enabled_is_not_asked_until_it_is() -> None:
    validator = Never(enabled=False)
    asked = validation(validator)
    assert (asked.is_on, await judged(asked)) == (False, Allowed())
    assert validator.asked == 0
    validator.enabled = True
    assert (asked.is_on, await judged(asked)) == (True, Objection("never", refuse("no")))
    assert validator.asked == 1
    validator.enabled = False
    assert await judged(asked) == Allowed()
    assert validator.asked == 1


async def test_one_that_is_not_enabled_keeps_no_other_from_being_asked() -> None:
    off, on = Never(enabled=False), Never()
    assert isinstance(await judged(validation(off, on)), Objection)
    assert (off.asked, on.asked) == (0, 1)


async def test_nobody_is_asked_where_nothing_is_to_be_refused() -> None:
    validator = Never()
    assert await judged(validation(validator, is_warning_only=True)) == Allowed()
    assert validator.asked == 0


@pytest.mark.parametrize("enabled", [None, 0, ""])
async def test_who_does_not_say_whether_it_is_enabled_is_asked(enabled: bool) -> None:
    assert isinstance(await judged(validation(Never(enabled))), Objection)


async def test_one_whose_enabled_fails_is_asked_and_the_log_says_so() -> None:
    with capture_logs() as lines:
        assert isinstance(await judged(validation(Fails())), Objection)
    [line] = lines
    assert (line["event"], line["validator"]) == ("validator.unclear", "never")


async def test_an_answer_that_is_none_is_one_to_come_again() -> None:
    assert await judged(validation(Nonsense())) == Later("validator never failed: federation-quota's log says why")
