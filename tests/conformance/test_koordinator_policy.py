"""Koordinator's policies: who is displaced, who may start, how much may be asked for, and what may be stored.

A file of sections, each of one shape, or of a few, which the function named for it below knows. Anything else fails.
Refusals are compared by rule: the peer's message is matched with ours by what it is about.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.elastic import leaf, reclaim, topology
from federation_quota.elastic.forest import Forest, Root
from federation_quota.elastic.node import ROOT, Node, filled_weight
from federation_quota.elastic.occupant import Occupant
from federation_quota.elastic.quota import COMPOSITE, Quota, read
from federation_quota.elastic.release import MIN, RUNTIME, room
from federation_quota.elastic.runtime import Runtimes
from federation_quota.elastic.tree import Tree
from federation_quota.elastic.unit import asked
from federation_quota.elastic.validation import validate_quota
from federation_quota.ledger.claim import NO_CLAIM
from federation_quota.ledger.judging import Admitted, Ask, Books, Refused, Unaffected
from federation_quota.ledger.view import Entry, View
from federation_quota.quantity import Quantity, parse
from federation_quota.resource_name import ADMISSION
from federation_quota.resources import Resources
from tests.conformance.overrides import Override
from tests.conformance.vectors import Case, load_sections, sectioned

SECTIONS = load_sections("koordinator_policy")

NO_MAX_IS_NO_LIMIT = Override(
    reason="Koordinator wants a max for whatever has a min. Here max is optional, as in the other document: what it "
    "does not name is not limited. Expected instead: the quota is accepted.",
    applies_to=lambda case: bool(case["quota"].get("min", {}).keys() - case["quota"].get("max", {}).keys()),
)


@pytest.mark.parametrize(("section", "case"), sectioned(SECTIONS))
def test_policy(section: str, case: Case) -> None:
    if section not in PROOFS:
        pytest.fail(f"no section that is known here: {section}")
    PROOFS[section](case)


def check_revoke(case: Case) -> None:
    pods = case["pods"]
    if isinstance(pods, str):
        # "same 4", or "same 4, pod 4 set to unassigned": those of the section's first case.
        assert pods.startswith("same"), pods
        unassigned = set(re.findall(r"pod (\w+) set to unassigned", pods))
        pods = [pod for pod in first_pods() if pod["name"] not in unassigned]
    inside = [Occupant(pod["name"], amounts(pod, "cpu", "memory"), pod["priority"]) for pod in pods]
    used = Resources()
    for one in inside:
        used = used + one.charge
    if "used" in case:
        used = amounts(case["used"])
    chosen = reclaim.choose(inside, used, limits(case["runtime"]))
    if "expectedInOrder" in case:
        assert [one.name for one in chosen] == case["expectedInOrder"]
    else:
        assert len(chosen) == case["expectedCount"]


def first_pods() -> list[Any]:
    return next(case["pods"] for case in SECTIONS["overuse_revoke"] if isinstance(case["pods"], list))


def check_prefilter(case: Case) -> None:
    pod = amounts({name: amount for name, amount in case["pod"].items() if name != "nonPreemptible"})
    pending = Occupant("pod", pod, is_preemptible=not case["pod"].get("nonPreemptible", False))
    if "assigned" in case:
        inside = [
            Occupant(str(number), amounts({"cpu": cpu, "memory": memory}), is_preemptible=not is_for_good)
            for number, (cpu, memory, is_for_good) in enumerate(case["assigned"])
        ]
        there = room(limits(runtime_of(case, [*inside, pending])), limits(case["min"]), inside)
    else:
        # Without runtime, max is the limit, and none is given here.
        limit = case["limit"] if case.get("enableRuntimeQuota", True) else {}
        there = room(limits(limit), {}, [])
    obstacle = there.obstacle(pending)
    assert ("Success" if obstacle is None else "Unschedulable") == case["expected"]
    if obstacle is None:
        return
    message = case.get("message", "Insufficient quotas")
    assert obstacle.limit == (MIN if message.startswith("Insufficient non-preemptible") else RUNTIME)
    listed = re.search(r"exceedDimensions: \[(.*)\]", message)
    assert list(obstacle.resources) == (listed[1].split() if listed else case["exceed"])


def runtime_of(case: Case, occupants: list[Occupant]) -> dict[str, int]:
    """What the one quota of a case may use, with all that is in it and one more waiting."""
    request: dict[str, int] = {}
    for one in occupants:
        for name, amount in one.charge.items():
            request[name] = request.get(name, 0) + amount.whole()
    tree = Tree.of([Node("test1", min=case["min"], max=case["max"])], case["total"])
    return Runtimes(tree, {"test1": request}).runtime("test1")


def check_admission(case: Case) -> None:
    """As a leaf's account judges it. Where there is no annotation the peer takes max: here one says so."""
    taken_in = case.get("admissionAnnotation") or case.get("max", {})
    known: dict[str, Any] = case.get("onConflictChildRequest") or case.get("childRequest") or {}
    account = leaf.read(stored({"max": case.get("max", {}), "admission": taken_in}))
    view = View()
    view.upsert(account.namespace, "team/there", Entry("u", 1, leaf.claim(asking("there", known))))
    if case.get("op") == "delete":
        # Nothing grows when something goes.
        ask = Ask("delete", "team/there", NO_CLAIM, leaf.claim(asking("there", known)), base=1)
        assert Books(account, view).judge(ask) == Unaffected()
        assert case["expected"] == "no-op"
        return
    books = Books(account, view)
    pods: list[dict[str, Any]] = case["pods"] if "pods" in case else [case["pod"]]
    for number, pod in enumerate(pods):
        name = f"team/pod-{number}"
        verdict = books.judge(Ask(name, name, leaf.claim(asking(name, pod)), uid=name))
        assert isinstance(verdict, Refused) is case["expected"].startswith("deny")
        if isinstance(verdict, Admitted):
            books.admit(verdict.reservation)
    if "newChildRequest" in case:
        asked_for = {name: books.used[f"{ADMISSION}{name}"] for name in taken_in}
        assert steps({name: str(amount) for name, amount in asked_for.items()}) == steps(case["newChildRequest"])


def asking(name: str, amounts_asked: dict[str, Any]) -> Binding:
    """A binding that waits."""
    template = TemplateRef("v1", "Pod", "team", name)
    return Binding(ObjectKey("team", name), name, 1, template, demand=Resources.parse(amounts_asked))


def check_webhook(case: Case) -> None:
    if "quota" in case:
        check_storing(case)
    elif "parentGuaranteed" in case:
        check_guarantee(case)
    elif "filled" in case:
        weight = None if case["sharedWeight"] is None else steps(case["sharedWeight"])
        assert filled_weight(weight, steps(case["max"])) == steps(case["filled"])
        assert case.get("parentFilled", "koordinator-root-quota") == "koordinator-root-quota"
        assert read(stored({})).node.parent == ROOT
    else:
        pytest.fail(f"this case has no shape that is known here: {case}")


# What the peer's messages are about: the field that ours names, and a word of it.
RULES: tuple[tuple[str, str, str], ...] = (
    (r"Spec\.(Max|Min)'s value < 0", r"spec\.(max|min)\[", "greater than or equal to 0"),
    (r"shared-weight\]'s value < 0", r"spec\.sharedWeight\[", "greater than or equal to 0"),
    (r"min \S+ > max", r"spec\.min\[", "above max"),
    (r"max \S+ < used", r"spec\.max\[", "below what is used"),
    (r"included in used, which is not included in max", r"spec\.strictMax\[", "spec.max names"),
)


def check_storing(case: Case) -> None:
    given = case["quota"]
    names = {"min": "min", "max": "max", "sharedWeight": "sharedWeight", "maxStrictCheckResourceKeys": "strictMax"}
    spec = {ours: given[theirs] for theirs, ours in names.items() if theirs in given}
    errors = validate_quota(stored(spec, given.get("used")))
    if NO_MAX_IS_NO_LIMIT.applies_to(case):
        assert errors == []
        return
    about = [(path, word) for pattern, path, word in RULES if re.search(pattern, case["message"])]
    if len(about) != 1:
        pytest.fail(f"no rule of ours is known for this message: {case['message']}")
    ((path, word),) = about
    assert [error for error in errors if re.match(path, error.path) and word in error.detail], errors


def check_guarantee(case: Case) -> None:
    """A tree that keeps what is used: what a parent, a quota and its sibling have is what they use."""
    before = Quota(Node("temp", "parent"), used=case["guaranteed"])
    quota = replace(before, node=Node("temp", "parent", min=case["min"]))
    parent = Quota(Node("parent", min=case["parentGuaranteed"], is_parent=True), COMPOSITE)
    sibling = Quota(Node("sibling", "parent"), used=case["siblingGuaranteed"])
    forest = Forest.of([parent, before, sibling], [Root(keeps_used=True)])
    assert bool(topology.check_quota(forest, quota, before)) is case["deny"]


PROOFS: dict[str, Callable[[Case], None]] = {
    "admission": check_admission,
    "overuse_revoke": check_revoke,
    "prefilter": check_prefilter,
    "webhook": check_webhook,
}


def stored(spec: dict[str, Any], used: dict[str, int] | None = None) -> dict[str, Any]:
    metadata = {"name": "temp", "namespace": "team", "uid": "u", "resourceVersion": "1"}
    return {"kind": "ElasticQuota", "metadata": metadata, "spec": spec, "status": {"used": used or {}}}


def amounts(given: dict[str, int], *names: str) -> Resources:
    return Resources({name: Quantity(given[name] * 10**9) for name in names or given})


def limits(given: dict[str, int]) -> dict[str, Quantity]:
    return {name: Quantity(amount * 10**9) for name, amount in given.items()}


def steps(given: dict[str, Any]) -> dict[str, int]:
    return asked({name: parse(amount) for name, amount in given.items()})
