"""What fits, what does not, what nobody knows yet; and the words of a refusal."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.ledger.account import MOST_RESERVATIONS, Account
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import (
    Admitted,
    Ask,
    Books,
    Exceeded,
    Refused,
    Unaffected,
    Unproven,
    Verdict,
    judge_all,
)
from federation_quota.ledger.lens import Lens
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import Entry, View
from federation_quota.quantity import parse
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import EVERYTHING, Selector
from tests.conformance.bookstore import NAMESPACE
from tests.unit.accounts import (
    AMOUNTS,
    CLAIMS,
    SELECTORS,
    change,
    claim,
    creation,
    holding,
    of_class,
    quota,
    without_class,
)

NAMES = ("x", "y", "z")


def watching(**stored: Claim | int) -> View:
    """A view of these bindings, stored at the versions 1, 2, ..."""
    view = View()
    for version, (name, claimed) in enumerate(stored.items(), 1):
        held = claim(claimed) if isinstance(claimed, int) else claimed
        view.upsert(NAMESPACE, name, Entry(f"uid-{name}", version, held))
    return view


def create(binding: str, claimed: Claim | int) -> Ask:
    return Ask("mine", binding, claim(claimed) if isinstance(claimed, int) else claimed, uid=f"uid-{binding}")


def update(binding: str, old: Claim | int, new: Claim | int) -> Ask:
    before = claim(old) if isinstance(old, int) else old
    after = claim(new) if isinstance(new, int) else new
    return Ask("mine", binding, after, before, base=1)


def judge(account: Account, view: View, ask: Ask) -> Verdict:
    return Books(account, view).judge(ask)


def exceeded(verdict: Verdict) -> str:
    """The refusal in words."""
    assert isinstance(verdict, Refused | Unproven)
    return Denial("quota", verdict.exceeded).message


# What is used


def naive_cost(account: Account, claimed: Claim) -> dict[str, int]:
    """By definition, in plain integers of nano units: only what is selected, only what is limited."""
    names = {name.removeprefix("requests.") for name in account.limits}
    if not account.selector.matches(claimed.priority_class):
        return {}
    return {
        name: amount.nano
        for name, amount in claimed.charge.items()
        if name in names and (account.selector.counts_objects or "count/" not in name)
    }


def naive_sum(account: Account, stored: Mapping[str, Claim], reservations: Iterable[Reservation]) -> dict[str, int]:
    """The sum over all names of the largest that is stored or reserved under that name."""
    held = list(reservations)
    total: dict[str, int] = {}
    for binding in {*stored, *(one.binding for one in held)}:
        claims = [one.claim for one in held if one.binding == binding]
        claims += [stored[binding]] if binding in stored else []
        largest: dict[str, int] = {}
        for claimed in claims:
            for name, nano in naive_cost(account, claimed).items():
                largest[name] = max(nano, largest.get(name, 0))
        for name, nano in largest.items():
            total[name] = total.get(name, 0) + nano
    return total


def nanos(amounts: Resources) -> dict[str, int]:
    return {name: amount.nano for name, amount in amounts.items()}


def nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: nano for name, nano in amounts.items() if nano}


ACCOUNTS = st.builds(
    lambda limits, selector: quota(limits=limits, selector=selector),
    st.dictionaries(
        st.sampled_from(["cpu", "requests.cpu", "memory", "pods", "count/deployments.apps"]),
        st.integers(0, 20),
        min_size=1,
    ),
    SELECTORS,
)
STORED = st.dictionaries(st.sampled_from(NAMES), CLAIMS)
RESERVATIONS = st.lists(st.tuples(st.sampled_from(NAMES), CLAIMS), max_size=6).map(
    lambda pairs: [creation(f"id{number}", claimed, name) for number, (name, claimed) in enumerate(pairs)]
)


@given(ACCOUNTS, STORED, RESERVATIONS)
def test_used_is_the_sum_of_the_largest_under_each_name(
    account: Account, stored: dict[str, Claim], reservations: list[Reservation]
) -> None:
    view = watching(**stored)
    books = Books(holding(account, *reservations), view)
    assert nanos(books.used) == nonzero(naive_sum(account, stored, reservations))
    # One by one it comes to the same.
    gradually = Books(account, view)
    for reservation in reservations:
        gradually.admit(reservation)
    assert gradually.used == books.used
    assert gradually.account == books.account


def test_a_reservation_is_admitted_into_the_books_once() -> None:
    books = Books(quota(), watching())
    books.admit(creation("id", 3, "x"))
    books.admit(creation("id", 3, "x"))
    assert books.used == Resources.parse({"cpu": 3})
    assert len(books.account.reservations) == 1


def test_reservations_of_other_namespaces_bindings_do_not_count() -> None:
    view = watching(x=3)
    view.upsert("elsewhere", "y", Entry("uid", 9, claim(5)))
    assert Books(quota(), view).used == Resources.parse({"cpu": 3})


# Whether it fits


@pytest.mark.parametrize("asked", [1, 6])
def test_up_to_the_limit_itself_it_fits(asked: int) -> None:
    ask = create("web", asked)
    assert judge(quota(), watching(x=4), ask) == Admitted(ask.reservation)


def test_one_nano_unit_above_the_limit_it_does_not() -> None:
    verdict = judge(quota(), watching(x=4), create("web", claim({"cpu": "6000000001n"})))
    assert exceeded(verdict) == ("exceeded quota: quota, requested: cpu=6000000001n, used: cpu=4, limited: cpu=10")


def test_a_limit_of_nothing_admits_nothing() -> None:
    assert isinstance(judge(quota(limits=0), watching(), create("web", 1)), Refused)
    assert judge(quota(limits=0), watching(), create("web", 0)) == Unaffected()


@pytest.mark.parametrize("new", [0, 7, 8])
def test_what_does_not_increase_is_unaffected_even_while_over(new: int) -> None:
    assert judge(quota(limits=5), watching(web=8), update("web", 8, new)) == Unaffected()


def test_any_increase_while_over_is_refused() -> None:
    verdict = judge(quota(limits=5), watching(web=8), update("web", 8, claim({"cpu": "8001m"})))
    assert exceeded(verdict) == "exceeded quota: quota, requested: cpu=1m, used: cpu=8, limited: cpu=5"


def test_only_what_increases_is_judged() -> None:
    account = quota(limits={"cpu": 5, "memory": "10Gi"})
    view = watching(web=claim({"cpu": 8, "memory": "1Gi"}))
    # Over in cpu, which goes down; memory goes up and fits.
    ask = update("web", claim({"cpu": 8, "memory": "1Gi"}), claim({"cpu": 7, "memory": "2Gi"}))
    assert judge(account, view, ask) == Admitted(ask.reservation)
    too_much = update("web", claim({"cpu": 8, "memory": "1Gi"}), claim({"cpu": 7, "memory": "11Gi"}))
    assert exceeded(judge(account, view, too_much)) == (
        "exceeded quota: quota, requested: memory=10Gi, used: memory=1Gi, limited: memory=10Gi"
    )


def test_what_is_not_limited_is_not_looked_at() -> None:
    ask = create("web", claim({"memory": "1Ti", "pods": 1000}))
    assert judge(quota(), watching(), ask) == Unaffected()
    assert judge(quota(limits={}), watching(), create("web", 1000)) == Unaffected()


def test_a_resource_that_was_not_there_before_is_an_increase() -> None:
    account = quota(limits={"cpu": 5, "memory": "1Gi"})
    ask = update("web", claim(2), claim({"cpu": 2, "memory": "2Gi"}))
    assert isinstance(judge(account, watching(web=2), ask), Refused)


def test_an_alias_limits_the_same_resource() -> None:
    account = quota(limits={"requests.cpu": 10})
    assert isinstance(judge(account, watching(x=4), create("web", 6)), Admitted)
    assert exceeded(judge(account, watching(x=4), create("web", 7))) == (
        "exceeded quota: quota, requested: requests.cpu=7, used: requests.cpu=4, limited: requests.cpu=10"
    )


def test_of_two_names_for_one_resource_the_lower_limit_decides_and_each_is_named_that_is_exceeded() -> None:
    account = quota(limits={"cpu": 10, "requests.cpu": 8})
    assert isinstance(judge(account, watching(x=4), create("web", 4)), Admitted)
    assert exceeded(judge(account, watching(x=4), create("web", 5))) == (
        "exceeded quota: quota, requested: requests.cpu=5, used: requests.cpu=4, limited: requests.cpu=8"
    )
    assert exceeded(judge(account, watching(x=4), create("web", 7))) == (
        "exceeded quota: quota, requested: cpu=7,requests.cpu=7, used: cpu=4,requests.cpu=4, "
        "limited: cpu=10,requests.cpu=8"
    )


def test_objects_are_counted_by_either_name_and_never_under_a_scope() -> None:
    service = claim({"count/services": 1})
    for name in ("services", "count/services"):
        assert isinstance(judge(quota(limits={name: 1}), watching(), create("web", service)), Admitted)
        assert isinstance(judge(quota(limits={name: 1}), watching(x=service), create("web", service)), Refused)
    scoped = quota(limits={"services": 0}, selector=without_class())
    assert judge(scoped, watching(), create("web", service)) == Unaffected()


def test_what_an_account_does_not_select_does_not_touch_it() -> None:
    gold = quota(limits=5, selector=of_class("gold"))
    view = watching(x=claim(5, "gold"), y=claim(50))
    assert Books(gold, view).used == Resources.parse({"cpu": 5})
    assert judge(gold, view, create("web", claim(50, "silver"))) == Unaffected()
    assert isinstance(judge(gold, view, create("web", claim(1, "gold"))), Refused)


def test_a_change_of_class_is_an_increase_where_it_arrives_and_none_where_it_leaves() -> None:
    ask = update("web", claim(4, "gold"), claim(3, "silver"))
    view = watching(web=claim(4, "gold"), x=claim(3, "silver"))
    assert judge(quota(limits=1, selector=of_class("gold")), view, ask) == Unaffected()
    assert isinstance(judge(quota(limits=6, selector=of_class("silver")), view, ask), Admitted)
    verdict = judge(quota(limits=5, selector=of_class("silver")), view, ask)
    assert exceeded(verdict) == "exceeded quota: quota, requested: cpu=3, used: cpu=3, limited: cpu=5"
    assert judge(quota(limits=1), view, ask) == Unaffected()
    both = quota(limits=1, selector=of_class("gold", "silver"))
    assert judge(both, view, ask) == Unaffected()


def test_what_is_stored_of_the_binding_itself_is_not_counted_twice() -> None:
    assert isinstance(judge(quota(), watching(web=6, x=2), update("web", 6, 8)), Admitted)
    assert isinstance(judge(quota(), watching(web=6, x=3), update("web", 6, 8)), Refused)


def test_a_stale_old_object_is_judged_by_what_is_stored() -> None:
    # Reviewed on version 6, stored is 9: the write will fail, but until then 9 counts.
    assert isinstance(judge(quota(), watching(web=9, x=1), update("web", 6, 8)), Admitted)
    assert isinstance(judge(quota(), watching(web=9, x=1), update("web", 6, 10)), Refused)


# What is only reserved


def test_a_reservation_stands_in_the_way_without_being_a_reason_to_refuse() -> None:
    account = holding(quota(), creation("other", 4))
    verdict = judge(account, watching(x=4), create("web", 3))
    assert isinstance(verdict, Unproven)
    assert exceeded(verdict) == "exceeded quota: quota, requested: cpu=3, used: cpu=8, limited: cpu=10"
    assert isinstance(judge(account, watching(x=4), create("web", 2)), Admitted)


def test_what_does_not_fit_beside_what_is_stored_is_refused_whatever_is_reserved() -> None:
    verdict = judge(holding(quota(), creation("other", 2)), watching(x=4), create("web", 7))
    # On what is certain: the reservation is not in the words either.
    assert exceeded(verdict) == "exceeded quota: quota, requested: cpu=7, used: cpu=4, limited: cpu=10"
    assert isinstance(verdict, Refused)


def test_of_several_resources_only_the_certain_ones_are_refused() -> None:
    account = holding(quota(limits={"cpu": 10, "pods": 5}), creation("other", claim({"cpu": 8, "pods": 1})))
    verdict = judge(account, watching(x=claim({"pods": 5})), create("web", claim({"cpu": 3, "pods": 1})))
    assert isinstance(verdict, Refused)
    assert exceeded(verdict) == "exceeded quota: quota, requested: pods=1, used: pods=5, limited: pods=5"


def test_reservations_for_one_name_count_as_the_largest_of_them() -> None:
    account = holding(quota(), creation("a", 4, "web"), change("b", 6, "web", 3), creation("c", 5, "web"))
    assert Books(account, watching(web=2)).used == Resources.parse({"cpu": 6})
    assert isinstance(judge(account, watching(web=2), create("other", 4)), Admitted)
    # Covered or not, an increase gets its own.
    ask = update("web", 2, 5)
    assert judge(account, watching(web=2), ask) == Admitted(ask.reservation)


def test_a_batch_is_judged_in_order_each_beside_what_was_admitted_before() -> None:
    asks = [replace(create(f"b{size}", size), id=f"id{size}") for size in (4, 7, 5, 2, 1)]
    account, verdicts = judge_all(quota(), watching(), asks)
    kinds = [type(verdict).__name__ for verdict in verdicts]
    assert kinds == ["Admitted", "Unproven", "Admitted", "Unproven", "Admitted"]
    assert [one.id for one in account.reservations] == ["id4", "id5", "id1"]
    assert Books(account, watching()).used == Resources.parse({"cpu": 10})


# The same by definition


ASKS = st.builds(
    lambda name, old, new, is_creation: (
        Ask("mine", name, new, uid="uid") if is_creation else Ask("mine", name, new, old, base=1)
    ),
    st.sampled_from(NAMES),
    CLAIMS,
    CLAIMS,
    st.booleans(),
)


def naive_verdict(
    account: Account, stored: dict[str, Claim], reservations: list[Reservation], ask: Ask
) -> tuple[type[Verdict], set[str]]:
    new, old = naive_cost(account, ask.new), naive_cost(account, ask.old)
    plain = {name: name.removeprefix("requests.") for name in account.limits}
    increased = {name for name in account.limits if new.get(plain[name], 0) > old.get(plain[name], 0)}
    if not increased:
        return Unaffected, set()

    def beyond(held: list[Reservation], names: set[str]) -> set[str]:
        after = naive_sum(account, stored, [*held, ask.reservation])
        return {name for name in names if after.get(plain[name], 0) > account.limits[name].nano}

    in_the_way = beyond(reservations, increased)
    if not in_the_way:
        return Admitted, set()
    certain = beyond([], in_the_way)
    return (Refused, certain) if certain else (Unproven, in_the_way)


@given(ACCOUNTS, STORED, RESERVATIONS, ASKS)
def test_the_verdict_is_what_the_definition_says(
    account: Account, stored: dict[str, Claim], reservations: list[Reservation], ask: Ask
) -> None:
    verdict = judge(holding(account, *reservations), watching(**stored), ask)
    kind, names = naive_verdict(account, stored, reservations, ask)
    assert type(verdict) is kind
    if isinstance(verdict, Refused | Unproven):
        assert [one.name for one in verdict.exceeded] == sorted(names)
        assert all(one.limit == account.limits[one.name] for one in verdict.exceeded)


@given(ACCOUNTS, STORED, RESERVATIONS, st.lists(st.tuples(st.sampled_from(NAMES), CLAIMS), max_size=5))
def test_no_batch_takes_more_than_there_is(
    account: Account, stored: dict[str, Claim], reservations: list[Reservation], wanted: list[tuple[str, Claim]]
) -> None:
    view, before = watching(**stored), holding(account, *reservations)
    asks = [
        replace(update(name, stored[name], new) if name in stored else create(name, new), id=f"ask{number}")
        for number, (name, new) in enumerate(wanted)
    ]
    after, verdicts = judge_all(before, view, asks)
    admitted = [verdict.reservation for verdict in verdicts if isinstance(verdict, Admitted)]
    assert list(after.reservations) == [*reservations, *admitted]
    was, is_now = Books(before, view).used, Books(after, view).used
    for name, limit in account.limits.items():
        resource = name.removeprefix("requests.")
        assert is_now[resource] <= max(limit, was[resource])


# Asks and accounts


@pytest.mark.parametrize(
    ("ask", "increases"),
    [
        (create("web", 1), True),
        (create("web", 0), False),
        (update("web", 2, 1), False),
        (update("web", 2, 2), False),
        (update("web", 2, 3), True),
        (update("web", claim({"cpu": 2, "pods": 1}), claim({"cpu": 1, "pods": 2})), True),
        (update("web", claim(2), claim({"memory": 1})), True),
        (update("web", claim(2, "gold"), claim(1, "silver")), True),
        (update("web", claim(2, "gold"), claim({}, "silver")), False),
        (update("web", claim(2), NO_CLAIM), False),
    ],
)
def test_whether_any_account_could_have_to_grow(ask: Ask, increases: bool) -> None:
    assert ask.increases is increases


@given(ASKS, ACCOUNTS)
def test_an_ask_that_does_not_increase_affects_no_account(ask: Ask, account: Account) -> None:
    if not ask.increases:
        assert judge(account, watching(), ask) == Unaffected()


def test_an_admission_leaves_a_reservation_of_the_whole_claim() -> None:
    ask = Ask("id", "web", claim(4, "gold"), claim(1), base=7, time="2026-01-01T00:00:00Z")
    assert ask.reservation == Reservation("id", "web", claim(4, "gold"), base=7, time="2026-01-01T00:00:00Z")
    assert create("web", 4).reservation.uid == "uid-web"


@pytest.mark.parametrize(("uid", "base"), [(None, None), ("uid", 7)])
def test_a_reservation_is_for_a_creation_or_for_an_update(uid: str | None, base: int | None) -> None:
    with pytest.raises(ValueError, match=r"CREATE .* UPDATE"):
        Reservation("id", "web", claim(1), uid=uid, base=base)


def test_an_accounts_observed_version_only_rises() -> None:
    account = replace(quota(), observed=7)
    assert account.with_reservations([creation("a", 1)]).observed == 7
    assert account.with_reservations([], observed=5).observed == 7
    risen = account.with_reservations(iter([creation("a", 1)]), observed=9)
    assert (risen.observed, [one.id for one in risen.reservations]) == (9, ["a"])
    assert account.observed == 7
    assert risen.with_reservations([]).reservations == ()


def test_an_account_is_full_at_so_many_reservations() -> None:
    reservations = [creation(f"id{number}", 1) for number in range(MOST_RESERVATIONS)]
    assert holding(quota(), *reservations).is_full
    assert not holding(quota(), *reservations[1:]).is_full


# What an account sees


def test_a_lens_shows_what_is_selected_and_limited() -> None:
    lens = Lens(of_class("gold"), frozenset({"cpu", "count/services"}))
    assert lens.cost(claim({"cpu": 1, "memory": 2, "count/services": 1}, "gold")) == Resources.parse({"cpu": 1})
    assert lens.cost(claim({"cpu": 1}, "silver")) == NOTHING
    everything = Lens(EVERYTHING, frozenset({"cpu", "count/services"}))
    assert everything.cost(claim({"cpu": 1, "count/services": 1})) == Resources.parse({"cpu": 1, "count/services": 1})


def test_an_account_sees_by_canonical_names() -> None:
    lens = quota(limits={"requests.cpu": 1, "services": 1, "nos.nebuly.com/gpu-memory": 1}).lens
    assert lens.names == {"cpu", "count/services", "quota.karmada.io/gpu-memory"}


@given(SELECTORS, SELECTORS, st.frozensets(st.sampled_from(["a", "b", "c"])), st.frozensets(st.sampled_from("abc")))
def test_shapes_are_equal_exactly_when_lenses_are(
    one: Selector, other: Selector, names: frozenset[str], more: frozenset[str]
) -> None:
    left, right = Lens(one, names), Lens(other, more)
    assert (left.shape == right.shape) is (left == right)
    assert len(left.shape) <= 64


# The words


def test_a_denial_names_exceeded_resources_alone_sorted_and_in_kubernetes_form() -> None:
    account = quota("compute", limits={"pods": 5, "memory": "2Gi", "cpu": "1500m", "nvidia.com/gpu": 9})
    view = watching(x=claim({"pods": 4, "memory": "1Gi", "cpu": "1"}))
    verdict = judge(account, view, create("web", claim({"pods": 2, "memory": "1.5Gi", "cpu": 1, "nvidia.com/gpu": 1})))
    assert isinstance(verdict, Refused)
    denial = Denial("compute", tuple(reversed(verdict.exceeded)))
    assert denial.message == (
        "exceeded quota: compute, requested: cpu=1,memory=1536Mi,pods=2, used: cpu=1,memory=1Gi,pods=4, "
        "limited: cpu=1500m,memory=2Gi,pods=5"
    )
    assert denial.causes == [
        {
            "reason": "QuotaExceeded",
            "field": "karmadaquotas/compute/spec.hard[cpu]",
            "message": "requested=1,used=1,limit=1500m",
        },
        {
            "reason": "QuotaExceeded",
            "field": "karmadaquotas/compute/spec.hard[memory]",
            "message": "requested=1536Mi,used=1Gi,limit=2Gi",
        },
        {
            "reason": "QuotaExceeded",
            "field": "karmadaquotas/compute/spec.hard[pods]",
            "message": "requested=2,used=4,limit=5",
        },
    ]


def test_what_is_used_is_shown_in_the_limits_own_format() -> None:
    view = watching(x=claim({"memory": "1G"}), y=claim({"memory": "24M"}))
    verdict = judge(quota(limits={"memory": "1Gi"}), view, create("web", claim({"memory": "1G"})))
    assert exceeded(verdict) == (
        "exceeded quota: quota, requested: memory=1G, used: memory=1000000Ki, limited: memory=1Gi"
    )


@given(AMOUNTS, AMOUNTS)
def test_amounts_in_a_refusal_are_the_increase_and_what_was_used(old: int, more: int) -> None:
    verdict = judge(quota(limits=0), watching(web=old, x=2), update("web", old, old + more + 1))
    assert verdict == Refused((Exceeded("cpu", parse(more + 1), parse(old + 2), parse(0)),))


# What no binding accounts for


def charged(limit: int, unbound: int) -> Account:
    return replace(quota(limits=limit), unbound=Resources.parse({"cpu": unbound}))


def test_what_is_unbound_takes_its_place_and_is_named_in_a_refusal() -> None:
    account, view = charged(10, 4), watching(x=3)
    assert Books(account, view).used == Resources.parse({"cpu": 7})
    assert isinstance(judge(account, view, create("y", 3)), Admitted)
    refused = judge(account, view, create("y", 4))
    assert isinstance(refused, Refused), "it is as certain as what is stored"
    assert "used: cpu=7, limited: cpu=10 (used includes cpu=4 " in exceeded(refused)
    assert Denial("quota", refused.exceeded).causes[0]["message"] == "requested=4,used=7,limit=10,unbound=4"


@given(st.integers(0, 20), AMOUNTS, AMOUNTS)
def test_a_decrease_is_admitted_whatever_is_unbound(unbound: int, old: int, less: int) -> None:
    account, view = charged(5, unbound), watching(x=old)
    assert isinstance(judge(account, view, update("x", old, max(0, old - less))), Unaffected)


@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 8))
def test_unbound_counts_exactly_like_a_binding_of_that_size(unbound: int, stored: int, asked: int) -> None:
    ask = create("new", asked)
    other = judge(quota(limits=10), watching(x=stored, other=unbound), ask)
    assert type(judge(charged(10, unbound), watching(x=stored), ask)) is type(other)
