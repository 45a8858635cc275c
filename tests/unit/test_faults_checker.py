"""The checker of `make faults` finds what it is for, in histories that are made up, and nothing in right ones."""

import ast
import inspect
from fractions import Fraction
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults import charge, checker, history
from faults.checker import Request, Window
from faults.history import Binding, Epoch, Event, History, Key, Quota, State, read_binding, read_quota
from tests import rational

HARD = {"cpu": Fraction(4)}
NAMESPACE = "shop"
LIMIT = Key(NAMESPACE, "limit")


def cpu(amount: int) -> dict[str, Fraction]:
    return {"cpu": Fraction(amount)}


def told(*steps: tuple[str, int | None], hard: int = 4, used: int = 0) -> History:
    """A history of one namespace: binding names and what they cost from then on, None for a deletion; one a second."""
    past = History()
    past.begin(Epoch(0.0, 100, State(quotas={LIMIT: Quota("q", cpu(hard), cpu(used))})))
    for number, (name, amount) in enumerate(steps, 1):
        binding = None if amount is None else Binding(name, cpu(amount))
        past.take(Event(100 + number, float(number), Key(NAMESPACE, name), binding))
    return past


def request(
    name: str,
    code: int,
    *,
    seen: int = 100,
    sent: float = 0.5,
    answered: float = 0.6,
    reason: str = "",
    ask: dict[str, Fraction] | None = None,
) -> Request:
    return Request(Key(NAMESPACE, name), "create", sent, answered, seen, code, reason, "", ask)


def denial(
    name: str, amount: int, *, seen: int = 100, sent: float = 0.5, answered: float = 0.6, code: int = 403
) -> Request:
    return request(name, code, seen=seen, sent=sent, answered=answered, reason="QuotaExceeded", ask=cpu(amount))


def quota_event(version: int, quota: Quota) -> Event:
    return Event(version, float(version - 100), LIMIT, quota=quota, is_quota=True)


def test_a_right_history_has_nothing_wrong_with_it() -> None:
    past = told(("a", 3), ("b", 1), ("a", 1), ("c", 2), ("b", None))
    verdict = checker.judge(past, [request("a", 201), denial("d", 4, seen=102)], [])
    assert verdict.problems == []
    assert (verdict.versions, verdict.requests, verdict.denials) == (5, 2, 1)


def test_a_version_above_the_limit_is_an_over_admission_even_if_it_did_not_last() -> None:
    [found] = checker.judge(told(("a", 3), ("b", 2), ("b", None)), [], []).over_admissions
    assert "version 102 of shop/b" in found
    assert "cpu 5/4" in found


def test_a_scale_up_is_found_too() -> None:
    assert len(checker.judge(told(("a", 2), ("b", 2), ("a", 3)), [], []).over_admissions) == 1


def test_a_lowered_limit_is_no_over_admission_until_something_grows() -> None:
    past = told(("a", 4), ("b", 0))
    past.take(quota_event(103, Quota("q", cpu(2), cpu(4))))
    past.take(Event(104, 4.0, Key(NAMESPACE, "a"), Binding("a", cpu(3))))
    assert checker.judge(past, [], []).over_admissions == []
    past.take(Event(105, 5.0, Key(NAMESPACE, "b"), Binding("b", cpu(1))))
    assert len(checker.judge(past, [], []).over_admissions) == 1


def test_a_store_that_was_put_back_when_it_was_over_is_none_either() -> None:
    past = told(("a", 4))
    state = State({Key(NAMESPACE, "a"): Binding("a", cpu(9))}, {LIMIT: Quota("q", HARD, cpu(9))})
    past.begin(Epoch(2.0, 50, state, "restored"))
    past.take(Event(51, 3.0, Key(NAMESPACE, "a"), Binding("a", cpu(8))))
    assert checker.judge(past, [], []).problems == []
    past.take(Event(52, 4.0, Key(NAMESPACE, "b"), Binding("b", cpu(1))))
    assert len(checker.judge(past, [], []).over_admissions) == 1


def test_a_quota_that_is_not_active_yet_limits_nothing_and_another_resource_neither() -> None:
    past = History()
    quotas = {
        LIMIT: Quota("q", HARD, {}, is_active=False),
        Key(NAMESPACE, "other"): Quota("o", {"pods": Fraction(1)}, {}),
    }
    past.begin(Epoch(0.0, 100, State(quotas=quotas)))
    past.take(Event(101, 1.0, Key(NAMESPACE, "a"), Binding("a", cpu(9))))
    assert checker.judge(past, [], []).over_admissions == []


def test_a_gap_in_the_history_is_said() -> None:
    past = told(("a", 4))
    past.begin(Epoch(2.0, 300, State(), "etcd keeps versions from 300 on", is_complete=False))
    assert "history is incomplete" in checker.judge(past, [], []).problems[0]


def test_versions_that_go_back_within_an_epoch_are_an_error() -> None:
    past = told(("a", 1), ("b", 1))
    with pytest.raises(ValueError, match="version 101 after 102"):
        past.take(Event(101, 3.0, Key(NAMESPACE, "a"), None))


@pytest.mark.parametrize("used", [0, 2, 4])
def test_a_quota_that_does_not_say_what_is_stored_leaks(used: int) -> None:
    state = told(("a", 3), used=used).now
    [found] = checker.leaks(state)
    assert f"says cpu={used}, and it is cpu=3" in found


def test_a_reservation_that_is_left_leaks_although_used_is_right_with_it() -> None:
    state = told(("a", 3)).now
    state.quotas[LIMIT] = Quota("q", HARD, cpu(4), (("b", cpu(1)), ("a", cpu(2))))
    assert checker.untruths(state) == []
    [found] = checker.leaks(state)
    assert "still has reservations for a, b" in found


def test_an_advance_that_is_left_leaks() -> None:
    state = told(("a", 3)).now
    state.quotas[LIMIT] = Quota("q", HARD, cpu(3), advanced=cpu(1))
    assert checker.untruths(state) == []
    assert "still advances cpu=1" in checker.leaks(state)[0]


def test_a_quota_that_is_not_active_is_no_truth() -> None:
    state = told(("a", 3)).now
    state.quotas[LIMIT] = Quota("q", HARD, cpu(3), is_active=False)
    assert "not active" in checker.untruths(state)[0]


def test_a_denial_without_a_reason_in_the_store_is_false() -> None:
    past = told(("a", 2), ("b", 1))
    [found] = checker.judge(past, [denial("c", 1, seen=102, sent=2.1, answered=2.2)], []).false_denials
    assert "create shop/c, asking for cpu=1" in found


def test_a_denial_with_a_reason_at_any_version_meanwhile_is_right() -> None:
    past = told(("a", 2), ("b", 2), ("b", None), ("c", 1))
    before_it_was_full = denial("d", 1, seen=101, sent=1.5, answered=1.6)
    after_it_was_full = denial("d", 1, seen=102, sent=2.5, answered=2.6)
    long_after = denial("d", 1, seen=103, sent=3.5, answered=3.6)
    verdict = checker.judge(past, [before_it_was_full, after_it_was_full, long_after], [])
    assert [("3.5 s" in one) for one in verdict.false_denials] == [True]


def test_what_was_stored_long_after_the_answer_is_no_reason() -> None:
    past = told(("a", 1), ("x", 0), ("x", 0), ("x", 0), ("x", 0), ("b", 3))
    assert len(checker.judge(past, [denial("c", 1, seen=101, sent=1.1, answered=1.2)], []).false_denials) == 1


def test_a_denial_at_the_very_end_is_judged_too() -> None:
    past = told(("a", 1))
    assert len(checker.judge(past, [denial("c", 1, seen=101, sent=1.1, answered=1.2)], []).false_denials) == 1
    assert checker.judge(past, [denial("c", 4, seen=101, sent=1.1, answered=1.2)], []).false_denials == []


def test_what_a_binding_has_already_is_not_asked_for_again() -> None:
    past = told(("a", 3))
    assert len(checker.judge(past, [denial("a", 4, seen=101, sent=1.1, answered=1.2)], []).false_denials) == 1


@pytest.mark.parametrize("code", [0, 500, 503, 504, 418])
def test_a_failure_counts_in_health_and_not_in_a_fault(code: int) -> None:
    failed = request("a", code, sent=5.0, answered=6.0)
    assert len(checker.judge(told(), [failed], []).failures) == 1
    assert checker.judge(told(), [failed], [Window("kill", 5.5, 5.6, 5.8)]).failures == []
    assert len(checker.judge(told(), [failed], [Window("kill", 1.0, 2.0, 3.0)]).failures) == 1
    assert len(checker.judge(told(), [failed], [Window("kill", 7.0, 8.0, 9.0)]).failures) == 1


@pytest.mark.parametrize("code", [200, 201, 404, 409, 429])
def test_what_a_healthy_federation_says_is_no_failure(code: int) -> None:
    assert checker.judge(told(), [request("a", code)], []).failures == []


def test_a_refusal_for_another_reason_than_quota_is_a_failure() -> None:
    assert len(checker.judge(told(), [request("a", 403, reason="Forbidden")], []).failures) == 1


def test_a_fault_that_was_not_recovered_from_is_a_problem() -> None:
    verdict = checker.judge(told(), [], [Window("freeze etcd", 1.0, 2.0, None, "no 3 decisions in a row")])
    assert verdict.unrecovered == ["freeze etcd: no 3 decisions in a row"]


def stored(spec: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    request = {"replicaRequirements": {"resourceRequest": {"cpu": "250m", "requests.memory": "1Gi"}}}
    return {"metadata": {"uid": "u", "labels": labels or {}}, "spec": {**request, **spec}}


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 3, "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]}, 4),
        ({"replicas": 3, "clusters": [{"name": "m1", "replicas": 1}]}, 3),
        ({"clusters": [{"name": "m1"}]}, 0),
        ({"replicas": 3, "clusters": [], "gracefulEvictionTasks": [{"replicas": 5}]}, 3),
    ],
)
def test_a_binding_costs_what_it_asks_for_or_has(spec: dict[str, Any], pods: int) -> None:
    binding = read_binding(stored(spec))
    assert binding.charge == {"cpu": Fraction(pods, 4), "memory": Fraction(2**30) * pods, "pods": Fraction(pods)}


def test_a_held_binding_costs_what_it_has() -> None:
    spec = {"replicas": 3, "suspension": {"scheduling": True}, "clusters": [{"name": "m1", "replicas": 1}]}
    assert read_binding(stored(spec, {"quota.karmada.io/held": "true"})).charge["pods"] == 1
    assert read_binding(stored(spec)).charge["pods"] == 3


def test_components_are_refused_rather_than_judged_wrongly() -> None:
    with pytest.raises(ValueError, match="components"):
        read_binding(stored({"components": [{"name": "main"}]}))


def test_a_quota_is_read_with_its_reservations() -> None:
    status = {
        "used": {"cpu": "1500m"},
        "shape": "s",
        "reservations": [{"binding": "a", "charge": {"cpu": "2"}}],
        "advances": [{"amounts": {"cpu": "1"}}, {"amounts": {"cpu": "500m"}}],
    }
    quota = read_quota({"metadata": {"uid": "u"}, "spec": {"hard": {"requests.cpu": "4"}}, "status": status})
    assert quota == Quota("u", HARD, {"cpu": Fraction(3, 2)}, (("a", cpu(2)),), advanced={"cpu": Fraction(3, 2)})
    assert not read_quota({"metadata": {"uid": "u"}, "spec": {"hard": {}}}).is_active


NUMBERS = st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,4})?", fullmatch=True)
SUFFIXES = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]
)


@given(NUMBERS, SUFFIXES)
def test_quantities_are_read_as_the_tests_read_them(number: str, suffix: str) -> None:
    assert charge.quantity(number + suffix) == rational.value(number + suffix)


@pytest.mark.parametrize("text", ["", "cpu", "1 ", "1_000", "NaN", "1kk", "--1"])
def test_what_is_no_quantity_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        charge.quantity(text)


@pytest.mark.parametrize("module", [charge, checker, history])
def test_the_checker_shares_nothing_with_what_it_judges(module: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(module))
    imported = {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    imported |= {name.name for one in ast.walk(tree) if isinstance(one, ast.Import) for name in one.names}
    assert not [name for name in imported if name.split(".")[0] in {"federation_quota", "controllers", "webhook"}]
