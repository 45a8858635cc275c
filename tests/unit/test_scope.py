import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.scope import EVERYTHING, OPERATORS, ScopeError, Selector

Expression = tuple[str, list[str]]


def spec(*expressions: Expression, scopes: list[str] | None = None) -> dict[str, Any]:
    listed = [
        {"scopeName": "PriorityClass", "operator": operator, **({"values": values} if values else {})}
        for operator, values in expressions
    ]
    built: dict[str, Any] = {"scopeSelector": {"matchExpressions": listed}} if expressions else {}
    return built if scopes is None else {**built, "scopes": scopes}


def selector(*expressions: Expression, scopes: list[str] | None = None) -> Selector:
    return Selector.from_spec(spec(*expressions, scopes=scopes))


@pytest.mark.parametrize(
    ("expression", "matching", "not_matching"),
    [
        (("In", ["high", "low"]), {"high", "low"}, {"", "middle"}),
        (("NotIn", ["high", "low"]), {"", "middle"}, {"high", "low"}),
        (("Exists", []), {"high", "low", "middle"}, {""}),
        (("DoesNotExist", []), {""}, {"high", "low", "middle"}),
    ],
)
def test_each_operator_as_kubernetes_has_it(expression: Expression, matching: set[str], not_matching: set[str]) -> None:
    built = selector(expression)
    assert {name for name in matching | not_matching if built.matches(name)} == matching


def test_no_scope_matches_everything_and_counts_objects() -> None:
    empty: list[dict[str, Any]] = [{}, {"scopes": []}, {"scopes": None, "scopeSelector": None}, {"scopeSelector": {}}]
    for nothing in empty:
        assert Selector.from_spec(nothing) == EVERYTHING
    assert EVERYTHING.matches("")
    assert EVERYTHING.matches("high")
    assert EVERYTHING.counts_objects


def test_a_bare_scope_is_one_that_must_exist() -> None:
    assert selector(scopes=["PriorityClass"]) == selector(("Exists", []))
    assert selector(("NotIn", ["low"]), scopes=["PriorityClass"]).matches("high")
    assert not selector(("NotIn", ["low"]), scopes=["PriorityClass"]).matches("")


def test_expressions_must_all_hold() -> None:
    built = selector(("In", ["a", "b"]), ("NotIn", ["b", "c"]), ("Exists", []))
    assert built == selector(("In", ["a"]))
    assert selector(("In", ["a", "b"]), ("In", ["b", "c"])) == selector(("In", ["b"]))


@pytest.mark.parametrize(
    "expressions",
    [
        (("In", ["a"]), ("In", ["b"])),
        (("In", ["a"]), ("NotIn", ["a"])),
        (("In", ["a"]), ("DoesNotExist", [])),
        (("Exists", []), ("DoesNotExist", [])),
    ],
)
def test_expressions_that_exclude_each_other_match_nothing(expressions: tuple[Expression, ...]) -> None:
    built = selector(*expressions)
    assert built.matches_nothing
    assert not built.matches("")
    assert not built.matches("a")
    assert built == selector(*reversed(expressions))


@pytest.mark.parametrize("expression", [("In", ["a"]), ("NotIn", ["a"]), ("Exists", []), ("DoesNotExist", [])])
def test_any_scope_ends_the_counting_of_objects(expression: Expression) -> None:
    assert not selector(expression).counts_objects
    assert not selector(expression).matches_nothing


def test_a_scope_that_leaves_nothing_out_is_still_a_scope() -> None:
    """Kubernetes lets NotIn have the empty value, which no class is called."""
    assert selector(("NotIn", [""])) != EVERYTHING
    assert not selector(("NotIn", [""])).counts_objects
    assert selector(("NotIn", [""])).matches("")
    assert not selector(("In", [""])).matches("")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (EVERYTHING, ""),
        (selector(("In", ["b", "a", "b"])), "PriorityClass In [a b]"),
        (selector(("NotIn", ["b", "a"])), "PriorityClass NotIn [a b]"),
        (selector(scopes=["PriorityClass"]), "PriorityClass Exists"),
        (selector(("DoesNotExist", [])), "PriorityClass DoesNotExist"),
        (selector(("NotIn", ["a"]), ("Exists", [])), "PriorityClass Exists, PriorityClass NotIn [a]"),
        (selector(("In", ["a"]), ("In", ["b"])), "PriorityClass In []"),
    ],
)
def test_text(built: Selector, text: str) -> None:
    assert str(built) == text


@pytest.mark.parametrize(
    "bad",
    [
        {"scopes": ["BestEffort"]},
        {"scopes": [""]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "Terminating", "operator": "Exists"}]}},
        {"scopeSelector": {"matchExpressions": [{"operator": "Exists"}]}},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Gt", "values": ["a"]}]}},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": []}]}},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": "a"}]}},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": [1]}]}},
        {
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}]
            }
        },
    ],
)
def test_what_means_nothing_is_an_error_and_never_a_selector(bad: dict[str, Any]) -> None:
    with pytest.raises(ScopeError):
        Selector.from_spec(bad)


NAMES = ["", "a", "b", "c"]
EXPRESSIONS = st.sampled_from(OPERATORS).flatmap(
    lambda operator: st.tuples(
        st.just(operator),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3) if operator in ("In", "NotIn") else st.just([]),
    )
)
SPECS = st.builds(
    lambda expressions, scopes: spec(*expressions, scopes=scopes),
    st.lists(EXPRESSIONS, max_size=4),
    st.sampled_from([None, [], ["PriorityClass"], ["PriorityClass", "PriorityClass"]]),
)


def as_kubernetes_matches(wanted: dict[str, Any], name: str) -> bool:
    """The label requirement that Kubernetes makes of each expression, on labels that are empty without a class."""
    labels = {"PriorityClass": name} if name else {}
    has_class = "PriorityClass" in labels
    results = [has_class for _ in wanted.get("scopes") or []]
    for expression in wanted.get("scopeSelector", {}).get("matchExpressions", []):
        is_listed = has_class and labels["PriorityClass"] in expression.get("values", [])
        by_operator = {"In": is_listed, "NotIn": not is_listed, "Exists": has_class, "DoesNotExist": not has_class}
        results.append(by_operator[expression["operator"]])
    return all(results)


@given(SPECS)
def test_every_selector_matches_what_kubernetes_would(wanted: dict[str, Any]) -> None:
    built = Selector.from_spec(wanted)
    universe = [*NAMES, "elsewhere"]
    assert {name: built.matches(name) for name in universe} == {
        name: as_kubernetes_matches(wanted, name) for name in universe
    }


@given(SPECS, SPECS)
def test_selectors_are_equal_exactly_when_they_mean_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = Selector.from_spec(one), Selector.from_spec(other)
    universe = [*NAMES, "elsewhere"]
    means_the_same = first.counts_objects == second.counts_objects and all(
        first.matches(name) == second.matches(name) for name in universe
    )
    assert (first == second) is means_the_same
    assert (str(first) == str(second)) is means_the_same
    assert hash(first) == hash(second) or not means_the_same


@given(SPECS)
def test_the_spec_is_not_touched(wanted: dict[str, Any]) -> None:
    before = copy.deepcopy(wanted)
    Selector.from_spec(wanted)
    assert wanted == before
