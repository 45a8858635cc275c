"""Koordinator's runtime: trees, what their quotas ask for, and what each of them may then use.

A case is a tree (`groups`, `total`) with options, and says of some groups what comes out, by resource: `runtime`,
`request`, `limitRequest`, `childRequest`, `scaledMin`, `guaranteed`, `allocated`; or of the whole what there is to
share (`__rootTotal`). Anything else fails. `expectedLegacyHalfUp` is what releases up to 1.8 compute: not ours.
"""

import pytest

from federation_quota.elastic import unit
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.node import ROOT, Node
from federation_quota.elastic.runtime import Runtimes
from federation_quota.elastic.tree import DEFAULT, Tree
from federation_quota.quantity import Quantity
from federation_quota.resources import Resources
from tests.conformance.vectors import Case, case_ids, load_cases

CASES = load_cases("runtime")

FIELDS = {
    "allocated": "allocated",
    "childRequest": "demand",
    "guaranteed": "guaranteed",
    "limitRequest": "passed_up",
    "request": "request",
    "runtime": "runtime",
    "scaledMin": "min",
}
KNOWN = {
    "name", "source", "total", "groups", "scaleMin", "expected", "derived", "note", "expectedLegacyHalfUp", "unit",
    "guaranteeUsage", "trace", "sumRuntime", "sumLegacy", "systemUsed", "defaultUsed",
}  # fmt: skip
KNOWN_OF_GROUPS = {
    "name", "parent", "min", "max", "sharedWeight", "allowLent", "request", "isParent", "enableScale", "used", "note",
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_ids(CASES, "name"))
def test_runtime(case: Case) -> None:
    unknown = (case.keys() - KNOWN) | {key for group in case["groups"] for key in group.keys() - KNOWN_OF_GROUPS}
    if unknown or not case["expected"]:
        pytest.fail(f"this case has no shape that is known here: {sorted(unknown)} in {case}")
    total = shared(case)
    runtimes = runtimes_of(case, total)
    if "sumRuntime" in case:
        (resource,) = total
        assert sum(runtimes.standing(group["name"]).runtime[resource] for group in case["groups"]) == case["sumRuntime"]
    for name, figures in case["expected"].items():
        if name == "__rootTotal":
            assert {resource: total.get(resource, 0) for resource in figures} == figures
            continue
        standing = runtimes.standing(name)
        for field, amounts in figures.items():
            got = getattr(standing, FIELDS[field])
            assert {resource: got.get(resource) for resource in amounts} == amounts, (name, field)


def shared(case: Case) -> dict[str, int]:
    """What there is to share: Koordinator's default quota is not limited, so its use counts like the system's."""
    outside = resources(case.get("systemUsed", {})) + resources(case.get("defaultUsed", {}))
    return Forest().total(DEFAULT, resources(case["total"]), outside)


def runtimes_of(case: Case, total: dict[str, int]) -> Runtimes:
    nodes = [
        Node(
            name=group["name"],
            parent=ROOT if group["parent"] == "root" else group["parent"],
            min=group["min"],
            max=group["max"],
            weight=group["sharedWeight"] or {},
            lends=group["allowLent"],
            scales_min=group.get("enableScale", True),
            is_parent=group.get("isParent", False),
        )
        for group in case["groups"]
    ]
    tree = Tree.of(nodes, total, scales_min=case["scaleMin"], keeps_used=case.get("guaranteeUsage", False))
    requests = {group["name"]: group["request"] for group in case["groups"]}
    return Runtimes(tree, requests, {group["name"]: group["used"] for group in case["groups"] if "used" in group})


def resources(amounts: dict[str, int]) -> Resources:
    return Resources({name: Quantity(amount * unit.step(name)) for name, amount in amounts.items()})
