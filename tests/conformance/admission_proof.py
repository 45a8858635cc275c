"""What each admission case asks of the product, where ours differs on purpose, and the proof of it.

What is expected is what the case says; where an override applies, it is worked out from the case's own numbers by hand
(`admission_case.recalculated`), without the product's ledger.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from federation_quota import charge, karmadaquota
from federation_quota.accounting.answer import Allowed, Answer, Denied
from federation_quota.quantity import ZERO, parse
from federation_quota.stamp import NO_STAMP
from federation_quota.validation import validate
from federation_quota.workload import WorkloadError
from tests.conformance.admission import (
    Outcome,
    Request,
    UnknownShapeError,
    Used,
    can_be_told,
    check_shape,
    decide,
    decide_together,
    manifest,
    read_account,
    read_request,
    read_waiter,
)
from tests.conformance.admission_case import (
    EXCEEDED,
    Expected,
    amounts,
    containers_of,
    cost,
    denials_of,
    errors_of,
    initial,
    is_finer_than_karmada,
    is_unbindable,
    possible,
    quantities_of,
    quotas_of,
    recalculated,
    requests_of,
    scopes_of,
    words_when_stored,
)
from tests.conformance.overrides import Override
from tests.conformance.vectors import Case

FORBIDDEN = re.compile(r'(?P<resource>\S+) "(?P<name>[^"]*)" is forbidden: (?P<text>.*)', re.DOTALL)


# Where we differ


SCOPE_IS_REFUSED = Override(
    reason="Of a binding only the priority class is known: whether its pods will end, or are best-effort, is not. "
    "Expected instead: such a quota is refused, and the others decide.",
    applies_to=lambda case: any(scopes_of(quota) - {"PriorityClass"} for quota in quotas_of(case)),
)
LIMIT_IS_REFUSED = Override(
    reason="Limits of containers, sizes of volumes and types of services stand in no binding. Expected instead: a "
    "quota with such a limit is refused. What is decided is compared nevertheless: in full where the usage is given, "
    "else on what a binding does say.",
    applies_to=lambda case: any(is_unbindable(name) for quota in quotas_of(case) for name in quota["hard"]),
)
MUST_BE_SPECIFIED = Override(
    reason="Kubernetes refuses pods that leave a limited resource unsaid, so that it knows what they use. A binding "
    "costs what its replicas request. Expected instead: it is judged on that.",
    applies_to=lambda case: any("must specify" in error for error in errors_of(case)),
)
STATUS_IS_UNKNOWN = Override(
    reason="Kubernetes refuses until its controller has filled in what is used. Here nothing is ever judged from a "
    "status: what is used is the sum of the bindings. Expected instead: what is not said is not used.",
    applies_to=lambda case: any("status unknown for quota" in error for error in errors_of(case)),
)
IS_NOT_REVIEWED = Override(
    reason="Deletions and subresources that do not touch the spec are not reviewed. Expected instead: as an update "
    "that changes nothing it passes without a write, even while over.",
    applies_to=lambda case: any(
        request.get("handled") is False or request.get("operation") == "DELETE" for request in requests_of(case)
    ),
)
NEGATIVE_IS_REFUSED = Override(
    reason="A binding that asks for less than nothing cannot be charged at all, and is refused before any quota is "
    "asked. Expected instead: the product finds it unchargeable.",
    applies_to=lambda case: any(parse(text) < ZERO for _, text in quantities_of(case)),
)
NEEDS_NO_COVER = Override(
    reason="There is no limitedResources configuration: what no quota limits is not limited. Expected instead: the "
    "quotas there are decide alone.",
    applies_to=lambda case: any("insufficient quota to" in error for error in errors_of(case)),
)
KARMADA_COUNTS_THE_POD = Override(
    reason="A binding has what Karmada's interpreter counts: limits where there are no requests, init containers that "
    "keep running as if they ended, nothing of what is set for a pod as a whole, cpu in thousandths and everything "
    "else in whole units, rounded up. Expected instead: it is judged on that.",
    applies_to=lambda case: (
        any(
            set((container.get("resources") or {}).get("limits") or ())
            - set((container.get("resources") or {}).get("requests") or ())
            or container.get("restartPolicy")
            for container in containers_of(case)
        )
        or any(
            "resources" in request[key]["spec"]
            for request in requests_of(case)
            for key in ("object", "oldObject")
            if key in request
        )
        or (bool(containers_of(case)) and any(is_finer_than_karmada(*item) for item in quantities_of(case)))
    ),
)
IS_KUBERNETES_BUG = Override(
    reason="Kubernetes' own defect. Expected instead: `desired` where it lists results, and in any case no charge of "
    "what was denied and no admission of what does not fit.",
    applies_to=lambda case: case.get("kubernetesBug") is True,
)
GIVES_UP = Override(
    reason="After four conflicts Kubernetes hands the last one to whoever asked. Here it is judged again until its "
    "deadline. Expected instead: it is decided.",
    applies_to=lambda case: any("has been modified" in error for error in errors_of(case)),
)
SUMS_DISAGREE = Override(
    reason="Kubernetes keeps what is used apart from what uses it, so that two quotas of one namespace may have seen "
    "different sums of the same pods. Ours see the same bindings. Expected instead: each quota by itself decides as "
    "there, and together they allow what all allow.",
    applies_to=lambda case: (
        case["kind"] == "single" and not can_be_told(quotas_beside(case, request_of(case)), request_of(case))
    ),
)
USED_HAS_ANOTHER_FORMAT = Override(
    reason="Kubernetes prints what is used in the format of whatever was counted first, and some amounts exactly as "
    "they were written. Ours is printed in the format of the limit beside it, the same from every replica. Expected "
    "instead: the same amounts.",
    applies_to=lambda case: any(
        any(str(parse(text)) != text for text in (requested, used, limited))
        or (parse(used).format is not parse(limited).format and not parse(used).is_zero)
        for requested, used, limited in denials_of(case)
    ),
)
ANOTHER_REFUSES_FIRST = Override(
    reason="Which of several quotas Kubernetes asks first is chance. Ours are asked in the order of their names. "
    "Expected instead: a denial by an earlier one, and by the one named, in those words, if it is asked alone.",
    applies_to=lambda case: (
        [quota["name"] for quota in quotas_of(case)] != sorted(quota["name"] for quota in quotas_of(case))
    ),
)
REFUSED_ON_WHAT_IS_STORED = Override(
    reason="Kubernetes denies on the running sums of a batch. Here nobody is refused because of what may never be "
    "stored: who does not fit beside what is there is refused at once, who does not fit beside the others when those "
    "have arrived. Expected instead: what is used at that moment.",
    applies_to=lambda case: case["kind"] == "batch" and case["results"] != results_when_stored(case),
)

# These put the recalculation in place of what the case says.
RECALCULATED = [
    SCOPE_IS_REFUSED,
    MUST_BE_SPECIFIED,
    STATUS_IS_UNKNOWN,
    NEEDS_NO_COVER,
    KARMADA_COUNTS_THE_POD,
    IS_KUBERNETES_BUG,
    GIVES_UP,
]


def results_when_stored(case: Case) -> list[str | None]:
    """The results of a batch, where each denial is on what is stored."""
    final = used_after(case)
    before = {quota["name"]: quota["used"] for quota in possible(case)}
    quotas = [{**quota, "used": before[quota["name"]]} for quota in latest_quotas(case)]
    results = []
    for waiter, result in zip(case["waiters"], case["results"], strict=True):
        match = FORBIDDEN.fullmatch(result or "")
        if match is not None and EXCEEDED.fullmatch(match["text"]):
            told = words_when_stored(match["text"], quotas, read_waiter(waiter), final)
            results.append(result.replace(match["text"], told))
        else:
            results.append(result)
    return results


# The proofs


def prove(case: Case) -> None:
    """AssertionError, or UnknownShapeError, unless the product does what this case asks of it."""
    check_shape(case)
    if NEGATIVE_IS_REFUSED.applies_to(case):
        check_negative_is_refused(case)
        return
    check_quotas(case)
    if case["kind"] == "single":
        prove_single(case)
    else:
        prove_batch(case)


def check_quotas(case: Case) -> None:
    """Quotas that can be there are accepted; of those that cannot, exactly what is wrong is told."""
    for quota in quotas_of(case):
        refused = {f"spec.hard[{name}]" for name in quota["hard"] if is_unbindable(name)}
        told = {error.path for error in validate(manifest(quota)) if error.path.startswith("spec.hard")}
        assert refused <= told
        assert refused == told or scopes_of(quota)
        unknown = scopes_of(quota) - {"PriorityClass"}
        wrong = {error.value for error in validate(manifest(quota)) if "unsupported scope:" in error.detail}
        assert wrong == unknown
        if unknown:
            with pytest.raises(karmadaquota.QuotaError):
                read_account(quota)


def check_negative_is_refused(case: Case) -> None:
    for request in requests_of(case):
        if "usage" in request:
            terms = charge.Terms("v1", "Pod", 1, tuple(request["usage"].items()))
            with pytest.raises(charge.Unchargeable, match="below zero"):
                charge.cost(terms, NO_STAMP)
        else:
            with pytest.raises(WorkloadError, match="below zero"):
                read_request(request)


def request_of(case: Case) -> Request:
    request = read_request(case["request"])
    return replace(request, old=request.new) if IS_NOT_REVIEWED.applies_to(case) else request


def quotas_beside(case: Case, request: Request) -> list[dict[str, Any]]:
    """The quotas of a case; what is not reviewed is there already, and counts on top of what is said to be used."""
    if not IS_NOT_REVIEWED.applies_to(case):
        return possible(case)
    return [
        {**quota, "used": {name: str(used + cost(quota, request.old, name)) for name, used in initial(quota).items()}}
        for quota in possible(case)
    ]


def prove_single(case: Case) -> None:
    request = request_of(case)
    quotas = quotas_beside(case, request)
    expected = expected_of_single(case, quotas, request)
    if SUMS_DISAGREE.applies_to(case):
        prove_apart(case, quotas, request, expected)
        return
    outcome = decide(quotas, request)
    (answer,) = outcome.answers
    check_answer(case, answer, expected.texts[0], quotas, request)
    assert outcome.reserved == expected.used
    if isinstance(answer, Allowed):
        changed = {quota["name"] for quota in quotas if expected.used[quota["name"]] != initial(quota)}
        assert outcome.attempts == Counter(changed)
        check_stored(quotas, request, outcome)
    # Tried without consequences, the answer is the same.
    tried = decide(quotas, request, dry_run=True)
    assert tried.answers == outcome.answers
    assert not tried.attempts


def expected_of_single(case: Case, quotas: Sequence[Mapping[str, Any]], request: Request) -> Expected:
    by_hand = recalculated(quotas, [request])
    has_pods_limits = LIMIT_IS_REFUSED.applies_to(case) and "usage" not in case["request"]
    if has_pods_limits or any(override.applies_to(case) for override in RECALCULATED):
        return by_hand
    text = None if case["allowed"] else forbidden(case["error"], case["request"])
    used = {quota["name"]: initial(quota) for quota in quotas}
    for name, written in case["statusWrites"].items():
        assert set(written) <= set(used[name]), f"{name} was written with more than it limits"
        used[name] |= {resource: parse(amount) for resource, amount in written.items()}
    return Expected([text], used)


def prove_apart(case: Case, quotas: Sequence[dict[str, Any]], request: Request, expected: Expected) -> None:
    answers = {}
    for quota in quotas:
        outcome = decide([quota], request)
        (answers[quota["name"]],) = outcome.answers
        if expected.texts[0] is None:
            assert outcome.reserved == {quota["name"]: expected.used[quota["name"]]}
    denials = [answer for _, answer in sorted(answers.items()) if not isinstance(answer, Allowed)]
    check_answer(case, denials[0] if denials else Allowed(), expected.texts[0], quotas, request)


def prove_batch(case: Case) -> None:
    quotas, requests = possible(case), [read_waiter(waiter) for waiter in case["waiters"]]
    conflicts = [write["quota"] for write in case["statusWrites"] if write["outcome"] == "conflict"]
    expected = expected_of_batch(case, requests)
    outcome = decide_together(quotas, requests, case.get("freshOnRetry"), conflicts)
    for request, answer, text in zip(requests, outcome.answers, expected.texts, strict=True):
        check_answer(case, answer, text, quotas, request)
    assert outcome.stored == expected.used
    if not any(override.applies_to(case) for override in RECALCULATED):
        # No more writes than Kubernetes needs for the same.
        assert outcome.attempts <= Counter(write["quota"] for write in case["statusWrites"])


def expected_of_batch(case: Case, requests: Sequence[Request]) -> Expected:
    by_hand = recalculated(latest_quotas(case), requests)
    desired = case.get("desired")
    if isinstance(desired, list):
        assert texts_of(desired, requests) == by_hand.texts, "what is desired is what comes out by hand"
    elif desired is not None and re.fullmatch(r"no charge left on \S+", desired) is None:
        raise UnknownShapeError(f"nobody knows what {desired!r} means")
    if any(override.applies_to(case) for override in RECALCULATED):
        return by_hand
    return Expected(texts_of(results_when_stored(case), requests), used_after(case))


def latest_quotas(case: Case) -> list[dict[str, Any]]:
    """The quotas as they are when all conflicts are over."""
    fresh = {quota["name"]: quota for quota in case.get("freshOnRetry") or ()}
    lost = {write["quota"] for write in case["statusWrites"] if write["outcome"] == "conflict"}
    is_gone = {name for name in lost if "freshOnRetry" in case and name not in fresh}
    return [{**quota, **fresh.get(quota["name"], {})} for quota in possible(case) if quota["name"] not in is_gone]


def used_after(case: Case) -> Used:
    """What is used when a batch is over: what was last written, and where nothing was, what was there."""
    used = {quota["name"]: initial(quota) for quota in latest_quotas(case)}
    for write in case["statusWrites"]:
        if write["outcome"] == "ok" and write["quota"] in used:
            used[write["quota"]] |= {name: parse(amount) for name, amount in write["used"].items()}
    return used


def texts_of(results: Sequence[str | None], requests: Sequence[Request]) -> list[str | None]:
    """Each result's denial as the quota words it."""
    pairs = zip(results, requests, strict=True)
    return [None if result is None else forbidden(result, {"name": request.name}) for result, request in pairs]


def forbidden(error: str, request: Mapping[str, Any]) -> str:
    """The quota's part of a denial that Kubernetes wraps in the name of what was denied."""
    match = FORBIDDEN.fullmatch(error)
    if match is None or EXCEEDED.fullmatch(match["text"]) is None:
        raise UnknownShapeError(f"no denial that is known here: {error}")
    assert match["name"] == request["name"]
    assert match["resource"] == request.get("resource", match["resource"])
    return match["text"]


def check_answer(
    case: Case, answer: Answer, text: str | None, quotas: Sequence[dict[str, Any]], request: Request
) -> None:
    if text is None:
        assert answer == Allowed()
        return
    assert isinstance(answer, Denied), answer
    message, named = answer.denial.message, EXCEEDED.fullmatch(text)
    assert named is not None
    if answer.denial.quota != named[1] and ANOTHER_REFUSES_FIRST.applies_to(case):
        assert answer.denial.quota < named[1]
        alone = [quota for quota in quotas if quota["name"] == named[1]]
        check_answer(case, decide(alone, request).answers[0], text, alone, request)
    elif USED_HAS_ANOTHER_FORMAT.applies_to(case):
        ours = EXCEEDED.fullmatch(message)
        assert ours is not None
        assert ours[1] == named[1]
        for mine, theirs in zip(ours.groups()[1:], named.groups()[1:], strict=True):
            mine_read, theirs_read = amounts(mine), amounts(theirs)
            assert list(mine_read) == list(theirs_read)
            assert [parse(one) for one in mine_read.values()] == [parse(one) for one in theirs_read.values()]
    else:
        assert message == text


def check_stored(quotas: Sequence[Mapping[str, Any]], request: Request, outcome: Outcome) -> None:
    """When it has arrived, what is used is what is stored: decreases have happened by then too."""
    for quota in quotas:
        for name, before in initial(quota).items():
            change = cost(quota, request.new, name) - cost(quota, request.old, name)
            after = before if request.is_dry_run else before + change
            assert outcome.stored[quota["name"]][name] == after
