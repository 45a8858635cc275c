"""Elastic leaves as accounts: what they limit, what they keep, and what is written of them."""

from dataclasses import replace
from typing import Any

import pytest

from federation_quota.api.elastic import SharingStatus
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.elastic import leaf
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.quota import QuotaError
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Admitted, Books, Refused, Verdict
from federation_quota.ledger.judging import Ask as LedgerAsk
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import Entry, View
from federation_quota.quantity import parse
from federation_quota.resources import Resources

BOOKS: dict[str, Any] = {
    "runtime": {"cpu": "5", "memory": "2Gi"},
    "min": {"cpu": "4"},
    "held": 3,
    "reservations": [
        {
            "id": "a",
            "binding": "shop/web",
            "charge": {"cpu": "2"},
            "class": "",
            "time": "2026-01-01T00:00:00Z",
            "base": "7",
        }
    ],
    "observedBindingVersion": "41",
    "shape": "s",
    "joined": [{"replica": "one", "shape": "s"}],
}


def elastic(status: dict[str, Any] | None = None, **spec: Any) -> Account:  # noqa: ANN401
    document = {
        "kind": "ElasticQuota",
        "metadata": {"namespace": "shop", "name": "own", "uid": "u", "resourceVersion": "3", "generation": 2},
        "spec": {"min": {"cpu": "4"}, "max": {"cpu": "10", "memory": "4Gi"}, **spec},
    }
    return leaf.read({**document, "status": status} if status is not None else document)


def test_a_leaf_is_an_account_in_a_domain_that_no_namespace_can_be() -> None:
    account = elastic()
    assert (account.namespace, account.name) == (domain.of_leaf("shop/own"), "shop/own")
    composite = leaf.read(
        {"kind": "CompositeElasticQuota", "metadata": {"name": "shop", "uid": "u", "resourceVersion": "3"}, "spec": {}}
    )
    assert composite.name == "shop"
    assert composite.namespace != "shop"
    assert not domain.is_leaf("shop")


@pytest.mark.parametrize("place", ["shop", domain.of_leaf("team"), domain.of_leaf("shop/own")])
def test_a_binding_is_found_again_by_what_it_is_called(place: str) -> None:
    key = ObjectKey("shop", "web.example-deployment")
    assert domain.binding_in(place, domain.name_in(place, key)) == key


def test_bindings_of_one_name_are_called_differently_under_a_leaf() -> None:
    place = domain.of_leaf("team")
    assert domain.name_in(place, ObjectKey("shop", "web")) != domain.name_in(place, ObjectKey("bank", "web"))


def test_the_published_runtime_is_the_limit_and_the_books_are_read() -> None:
    account = elastic(BOOKS)
    assert {name: str(limit) for name, limit in account.limits.items()} == {"cpu": "5", "memory": "2Gi"}
    assert account.fault == ""
    assert account.reservations == (
        Reservation("a", "shop/web", Claim(Resources.parse({"cpu": 2})), base=7, time="2026-01-01T00:00:00Z"),
    )
    assert (account.observed, account.active_shape, account.joined) == (41, "s", frozenset({("one", "s")}))


def test_of_what_is_not_published_nothing_can_be_had_yet() -> None:
    account = elastic({"runtime": {"cpu": "5"}})
    assert account.limits["memory"].is_zero
    assert account.fault == "how much memory it may use now has yet to be worked out"
    assert elastic().fault == "how much cpu, memory it may use now has yet to be worked out"


def test_what_a_leaf_limits_does_not_depend_on_what_is_published() -> None:
    assert elastic().lens.shape == elastic(BOOKS).lens.shape


def test_a_whole_status_is_written_and_nothing_of_others_lost() -> None:
    account = elastic(BOOKS)
    written = leaf.status(account, Resources.parse({"cpu": "3500m"}))
    kept = {**BOOKS, "used": {"cpu": "3500m", "memory": "0"}, "summary": "cpu: 3500m/5, memory: 0/2Gi"}
    assert written == kept
    SharingStatus.model_validate(written)


def test_an_account_with_another_runtime_publishes_it() -> None:
    account = elastic({"runtime": {"cpu": "5"}})
    raised = leaf.stored_as(account, {**leaf.kept(account).status, "runtime": {"cpu": "6", "memory": "1Gi"}})
    assert (str(raised.limits["cpu"]), raised.fault) == ("6", "")
    assert leaf.published(raised) == {"cpu": 6000, "memory": 2**30}
    assert leaf.status(raised, Resources())["runtime"] == {"cpu": "6", "memory": "1Gi"}


def test_asks_are_kept_beside_the_books() -> None:
    wanted = (Ask("shop/web", Resources.parse({"cpu": 9}), "2026-01-01T00:00:00Z"),)
    account = leaf.with_asks(elastic(BOOKS), wanted)
    assert leaf.asks(account) == wanted
    written = leaf.status(account, Resources())
    assert (written["runtime"], written["held"]) == (BOOKS["runtime"], 3)
    SharingStatus.model_validate(written)


def test_what_is_taken_is_stored_or_reserved() -> None:
    account, view = elastic(BOOKS), View()
    view.upsert(account.namespace, "bank/db", Entry("u", 50, Claim(Resources.parse({"cpu": "1500m"}))))
    assert leaf.taken(account, view) == {"cpu": 3500, "memory": 0}


def test_a_leaf_is_charged_what_was_given_and_holds_for_what_is_asked() -> None:
    binding = Binding(
        ObjectKey("shop", "web"),
        "u",
        1,
        TemplateRef("apps/v1", "Deployment", "shop", "web"),
        demand=Resources.parse({"cpu": 3, "pods": 3}),
        assigned=Resources.parse({"cpu": 1, "pods": 1}),
    )
    asked_for = Resources.parse({"admission.cpu": 3, "admission.pods": 3})
    assert leaf.claim(binding) == Claim(binding.assigned + asked_for)
    assert elastic().lens.cost(leaf.claim(binding)) == Resources.parse({"cpu": 1}), "what is asked for is not limited"
    assert leaf.wants(elastic(), binding) == Resources.parse({"cpu": 3})
    idle = replace(binding, demand=Resources.parse({"count/configmaps": 1}), assigned=Resources())
    assert not leaf.wants(elastic(), idle)


def test_a_leaf_may_limit_what_it_is_asked_for_beside_what_it_gives() -> None:
    account, view = elastic(BOOKS, admission={"cpu": "6"}), View()
    assert {name: str(limit) for name, limit in account.limits.items()} == {
        "cpu": "5",
        "memory": "2Gi",
        "admission.cpu": "6",
    }
    view.upsert(account.namespace, "bank/db", Entry("u", 50, leaf.asking(Resources.parse({"cpu": 4}))))
    assert leaf.taken(account, view) == {"cpu": 2000, "memory": 0}, "what waits is not used"
    assert leaf.status(account, Books(account, view).used)["used"] == {"cpu": "2", "memory": "0"}

    def verdict(cpu: int) -> Verdict:
        return Books(account, view).judge(
            LedgerAsk("x", "bank/new", leaf.asking(Resources.parse({"cpu": cpu})), uid="x")
        )

    assert isinstance(verdict(2), Admitted)
    refused = verdict(3)
    assert isinstance(refused, Refused)
    denial = Denial("shop/own", refused.exceeded, account.namespace)
    assert denial.message == (
        "exceeded quota: shop/own, requested: admission.cpu=3, used: admission.cpu=4, limited: admission.cpu=6"
    )
    assert denial.causes[0]["field"] == "elasticquotas/shop/own/spec.admission[cpu]"


def test_no_binding_can_pretend_to_ask_for_less() -> None:
    cheat = Binding(
        ObjectKey("shop", "web"),
        "u",
        1,
        TemplateRef("apps/v1", "Deployment", "shop", "web"),
        demand=Resources.parse({"cpu": 3, "admission.cpu": 1}),
        assigned=Resources.parse({"admission.cpu": 1}),
    )
    assert leaf.claim(cheat).charge == Resources.parse({"admission.cpu": 3})


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"metadata": {}},
        {"metadata": {"name": "x", "namespace": "y", "uid": "u", "resourceVersion": "x"}},
        {"metadata": {"name": "x", "namespace": "y", "uid": 3, "resourceVersion": "1"}},
        {"metadata": {"name": "x", "namespace": "y", "uid": "u", "resourceVersion": "1"}, "status": {"joined": 3}},
        {
            "metadata": {"name": "x", "namespace": "y", "uid": "u", "resourceVersion": "1"},
            "spec": {"min": {"cpu": "a"}},
        },
    ],
)
def test_what_is_no_quota_is_said_to_be_none(document: dict[str, Any]) -> None:
    with pytest.raises(QuotaError, match="cannot be used"):
        leaf.read({"kind": "ElasticQuota", **document})


def test_only_a_leaf_has_what_a_leaf_keeps() -> None:
    plain = Account("shop", "q", {"cpu": parse(1)}, elastic().selector)
    assert not leaf.is_leaf(plain)
    with pytest.raises(TypeError):
        leaf.kept(plain)
