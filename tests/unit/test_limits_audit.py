"""What is stored beside the limit of a user or group and was never reserved there is noticed, and nothing else is."""

from dataclasses import replace

from controllers.auditing import AuditedBindings, Audits
from controllers.limits import Limits
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding
from federation_quota.ledger.account import Account
from federation_quota.ledger.reservation import Reservation
from federation_quota.limits import usage
from federation_quota.limits.hierarchy import ROOT
from federation_quota.limits.scheme import NO_LIMITS
from federation_quota.limits.subject import USER, Subject
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp
from tests.unit import waiters
from tests.unit.limits import ANN, LEAF, TREE, limited, owned, schemes

FIVE = schemes({ROOT: [limited("ann", cpu=5)]})
ANNS = Subject(TREE, USER, "ann")


class Stand:
    """Both watches, each fed by hand."""

    def __init__(self) -> None:
        self.audits = Audits()
        observation = Observation()
        self.bindings = AuditedBindings(observation, lambda _before, _after: None, self.audits)
        self.limits = Limits(observation, self.bindings, self.audits.usage)
        self.bindings.replace([], 1)
        self.limits.accounts.replace([], 1)
        self.limits.limit(FIVE)

    def account(self, version: int, *reservations: Reservation) -> None:
        found: Account = replace(usage.unopened(ANNS), uid="u", version=str(version), reservations=reservations)
        self.limits.accounts.upsert(replace(found, active_shape=usage.fitted(found, FIVE).shape))

    def stored(self, cpu: int, version: int) -> None:
        amounts = Resources.parse({"cpu": cpu, "pods": cpu})
        made: Binding = waiters.binding("web", cpu, version=version)
        self.bindings.upsert(replace(made, demand=amounts, stamp=Stamp(leaf=LEAF, owner=ANN)))

    def noticed(self, version: int) -> list[str]:
        return [one.quota for one in self.audits.usage.reached(accounts=version, bindings=version)]


def reservation(cpu: int) -> Reservation:
    return Reservation("id", "test/web-deployment", owned(ANN, {"cpu": cpu, "pods": cpu}), uid="uid-web")


def test_what_was_reserved_is_no_news_and_what_was_not_is() -> None:
    stand = Stand()
    stand.account(10, reservation(3))
    stand.stored(3, 11)
    assert stand.noticed(11) == []
    stand.account(12)
    stand.stored(4, 13)
    assert stand.noticed(13) == [ANNS.account]
    stand.stored(2, 14)
    assert stand.noticed(14) == [], "less is nobody's business"


def test_nothing_is_said_of_what_was_stored_while_there_was_no_limit() -> None:
    stand = Stand()
    stand.account(10)
    stand.limits.limit(NO_LIMITS)
    stand.stored(3, 11)
    stand.limits.limit(FIVE)
    stand.stored(3, 12)
    assert stand.noticed(12) == []
    stand.stored(4, 13)
    assert stand.noticed(13) == [ANNS.account]


def test_limits_that_others_have_joined_and_this_one_has_not_heard_of_are_not_judged_by() -> None:
    stand = Stand()
    stand.account(10)
    stand.limits.limit(schemes({ROOT: [limited("ann", cpu=9)]}))
    stand.stored(3, 11)
    assert stand.noticed(11) == []


def test_what_was_seen_before_it_was_known_that_there_was_no_limit_is_not_held_against_one_that_comes_back() -> None:
    stand = Stand()
    stand.account(10)
    stand.stored(3, 11)
    stand.limits.limit(NO_LIMITS)
    stand.limits.limit(FIVE)
    assert stand.noticed(12) == []
