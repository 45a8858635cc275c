"""Was every increase reserved? By versions alone, whichever of the two watches is ahead."""

from dataclasses import replace

from federation_quota.ledger.account import Account, Advance
from federation_quota.ledger.audit import Audit, Increase
from federation_quota.ledger.claim import NO_CLAIM
from federation_quota.ledger.reservation import Reservation
from tests.conformance.bookstore import NAMESPACE, active
from tests.unit.accounts import claim, creation, quota


def stored(version: int, *reservations: Reservation, base: Account | None = None) -> Account:
    account = active(base or quota())
    return replace(account, uid="u", version=str(version)).with_reservations(reservations)


def increase(version: int, cpu: int = 3, before: int = 0, binding: str = "web") -> Increase:
    return Increase(NAMESPACE, binding, version, claim(before) if before else NO_CLAIM, claim(cpu))


def quotas_of(audit: Audit, accounts: int, bindings: int) -> list[str]:
    return [f"{one.quota}/{one.increase.binding}" for one in audit.reached(accounts=accounts, bindings=bindings)]


def test_a_reservation_that_is_there_is_enough() -> None:
    audit = Audit()
    audit.account_stored(stored(10, creation("web", 3)))
    audit.increased(increase(11))
    assert quotas_of(audit, 50, 50) == []


def test_one_that_comes_later_is_waited_for() -> None:
    audit = Audit()
    audit.account_stored(stored(10))
    audit.increased(increase(15))
    assert quotas_of(audit, 12, 15) == []
    audit.account_stored(stored(14, creation("web", 3)))
    assert quotas_of(audit, 20, 20) == []


def test_one_that_has_ended_is_remembered_until_the_bindings_have_come_that_far() -> None:
    audit = Audit()
    audit.account_stored(stored(10))
    audit.account_stored(stored(11, creation("web", 3)))
    audit.account_stored(stored(13))
    assert quotas_of(audit, 13, 9) == []
    audit.increased(increase(12))
    assert quotas_of(audit, 20, 13) == []
    audit.increased(increase(21))  # the same again: what is left of the reservation is no excuse
    assert quotas_of(audit, 22, 22) == ["quota/web"]


def test_reservations_that_come_after_others_were_judged_count_too() -> None:
    audit = Audit()
    audit.account_stored(stored(10, creation("web", 3)))
    audit.increased(increase(11))
    assert quotas_of(audit, 11, 11) == []
    audit.account_stored(stored(12, creation("api", 3)))
    audit.increased(increase(13, binding="api"))
    assert quotas_of(audit, 13, 13) == []


def test_too_small_or_of_another_binding_is_none() -> None:
    audit = Audit()
    audit.account_stored(stored(10, creation("web", 2), creation("other", 3)))
    audit.increased(increase(11))
    assert quotas_of(audit, 10, 11) == []  # not known yet
    assert quotas_of(audit, 11, 11) == ["quota/web"]
    assert quotas_of(audit, 12, 12) == []  # said once


def test_what_is_older_than_the_account_or_not_its_business_is_not_judged() -> None:
    audit = Audit()
    audit.account_stored(replace(stored(10), active_shape=""))
    audit.increased(increase(11))
    audit.account_stored(stored(12))
    audit.increased(increase(12))
    audit.increased(Increase(NAMESPACE, "web", 13, NO_CLAIM, claim({"memory": "1Gi"})))
    audit.increased(Increase("elsewhere", "web", 13, NO_CLAIM, claim(3)))
    assert quotas_of(audit, 20, 20) == []


def test_an_account_that_is_gone_or_another_says_nothing_any_more() -> None:
    audit = Audit()
    audit.account_stored(stored(10))
    audit.increased(increase(12))
    audit.account_stored(replace(stored(13), uid="another"))
    audit.increased(increase(15))
    audit.account_deleted(NAMESPACE, "quota")
    assert quotas_of(audit, 20, 20) == []


def test_after_a_list_everything_begins_anew() -> None:
    audit = Audit()
    audit.account_stored(stored(10))
    audit.increased(increase(12))
    audit.restart()
    audit.account_stored(stored(30))
    audit.increased(increase(29))
    assert quotas_of(audit, 40, 40) == []
    audit.increased(increase(41))
    assert quotas_of(audit, 41, 41) == ["quota/web"]


def test_what_a_replica_was_advanced_is_as_good_as_a_reservation_until_it_was_given_back() -> None:
    audit = Audit()
    audit.account_stored(stored(10))
    audit.account_stored(replace(stored(11), advances=(Advance("a", "here", claim(3).charge),)))
    audit.account_stored(stored(13))
    audit.increased(increase(12, cpu=5, before=2))
    assert quotas_of(audit, 13, 12) == []
    audit.increased(increase(12, cpu=6, before=2, binding="large"))  # more than anybody had in hand
    assert quotas_of(audit, 13, 12) == ["quota/large"]
    audit.increased(increase(14, cpu=5, before=2))
    assert quotas_of(audit, 15, 15) == ["quota/web"]
