"""Titles of tenants: who may take what, what goes along with them, and which are cleared away."""

import json
import re
from collections.abc import AsyncGenerator
from typing import Any, cast

import msgspec
import pytest

from controllers.titles import GONE_SECONDS, TitleSweeper
from federation_quota.kube import lease, titles
from federation_quota.kube.client import Client, Page
from federation_quota.kube.lease import LeaseError
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import Entry, View
from federation_quota.resources import NOTHING, Resources
from federation_quota.tenants import grants, tenant
from federation_quota.tenants.grants import Grant, Grants, Left
from federation_quota.tenants.title import Step, Title, asked, handed_over, next_step, taken

ME, OTHER, THIRD = "me", "other", "third"


def cpu(amount: int) -> Resources:
    return Resources.parse({"cpu": amount})


def test_a_namespace_is_its_own_tenant_unless_it_says_whose_it_is() -> None:
    labels = {"a": {"quota.karmada.io/tenant": "shop"}, "b": {"quota.karmada.io/tenant": ""}, "c": {}}
    assert [tenant.of(name, own) for name, own in labels.items()] == ["shop", "namespace:b", "namespace:c"]


def test_a_namespace_that_is_called_like_a_tenant_is_none_of_its_own() -> None:
    """Whoever may make namespaces, and not assign them, could otherwise use up what is the tenant's."""
    labels = {"a": {"quota.karmada.io/tenant": "shop"}, "shop": {}, "b": {"quota.karmada.io/tenant": "shop"}}
    assert tenant.namespaces("shop", labels.items()) == ("a", "b")
    assert tenant.namespaces(tenant.of("shop", {}), labels.items()) == ("shop",)


@pytest.mark.parametrize("whose", ["shop", "namespace:shop", "n" * 63, f"namespace:{'n' * 63}"])
def test_a_lease_says_whose_it_is_in_labels_that_an_api_server_takes(whose: str) -> None:
    found = titles.labels(whose)
    assert titles.tenant(found) == whose
    assert all(re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value) for value in found.values())
    assert titles.name(whose) != titles.name(f"{whose}x")
    assert titles.name("shop") != titles.name("namespace:shop")


@pytest.mark.parametrize(
    ("title", "former", "unsettled", "step"),
    [
        (None, (), (), Step.CREATE),
        (Title("t", ME), (), (), Step.ACT),
        (Title("t", ""), (), (), Step.TAKE),
        (Title("t", OTHER), (), (OTHER,), Step.ASK),
        (Title("t", OTHER), (), (), Step.TAKE),
        (Title("t", OTHER), (OTHER,), (OTHER,), Step.TAKE),
        (Title("t", OTHER, wanted_by=ME), (), (OTHER,), Step.WAIT),
        (Title("t", OTHER, wanted_by=THIRD), (), (OTHER, THIRD), Step.WAIT),
        (Title("t", OTHER, wanted_by=THIRD), (), (OTHER,), Step.ASK),
    ],
)
def test_what_a_replica_does_about_a_title(
    title: Title | None, former: tuple[str, ...], unsettled: tuple[str, ...], step: Step
) -> None:
    assert next_step(title, ME, former, unsettled) is step


def test_a_title_goes_to_who_wants_it_with_what_was_let_through() -> None:
    held = taken(None, "t", OTHER)
    left = Left(7, (Grant("shop", Reservation("i", "web", Claim(cpu(1)), uid="u"), 3.5),))
    passed = handed_over(asked(held, ME), left)
    assert (passed.holder, passed.wanted_by, passed.left) == (ME, "", left)
    assert handed_over(held, left).holder == ""
    assert grants.decode(left.encode()) == left
    many = tuple(Grant("shop", Reservation(f"i{n}", "web", Claim(cpu(1)), uid="u"), 0.0) for n in range(5000))
    assert Left(7, many).encode() == "", "more than an annotation holds"
    for text in ("{}", "[]", "x", '{"observed": "1", "grants": [{}]}'):
        with pytest.raises(ValueError, match=r".*"):
            grants.decode(text)


def test_a_lease_whose_past_cannot_be_read_is_nobodys() -> None:
    document = lease.manifest("x", {"holderIdentity": ME}, labels={"quota.karmada.io/tenant": "t"}, version="3")
    assert titles.decode(json.dumps(document).encode()) == Title("t", ME, 3)
    document["metadata"]["annotations"] = {"quota.karmada.io/legacy": "{"}
    with pytest.raises(LeaseError):
        titles.decode(json.dumps(document).encode())


def test_what_was_granted_counts_until_it_is_seen_and_once() -> None:
    view, kept = View(), Grants(expiry_seconds=60)
    kept.add("shop", Reservation("1", "web", Claim(cpu(4)), uid="u"), now=0)
    kept.add("shop", Reservation("2", "web", Claim(cpu(4)), uid="u"), now=0)  # asked about twice
    kept.add("shop-eu", Reservation("3", "api", Claim(cpu(2)), uid="v"), now=50)
    assert kept.used(["shop", "shop-eu"], view) == cpu(6)
    assert kept.accounted("shop", "web", view) == cpu(4)
    assert kept.accounted("shop", "api", view) == NOTHING
    view.upsert("shop", "web", Entry("u", 12, Claim(cpu(4))))
    kept.settle(view)
    assert (len(kept), kept.observed) == (1, 12)
    assert kept.used(["shop", "shop-eu"], view) == cpu(6)
    [late] = kept.expired(now=111)
    kept.end(late.reservation.id, None)
    assert kept.used(["shop", "shop-eu"], view) == cpu(4)


def test_a_grant_grows_old_whoever_keeps_it() -> None:
    first, second = Grants(expiry_seconds=60), Grants(expiry_seconds=60)
    first.add("shop", Reservation("1", "web", Claim(cpu(4)), uid="u"), now=1000)
    second.inherit(first.left(now=1040), now=5)
    assert not second.expired(now=24)
    assert second.expired(now=26)


class Leases:
    """An API server with Leases of tenants."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = {one["metadata"]["name"]: one for one in documents}
        self.deleted: list[str] = []

    async def list(self, *_: object, **__: object) -> AsyncGenerator[Page, None]:
        yield Page([msgspec.Raw(json.dumps(one).encode()) for one in self.documents.values()], 9, None)

    async def delete(self, _resource: object, name: str, *_: object, **__: object) -> None:
        self.deleted.append(name)
        del self.documents[name]


def title(name: str, holder: str | None = None) -> dict[str, Any]:
    spec = {"holderIdentity": holder} if holder else {}
    return lease.manifest(f"tenant-{name}", spec, labels={"quota.karmada.io/tenant": name}, version="3")


async def test_leases_of_tenants_that_are_no_more_are_cleared_away_in_time() -> None:
    own = lease.manifest("tenant-own", {}, labels=titles.labels("namespace:own"), version="3")
    server, clock = Leases(title("gone"), title("there"), title("held", ME), own), [0.0]
    sweeper = TitleSweeper(cast(Client, server), "system", lambda: clock[0])
    assert await sweeper.sweep({"there", "namespace:own"}) == 0
    clock[0] += GONE_SECONDS / 2
    server.documents["tenant-gone"]["metadata"]["resourceVersion"] = "4"  # somebody had it meanwhile
    assert await sweeper.sweep({"there", "namespace:own"}) == 0
    clock[0] += GONE_SECONDS - 1
    assert await sweeper.sweep({"there", "namespace:own"}) == 0
    clock[0] += 2
    assert await sweeper.sweep({"there", "namespace:own"}) == 1
    assert server.deleted == ["tenant-gone"]
