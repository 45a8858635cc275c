"""Nos: who has a right to what beyond its min, who gives way to whom, labels, and the memory of GPUs.

A file of sections, each of one shape, which the function named for it below knows. An unknown section fails.
"""

from collections.abc import Callable
from typing import Any

import pytest

from federation_quota import charge, pod_usage
from federation_quota.charge import Tariff
from federation_quota.elastic import fairshare, labelling
from federation_quota.elastic.fairshare import Quota, Quotas, Workload
from federation_quota.elastic.occupant import Occupant
from federation_quota.pod_usage import Container, PodTerms, Requirements
from federation_quota.quantity import Quantity, parse
from federation_quota.resource_name import GPU_MEMORY
from federation_quota.resources import Resources
from tests.conformance.overrides import Override
from tests.conformance.vectors import Case, load_sections, sectioned

SECTIONS = load_sections("nos")


@pytest.mark.parametrize(("section", "case"), sectioned(SECTIONS))
def test_nos(section: str, case: Case) -> None:
    if section not in PROOFS:
        pytest.fail(f"no section that is known here: {section}")
    PROOFS[section](case)


def check_guaranteed(case: Case) -> None:
    found = quotas(case["quotas"])
    assert fairshare.guaranteed(found, case["target"]) == case["expectedGuaranteed"]
    assert fairshare.idle(found) == case["aggregatedOverquotas"]


def check_fraction(case: Case) -> None:
    found = {name: Quota(min=least) for name, least in case["mins"].items()}
    parts = fairshare.fraction(found, case["target"])
    for resource, part in case["expectedFraction"].items():
        assert float(parts.get(resource, 0)) == part, resource
    for resource in parts.keys() - case["expectedFraction"].keys():
        assert parts[resource] == 0, resource


def check_idle(case: Case) -> None:
    assert fairshare.idle(quotas(case["quotas"])) == case["expected"]


def check_comparison(case: Case) -> None:
    request = case["podRequest"]
    if case["op"] == "usedOverMaxWith":
        answer = fairshare.is_over_max(Quota(used=case["used"], max=case["limit"]), request)
    elif case["op"] == "usedLteWith":
        answer = not fairshare.is_over_max(Quota(used=case["used"], max=case["limit"]), request)
    elif case["op"] == "aggregatedUsedOverMinWith":
        answer = fairshare.is_over_total(quotas(case["quotas"]), request)
    else:
        pytest.fail(f"no comparison that is known here: {case['op']}")
    assert answer is case["expected"]


MAX_IS_NOT_ENFORCED = Override(
    reason="The peer's test makes its quotas by hand and leaves out the flag by which a max counts at all, so that "
    "only the sum of mins refuses. Expected instead: the same answer, for whichever reason comes first.",
    applies_to=lambda case: any("max" in quota for quota in case["quotas"].values()),
)


def check_prefilter(case: Case) -> None:
    found = quotas(case["quotas"])
    for pod, expected, reason in zip(case["pods"], case["expected"], case["reason"], strict=True):
        name = pod["namespace"] if pod["namespace"] in found else None
        obstacle = fairshare.obstacle(found, Workload("pod", name, pod["request"]))
        assert ("Success" if obstacle is None else "Unschedulable") == expected, pod
        if not MAX_IS_NOT_ENFORCED.applies_to(case) and obstacle is not None:
            assert {fairshare.TOTAL: "total-min", fairshare.MAX: "max"}[obstacle] == reason.partition(":")[2]


def check_condition(case: Case) -> None:
    asking = Workload("asking", case["preemptorQuota"], case["podRequest"], case.get("pre_prio", 0))
    other = Workload("other", case["victimQuota"], {}, case.get("vic_prio", 0), is_over_quota=case["victimOverQuota"])
    rights = fairshare.Rights(quotas(case["quotas"]))
    assert rights.may_displace(asking, other) is case["expectedCanBeVictim"]


def check_dry_run(case: Case) -> None:
    given = case["preemptor"]
    asking = Workload("asking", given["ns"], {"memory": given["memory"]}, given["priority"])
    running = [
        Workload(name, namespace, {"memory": memory}, priority, is_over_quota=is_over)
        for name, namespace, memory, priority, is_over in case["pods"]
    ]
    found = quotas(case["quotas"])
    free = {"memory": case["nodeMemory"] - sum(one.request["memory"] for one in running)}
    potential = fairshare.displaceable(found, asking, running)
    assert sorted(one.name for one in potential) == sorted(case["potentialVictims"])
    chosen = fairshare.choose(found, asking, running, free)
    assert chosen is not None
    assert [one.name for one in chosen] in case.get("victimsOneOf", [case.get("victims")])


def check_gpu_memory(case: Case) -> None:
    tariff = Tariff(gigabytes_per_gpu=case["nvidiaGpuResourceMemoryGB"])
    asked = charge.with_gpu_memory(resources(case["request"]), tariff)
    assert asked[GPU_MEMORY] == parse(case["expectedGpuMemoryGB"])


def check_mig_names(case: Case) -> None:
    one = parse(1)
    for name, is_mig in case["isMig"].items():
        assert (GPU_MEMORY in charge.with_gpu_memory(Resources({name: one}), Tariff(0))) is is_mig, name
    for name, gigabytes in case["memoryGB"].items():
        assert charge.with_gpu_memory(Resources({name: one}), Tariff(0))[GPU_MEMORY] == parse(gigabytes)
    for name in case["extractError"]:
        assert GPU_MEMORY not in charge.with_gpu_memory(Resources({name: one}), Tariff(0)), name


def check_pod_request(case: Case) -> None:
    def containers(requests: list[Any]) -> tuple[Container, ...]:
        return tuple(Container(Requirements(resources(request))) for request in requests)

    terms = PodTerms(containers=containers(case["containers"]), init_containers=containers(case["init"]))
    assert pod_usage.requests(terms) == resources(case["expected"])


def check_sort_order(case: Case) -> None:
    pods = [Occupant(pod["name"], priority=pod["priority"], created=pod["created"]) for pod in case["pods"]]
    assert [one.name for one in labelling.order(pods)] == case["expected"]


def check_labels(case: Case) -> None:
    pods = [
        Occupant(pod["name"], resources(pod["request"]), created=f"2026-01-01T00:00:{second:02d}Z")
        for second, pod in enumerate(case["runningPodsInOrder"])
    ]
    minimum = {name: parse(amount) for name, amount in case["min"].items()}
    assert labelling.label(pods, minimum) == case["expected"]
    used = {name: parse(amount) for name, amount in case["expectedStatusUsed"].items()}
    assert labelling.used(pods, minimum) == used


PROOFS: dict[str, Callable[[Case], None]] = {
    "aggregated_overquota": check_idle,
    "comparisons": check_comparison,
    "gpu_memory": check_gpu_memory,
    "guaranteed_fraction": check_fraction,
    "guaranteed_overquota": check_guaranteed,
    "label_sort_order": check_sort_order,
    "labelling": check_labels,
    "mig_name_parsing": check_mig_names,
    "pod_request": check_pod_request,
    "preemption_conditions": check_condition,
    "preemption_dryrun": check_dry_run,
    "prefilter": check_prefilter,
}


def quotas(given: dict[str, Any]) -> Quotas:
    return {name: Quota(one["min"], one.get("max"), one["used"]) for name, one in given.items()}


def resources(amounts: dict[str, int]) -> Resources:
    return Resources({name: Quantity(amount * 10**9) for name, amount in amounts.items()})
