"""The proof of pod usage can fail: on every number that is another, and on shapes that it does not know."""

import json
from copy import deepcopy

import pytest

from tests.conformance import test_pod_usage as proof
from tests.conformance.vectors import OWN_FOLDER, Case

# The project's own, whichever folder is to be proved.
CASES: list[Case] = json.loads((OWN_FOLDER / "pod_usage.json").read_text(encoding="utf-8"))


def first(kind: str) -> Case:
    found = (case for case in CASES if case["kind"] == kind and not proof.SCOPE_IS_REFUSED.applies_to(case))
    return deepcopy(next(found))


def wrong(kind: str, *path: str) -> Case:
    """A case of that kind in which one amount is another."""
    case = first(kind)
    place = case
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = "77"
    return case


WRONG = {
    "a request": wrong("usage", "usage", "requests.cpu"),
    "a limit": wrong("usage", "usage", "limits.cpu"),
    "the number of pods": wrong("usage", "usage", "pods"),
    "an object less": {**first("usage"), "usage": {"cpu": "1m", "requests.cpu": "1m", "limits.cpu": "2m", "pods": "1"}},
    "one more resource": {**first("usage"), "usage": {**first("usage")["usage"], "memory": "1"}},
    "a sum of requests": wrong("podRequests", "out", "cpu"),
    "a sum of limits": wrong("podLimits", "out", "cpu"),
    "an option nobody knows": {**first("podRequests"), "options": {"onlyOnSundays": True}},
    "what several pods use": wrong("usageStats", "usage", "cpu"),
    "a status": wrong("controllerSync", "expectedStatus", "used", "cpu"),
    "a kind nobody knows": {"kind": "astrology"},
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_case_fails(case: Case) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        proof.test_pod_usage(case)


def test_a_class_that_is_selected_and_should_not_be_fails() -> None:
    case = deepcopy(next(case for case in CASES if case["kind"] == "matchingScopes"))
    case["pod"] = {"spec": {"priorityClassName": "class1"}}
    with pytest.raises(AssertionError):
        proof.test_pod_usage(case)
