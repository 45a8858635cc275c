"""Kubernetes' quota evaluator: what pods use, which scopes select them, and what a quota's status says of them.

Seven shapes of case: `usage` (a pod and all that it costs), `podRequests` and `podLimits` (the sums alone, with parts
left out), `usageStats` and `controllerSync` (several pods, seen by one quota), `matchingScopes` and `constraints`. Any
other shape fails. A pod is decoded as a member's is, and counted by the census that the controller keeps.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from federation_quota import karmadaquota, pod_usage
from federation_quota.census import Census
from federation_quota.kube import codec
from federation_quota.ledger.lens import Lens
from federation_quota.pod_usage import OBJECT
from federation_quota.quantity import Quantity, parse
from federation_quota.resource_name import COUNT, canonical
from federation_quota.resources import Resources
from federation_quota.scope import EVERYTHING, ScopeError, Selector
from federation_quota.validation import validate
from tests.conformance.overrides import Override
from tests.conformance.vectors import Case, case_ids, load_cases

CASES = load_cases("pod_usage")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

SCOPE_IS_REFUSED = Override(
    reason="A quota here is for bindings as well as for pods, and of a binding only the priority class is known. "
    "Expected instead: any other scope is refused.",
    applies_to=lambda case: bool(scopes_of(case) - {"PriorityClass"}),
)
MUST_BE_SPECIFIED = Override(
    reason="Kubernetes refuses pods that leave a limited resource unsaid. What runs in a member is observed, not "
    "admitted. Expected instead: what none of its containers says, it does not use.",
    applies_to=lambda case: case["kind"] == "constraints",
)


def scopes_of(case: Case) -> set[str]:
    spec = case["quota"]["spec"] if "quota" in case else case
    expressions = [*((spec.get("scopeSelector") or {}).get("matchExpressions") or ()), *(case.get("selectors") or ())]
    return {*(spec.get("scopes") or ()), *(one["scopeName"] for one in expressions)}


@pytest.mark.parametrize("case", CASES, ids=case_ids(CASES, "kind", "name"))
def test_pod_usage(case: Case) -> None:
    proofs = {
        "usage": prove_usage,
        "podRequests": prove_sum,
        "podLimits": prove_sum,
        "usageStats": prove_stats,
        "controllerSync": prove_status,
        "matchingScopes": prove_scopes,
        "constraints": prove_unsaid,
    }
    if case.get("kind") not in proofs:
        pytest.fail(f"this case has no shape that is known here: {case}")
    proofs[case["kind"]](case)


def prove_usage(case: Case) -> None:
    pod = deepcopy(case["pod"])
    if case.get("podLevelResourcesGate") is False:
        pod.get("spec", {}).pop("resources", None)
    expected = by_canonical_name(case["usage"])
    assert counted([pod]) == expected - objects(expected)
    # The object is counted where it is stored, whatever becomes of the pod.
    assert objects(expected) == OBJECT
    if set(case["usage"]) != {"count/pods"}:
        assert pod_usage.usage(terms(pod)) == expected


def prove_sum(case: Case) -> None:
    pod, options = deepcopy(case["pod"]), case["options"]
    if set(options) - {"excludeOverhead", "useStatusResources", "skipPodLevelResources"}:
        pytest.fail(f"this case has an option that is not known here: {case}")
    # A quota leaves nothing out: what an option leaves out, the pod is without.
    if options.get("excludeOverhead"):
        pod["spec"].pop("overhead", None)
    if options.get("skipPodLevelResources"):
        pod["spec"].pop("resources", None)
    if not options.get("useStatusResources"):
        pod["status"] = {}
    add_up = pod_usage.requests if case["kind"] == "podRequests" else pod_usage.limits
    assert add_up(terms(pod)) == Resources.parse(case["out"])


def prove_stats(case: Case) -> None:
    expected = by_canonical_name(case["usage"])
    spec = {key: case[key] for key in ("scopes", "scopeSelector") if case.get(key)}
    assert counted(case["pods"], Selector.from_spec(spec)) == expected - objects(expected)


def prove_status(case: Case) -> None:
    quota = deepcopy(case["quota"])
    quota["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    if SCOPE_IS_REFUSED.applies_to(case):
        assert validate(quota)
        with pytest.raises(karmadaquota.QuotaError):
            karmadaquota.read(quota)
        return
    account = karmadaquota.read(quota)
    status = karmadaquota.status(account, counted(case["pods"], account.selector, account.lens))
    assert Resources.parse(status["hard"]) == Resources.parse(case["expectedStatus"]["hard"])
    assert Resources.parse(status["used"]) == Resources.parse(case["expectedStatus"]["used"])
    assert status["used"].keys() == case["expectedStatus"]["used"].keys()


def prove_scopes(case: Case) -> None:
    for selector in case["selectors"]:
        spec = {"scopeSelector": {"matchExpressions": [selector]}}
        if selector["scopeName"] != "PriorityClass":
            with pytest.raises(ScopeError):
                Selector.from_spec(spec)
        else:
            is_matched = Selector.from_spec(spec).matches(case["pod"].get("spec", {}).get("priorityClassName", ""))
            assert is_matched is (selector in case["matched"])


def prove_unsaid(case: Case) -> None:
    assert MUST_BE_SPECIFIED.applies_to(case)
    used = counted([case["pod"]])
    for name in case["required"]:
        said = [one for one in case["pod"]["spec"]["containers"] if name in (one["resources"].get("requests") or {})]
        assert (canonical(name) in used) is bool(said)


def counted(
    pods: list[Mapping[str, Any]],
    selector: Selector = EVERYTHING,
    lens: Lens | None = None,
) -> Resources:
    """What a quota sees of these pods in a member."""
    named = [with_name(pod, number) for number, pod in enumerate(pods)]
    census = Census()
    for pod in named:
        census.upsert(codec.decode_pod(json.dumps(pod).encode()))
    census.expire(NOW.timestamp())
    names = {name for pod in named for name in pod_usage.usage(terms(pod))}
    return census.observed("testing", lens or Lens(selector, frozenset(names)))


def terms(pod: Mapping[str, Any]) -> pod_usage.PodTerms:
    return codec.pod_terms(json.dumps(with_name(pod, 0)).encode())


def with_name(pod: Mapping[str, Any], number: int) -> dict[str, Any]:
    metadata = {"name": f"pod-{number}", **pod.get("metadata", {}), "namespace": "testing"}
    deleted = metadata.get("deletionTimestamp", "")
    if deleted.startswith("NOW"):
        ago = float(deleted.removeprefix("NOW").strip("-s") or 0)
        metadata["deletionTimestamp"] = (NOW - timedelta(seconds=ago)).isoformat()
    return {**pod, "metadata": metadata}


def by_canonical_name(usage: Mapping[str, str]) -> Resources:
    """As Kubernetes lists it, under two names what is one; and both must say the same."""
    amounts: dict[str, Quantity] = {}
    for name, text in usage.items():
        assert amounts.setdefault(canonical(name), parse(text)) == parse(text)
    return Resources(amounts)


def objects(amounts: Resources) -> Resources:
    return Resources((name, amount) for name, amount in amounts.items() if name.startswith(COUNT))
