"""The proofs of elastic trees can fail: on every number that is another, and on shapes that they do not know."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import test_koordinator_policy as policy
from tests.conformance import test_nos as nos
from tests.conformance import test_runtime as runtime
from tests.conformance.vectors import FOLDER_VARIABLE, OWN_FOLDER, Case, VectorsError, load_sections

# The project's own, whichever folder is to be proved.
TREES: list[Case] = json.loads((OWN_FOLDER / "runtime.json").read_text(encoding="utf-8"))
NOS: dict[str, list[Case]] = json.loads((OWN_FOLDER / "nos.json").read_text(encoding="utf-8"))
POLICY: dict[str, list[Case]] = json.loads((OWN_FOLDER / "koordinator_policy.json").read_text(encoding="utf-8"))


def changed(case: Case, *path: Any, to: Any) -> Case:  # noqa: ANN401 # whatever stands in a case
    """The case with something else at that place."""
    case = deepcopy(case)
    place: Any = case
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return case


def tree(field: str) -> tuple[Case, str]:
    """The first tree that says something of that kind, and about whom."""
    return next((case, name) for case in TREES for name, said in case["expected"].items() if field in said)


@pytest.mark.parametrize("field", runtime.FIELDS)
def test_another_figure_of_a_quota_fails(field: str) -> None:
    case, name = tree(field)
    resource = next(iter(case["expected"][name][field]))
    runtime.test_runtime(case)
    with pytest.raises(AssertionError):
        runtime.test_runtime(changed(case, "expected", name, field, resource, to=77))


@pytest.mark.parametrize(
    "case",
    [
        {**TREES[0], "astrology": 1},
        {**TREES[0], "expected": {}},
        changed(TREES[0], "groups", 0, "mood", to="good"),
        changed(TREES[0], "expected", "A", to={"fortune": {"cpu": 1}}),
        changed(TREES[0], "total", "cpu", to=90),
    ],
    ids=["an unknown option", "no expectation", "an unknown field of a group", "an unknown figure", "another total"],
)
def test_a_tree_that_is_not_understood_fails(case: Case) -> None:
    with pytest.raises((AssertionError, KeyError, pytest.fail.Exception)):
        runtime.test_runtime(case)


WRONG_NOS = {
    "a guarantee": ("guaranteed_overquota", 0, ("expectedGuaranteed", "gpu-memory"), 16),
    "what is idle": ("aggregated_overquota", 2, ("expected", "cpu"), 201),
    "a fraction": ("guaranteed_fraction", 1, ("expectedFraction", "cpu"), 0.4),
    "a comparison": ("comparisons", 1, ("expected",), False),
    "a comparison nobody knows": ("comparisons", 1, ("op",), "usedMaybe"),
    "an admission": ("prefilter", 0, ("expected", 0), "Unschedulable"),
    "a right": ("preemption_conditions", 0, ("expectedCanBeVictim",), False),
    "who could give way": ("preemption_dryrun", 0, ("potentialVictims",), []),
    "who gives way": ("preemption_dryrun", 1, ("victims",), ["t1-p4"]),
    "memory of a GPU": ("gpu_memory", 0, ("expectedGpuMemoryGB",), 17),
    "a pod's request": ("pod_request", 0, ("expected", "cpu"), 4),
    "an order": ("label_sort_order", 0, ("expected",), ["pd-1", "pd-2", "pd-3"]),
    "a label": ("labelling", 0, ("expected", "pod-2"), "over-quota"),
    "a sum of use": ("labelling", 0, ("expectedStatusUsed", "gpu-memory"), 47),
}


@pytest.mark.parametrize(("section", "index", "path", "to"), WRONG_NOS.values(), ids=WRONG_NOS.keys())
def test_a_wrong_case_of_nos_fails(section: str, index: int, path: tuple[Any, ...], to: object) -> None:
    nos.test_nos(section, NOS[section][index])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        nos.test_nos(section, changed(NOS[section][index], *path, to=to))


WRONG_POLICY = {
    "who is displaced": ("overuse_revoke", 0, ("expectedInOrder",), ["4", "2"]),
    "how many are": ("overuse_revoke", 1, ("expectedCount",), 3),
    "who may start": ("prefilter", 1, ("expected",), "Unschedulable"),
    "why not": ("prefilter", 0, ("exceed",), ["memory"]),
    "which limit": ("prefilter", 5, ("message",), "Insufficient quotas, exceedDimensions: [cpu]"),
    "what is asked for": ("admission", 0, ("newChildRequest", "cpu"), "3"),
    "an admission": ("admission", 3, ("expected",), "admit"),
    "what is stored": ("webhook", 2, ("quota", "min", "cpu"), 9),
    "a message of another rule": ("webhook", 2, ("message",), "temp quota.Spec.Max's value < 0"),
    "a message of no rule": ("webhook", 0, ("message",), "no"),
    "a guarantee": ("webhook", 7, ("siblingGuaranteed", "cpu"), 4),
    "a weight": ("webhook", 8, ("filled", "cpu"), "121"),
}


@pytest.mark.parametrize(("section", "index", "path", "to"), WRONG_POLICY.values(), ids=WRONG_POLICY.keys())
def test_a_wrong_case_of_policy_fails(section: str, index: int, path: tuple[Any, ...], to: object) -> None:
    policy.test_policy(section, POLICY[section][index])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        policy.test_policy(section, changed(POLICY[section][index], *path, to=to))


@pytest.mark.parametrize("proof", [nos.test_nos, policy.test_policy])
def test_a_section_nobody_knows_fails(proof: Any) -> None:  # noqa: ANN401 # one of two tests
    with pytest.raises(pytest.fail.Exception):
        proof("astrology", {})


@pytest.mark.parametrize(
    ("document", "complaint"),
    [("[]", "one object of sections"), ("{}", "no case"), ('{"a": [1]}', "lists of objects"), ("{", "not readable")],
)
def test_a_file_that_has_no_sections_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    document: str,
    complaint: str,
) -> None:
    (tmp_path / "nos.json").write_text(document, encoding="utf-8")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(VectorsError, match=complaint):
        load_sections("nos")
