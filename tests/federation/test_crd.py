"""The definitions of our kinds on a real API server: accepted, enforced, and pleasant to read."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from federation_quota import api
from localfed.api import RefusedError
from localfed.directory import Shape
from localfed.errors import FederationError
from localfed.federation import Federation
from localfed.guard import Guard
from tests.federation.stage import eventually

pytestmark = [pytest.mark.federation, pytest.mark.own]

CRDS = Path(__file__).resolve().parent.parent.parent / "crds"
NAME = "karmadaquotas.quota.karmada.io"


@pytest.fixture(scope="module")
def federation(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """An API server alone: here nobody else refuses or rewrites what these tests store."""
    bare = Federation(tmp_path_factory.mktemp("bare") / "fed")
    bare.up(Shape(members=0, karmada=False), guard)
    yield bare
    bare.down()


@pytest.fixture(scope="module")
def definition(federation: Federation) -> dict[str, Any]:
    """KarmadaQuota's CRD as the API server has it, established as those of the other kinds are."""
    # Not by kubectl, which would remember for minutes that it knew none of these kinds.
    federation.api.apply(*(one for path in sorted(CRDS.iterdir()) for one in yaml.safe_load_all(path.read_text())))
    for resource in api.RESOURCES:
        eventually(partial(is_served, federation, resource.plural), what=f"{resource.name} is served")
    return federation.api.get("crd", NAME)


def is_served(federation: Federation, plural: str) -> bool:
    try:
        return federation.api.list(plural) == []
    except FederationError:
        return False


@pytest.fixture(autouse=True)
def installed(definition: dict[str, Any]) -> None:
    """Every test here needs it."""


def quota(spec: object, name: str = "q") -> dict[str, Any]:
    return {"apiVersion": "quota.karmada.io/v1alpha1", "kind": "KarmadaQuota", "metadata": {"name": name}, "spec": spec}


def create(federation: Federation, namespace: str, value: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
    """Created as the API server then has it; RefusedError with its words where it refuses."""
    return federation.api.create(value, namespace=namespace, dry_run=dry_run)


def try_to_create(federation: Federation, value: dict[str, Any]) -> dict[str, Any]:
    """As `create`, but nothing is stored, so that a namespace of its own is not needed."""
    return create(federation, "default", value, dry_run=True)


def expression(**fields: object) -> dict[str, Any]:
    return {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", **fields}]}}


def test_the_definition_is_structural_and_its_names_are_free(definition: dict[str, Any]) -> None:
    conditions = {condition["type"]: condition["status"] for condition in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_applying_it_again_changes_nothing(federation: Federation, definition: dict[str, Any]) -> None:
    federation.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    again = federation.kubectl.json("get", "crd", NAME)
    assert again["metadata"]["generation"] == definition["metadata"]["generation"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"hard": {}},
        {"hard": {"cpu": 10, "memory": "20Gi", "requests.nvidia.com/gpu": "0", "count/deployments.apps": "1e3"}},
        {"hard": {"cpu": ".5", "memory": "1.5Gi", "ephemeral-storage": "+2", "pods": "1k", "hugepages-2Mi": "100n"}},
        {"hard": {f"example.com/r{number}": "1" for number in range(128)}},
        {"scopes": ["PriorityClass", "PriorityClass"]},
        expression(operator="In", values=["high", "low"]),
        expression(operator="NotIn", values=["high"]),
        expression(operator="Exists"),
        expression(operator="DoesNotExist", values=[]),
        {"onExceeded": "Hold", "memberUsage": {"policy": "Charge", "graceSeconds": 0}},
    ],
)
def test_accepted(federation: Federation, spec: dict[str, Any]) -> None:
    created = try_to_create(federation, quota(spec))
    assert created["spec"] == {
        "onExceeded": "Deny",
        **spec,
        "memberUsage": {"policy": "Report", "graceSeconds": 300, **spec.get("memberUsage", {})},
    }


QUANTITY = "must be a quantity: a decimal number with at most one suffix"
NEGATIVE = "must be greater than or equal to 0"
TYPE = "must be of type integer,string"
SCOPE = "unsupported scope: of a ResourceBinding only the PriorityClass is known"
EXPRESSION = "spec.scopeSelector.matchExpressions[0]"


@pytest.mark.parametrize(
    ("spec", "fragments"),
    [
        ({"hard": {"cpu": "abc"}}, ['spec.hard[cpu]: Invalid value: "abc": ' + QUANTITY]),
        ({"hard": {"cpu": ""}}, [QUANTITY]),
        ({"hard": {"cpu": "NaN"}}, [QUANTITY]),
        ({"hard": {"cpu": "1_000"}}, [QUANTITY]),
        ({"hard": {"cpu": " 5 "}}, [QUANTITY]),
        ({"hard": {"cpu": "5\n"}}, [QUANTITY]),
        ({"hard": {"cpu": "1e1.5"}}, [QUANTITY]),
        ({"hard": {"cpu": "1e999999999"}}, [QUANTITY]),
        ({"hard": {"memory": "1Kb"}}, ["spec.hard[memory]", QUANTITY]),
        ({"hard": {"cpu": "1" * 65}}, ["spec.hard.cpu: Too long"]),
        ({"hard": {"cpu": "-1"}}, ['spec.hard[cpu]: Invalid value: "-1": ' + NEGATIVE]),
        ({"hard": {"cpu": -1}}, ["spec.hard[cpu]: Invalid value: -1: " + NEGATIVE]),
        ({"hard": {"cpu": 1.5}}, ["spec.hard.cpu", TYPE]),
        ({"hard": {"cpu": True}}, ["spec.hard.cpu", TYPE]),
        ({"hard": {"cpu": {"limit": 5}}}, ['unknown field "spec.hard.cpu.limit"']),
        ({"hard": {"cpu": None}}, ["spec.hard: Invalid value: must not have null for a limit: 0 allows none"]),
        ({"hard": ["cpu"]}, ["spec.hard", "must be of type object"]),
        ({"hard": {f"example.com/r{number}": "1" for number in range(129)}}, ["spec.hard: Too many"]),
        ({"scopes": ["BestEffort"]}, ['spec.scopes[0]: Invalid value: "BestEffort": ' + SCOPE]),
        ({"scopes": ["PriorityClass", "Terminating"]}, ["spec.scopes[1]", SCOPE]),
        ({"scopes": ["PriorityClass"] * 9}, ["spec.scopes: Too many"]),
        (
            expression(scopeName="VolumeAttributesClass", operator="Exists"),
            [f'{EXPRESSION}.scopeName: Invalid value: "VolumeAttributesClass": {SCOPE}'],
        ),
        (expression(operator="In"), [f"{EXPRESSION}.values", "must be at least one value"]),
        (expression(operator="NotIn", values=[]), [f"{EXPRESSION}.values", "must be at least one value"]),
        (expression(operator="Exists", values=["high"]), [f"{EXPRESSION}.values", "must be no value"]),
        (expression(operator="DoesNotExist", values=["high"]), [f"{EXPRESSION}.values", "must be no value"]),
        (
            expression(operator="Gt", values=["5"]),
            [f'{EXPRESSION}.operator: Unsupported value: "Gt"', '"DoesNotExist"'],
        ),
        (expression(values=["high"]), [f"{EXPRESSION}.operator: Required value"]),
        (expression(operator="In", values=["x" * 64]), [f"{EXPRESSION}.values[0]: Too long"]),
        ({"onExceeded": "Explode"}, ['spec.onExceeded: Unsupported value: "Explode"', '"Deny", "Hold", "Warn"']),
        ({"memberUsage": {"policy": "Ignore"}}, ['spec.memberUsage.policy: Unsupported value: "Ignore"']),
        ({"memberUsage": {"graceSeconds": -1}}, ["spec.memberUsage.graceSeconds", "greater than or equal to 0"]),
        ({"hrad": {"cpu": "1"}}, ['unknown field "spec.hrad"']),
    ],
)
def test_refused(federation: Federation, spec: dict[str, Any], fragments: list[str]) -> None:
    with pytest.raises(RefusedError) as refusal:
        try_to_create(federation, quota(spec))
    for fragment in fragments:
        assert fragment in str(refusal.value)


def test_a_quota_without_a_spec_limits_nothing(federation: Federation) -> None:
    created = try_to_create(federation, quota(None))
    assert created["spec"] == {"onExceeded": "Deny", "memberUsage": {"policy": "Report", "graceSeconds": 300}}


def patch(federation: Federation, namespace: str, spec: dict[str, Any]) -> None:
    federation.api.patch("kq", "q", change={"spec": spec}, namespace=namespace, dry_run=True)


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ({}, {"scopes": ["PriorityClass"]}),
        ({"scopes": []}, {"scopes": ["PriorityClass"]}),
        ({"scopes": ["PriorityClass"]}, {"scopes": None}),
        ({"scopes": ["PriorityClass"]}, {"scopes": []}),
    ],
)
def test_scopes_cannot_change(
    federation: Federation, namespace: str, before: dict[str, Any], change: dict[str, Any]
) -> None:
    create(federation, namespace, quota(before))
    with pytest.raises(RefusedError, match=r"spec\.scopes: Invalid value: .*field is immutable"):
        patch(federation, namespace, change)


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ({}, {"scopes": []}),
        ({"scopes": ["PriorityClass"]}, {"scopes": ["PriorityClass", "PriorityClass"]}),
        ({"scopes": ["PriorityClass"]}, {"hard": {"cpu": "2"}}),
        ({"hard": {"cpu": "1", "memory": "1Gi"}}, {"hard": {"cpu": "500m", "memory": None, "pods": 3}}),
        ({"scopes": ["PriorityClass"]}, expression(operator="NotIn", values=["low"])),
        (expression(operator="In", values=["high"]), expression(operator="In", values=["low"])),
        (expression(operator="In", values=["high"]), {"scopeSelector": None}),
        ({}, {"onExceeded": "Warn"}),
    ],
)
def test_what_may_change(
    federation: Federation, namespace: str, before: dict[str, Any], change: dict[str, Any]
) -> None:
    create(federation, namespace, quota(before))
    patch(federation, namespace, change)


TIME = "2026-01-02T03:04:05Z"
STATUS: dict[str, Any] = {
    "hard": {"cpu": "10", "memory": "20Gi"},
    "used": {"cpu": "11", "memory": "4Gi"},
    "summary": "cpu: 11/10, memory: 4Gi/20Gi",
    "exceeded": "cpu",
    "clusters": [
        {"name": "m1", "bound": {"cpu": "11"}, "observed": {"cpu": "9"}, "lastSeen": TIME, "stale": True},
        {"name": "m2"},
    ],
    "reservations": [
        {"id": "r1", "binding": "web-deployment", "uid": "u1", "charge": {"cpu": "1"}, "class": "", "time": TIME},
        {"id": "r2", "binding": "web-deployment", "base": "42", "charge": {"cpu": "2"}, "class": "high",
         "time": "2026-01-02T03:04:05.678901Z"},
    ],
    "observedBindingVersion": "1234",
    "shape": "0123456789abcdef",
    "joined": [{"replica": "webhook-0", "shape": "0123456789abcdef"}],
    "waiting": [
        {"binding": "big-deployment", "apiVersion": "apps/v1", "kind": "Deployment", "name": "big", "class": "high",
         "priority": -2147483648, "charge": {"cpu": "3"}, "since": TIME, "message": "exceeded quota: q"},
    ],
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Joined", "message": "", "lastTransitionTime": TIME,
         "observedGeneration": 1},
    ],
    "observedGeneration": 1,
}  # fmt: skip


def write_status(federation: Federation, namespace: str, status: dict[str, Any], name: str = "q") -> None:
    value = {**quota(None, name), "status": status}
    del value["spec"]
    value["metadata"]["namespace"] = namespace
    federation.api.apply(value, subresource="status")


def test_a_whole_status_is_stored_as_it_was_written(federation: Federation, namespace: str) -> None:
    create(federation, namespace, {**quota({"hard": {"cpu": 10}}), "status": STATUS})
    fresh = federation.kubectl.json("get", "kq", "q", "-n", namespace)
    assert "status" not in fresh  # only the subresource writes it

    write_status(federation, namespace, STATUS)
    stored = federation.kubectl.json("get", "kq", "q", "-n", namespace, "--show-managed-fields")
    assert stored["status"] == STATUS
    assert stored["metadata"]["generation"] == fresh["metadata"]["generation"]
    (managed,) = [entry for entry in stored["metadata"]["managedFields"] if entry.get("subresource") == "status"]
    owned = managed["fieldsV1"]["f:status"]
    assert {name: fields for name, fields in owned.items() if fields and name != "f:conditions"} == {}


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"used": {"cpu": "x"}}, "status.used.cpu"),
        ({"reservations": [{**STATUS["reservations"][0], "time": "yesterday"}]}, "status.reservations[0].time"),
        ({"reservations": [{"id": "r1"}]}, "status.reservations[0].charge: Required value"),
        ({"reservations": [{**STATUS["reservations"][0], "id": str(n)} for n in range(1025)]}, "Too many"),
        ({"waiting": [{**STATUS["waiting"][0], "priority": 2**31}]}, "status.waiting[0].priority"),
        ({"conditions": [{"type": "Ready"}]}, "status.conditions[0].status: Required value"),
    ],
)
def test_a_status_that_makes_no_sense_is_refused(
    federation: Federation, namespace: str, change: dict[str, Any], fragment: str
) -> None:
    create(federation, namespace, quota({}))
    with pytest.raises(RefusedError) as refusal:
        write_status(federation, namespace, {**STATUS, **change})
    assert fragment in str(refusal.value)


def test_a_full_list_of_reservations_fits(federation: Federation, namespace: str) -> None:
    reservation = {
        "binding": "x" * 60,
        "uid": "01234567-89ab-cdef-0123-456789abcdef",
        "charge": {"cpu": "1500m", "memory": "3Gi", "pods": "3", "count/deployments.apps": "1"},
        "class": "high",
        "time": "2026-01-02T03:04:05.678901Z",
    }
    reservations = [{"id": f"{number:032x}", **reservation} for number in range(1024)]
    create(federation, namespace, quota({}))
    write_status(federation, namespace, {**STATUS, "reservations": reservations})
    stored = federation.kubectl.json("get", "kq", "q", "-n", namespace)
    assert stored["status"]["reservations"] == reservations


def test_kubectl_get_reads_like_resourcequota_and_says_what_is_exceeded(federation: Federation, namespace: str) -> None:
    create(federation, namespace, quota({"onExceeded": "Hold"}, "over"))
    create(federation, namespace, quota({}, "within"))
    write_status(federation, namespace, STATUS, "over")
    write_status(federation, namespace, {"summary": "cpu: 3/10", "exceeded": ""}, "within")

    def columns(*arguments: str) -> list[list[str]]:
        lines = federation.kubectl("get", *arguments, "-n", namespace).splitlines()
        starts = [match.start() for match in re.finditer(r"\S+( \S+)*", lines[0])]
        ends = [*starts[1:], None]
        return [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines]

    for alias in ("kq", "karmadaquota", "karmadaquotas.quota.karmada.io", "karmadaquotas.v1alpha1.quota.karmada.io"):
        header, over, within = columns(alias)
        assert header == ["NAME", "REQUEST", "EXCEEDED", "AGE"]
        assert over[:3] == ["over", "cpu: 11/10, memory: 4Gi/20Gi", "cpu"]
        assert within[:3] == ["within", "cpu: 3/10", ""]
        assert all(re.fullmatch(r"\d+s", row[3]) for row in (over, within))
    assert [row[3] for row in columns("kq", "-o", "wide")] == ["ON EXCEEDED", "Hold", "Deny"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("kq", "in all member clusters of the federation together"),
        ("kq.spec.hard", "count/deployments.apps"),
        ("kq.spec.hard", "limits.*"),
        ("kq.spec.onExceeded", "ENUM: Deny Hold Warn"),
        ("kq.spec.scopeSelector.matchExpressions.operator", "NotIn selects workloads without a class too"),
        ("kq.spec.memberUsage.graceSeconds", "FIELD: graceSeconds <integer>"),
        ("kq.status.reservations", "they count as used"),
        ("kq.status.waiting.class", "priority class"),
    ],
)
def test_kubectl_explain_helps(federation: Federation, path: str, words: str) -> None:
    assert words in " ".join(federation.kubectl("explain", path).split())


# The kinds of elastic trees


def elastic_object(kind: str, name: str, **spec: object) -> dict[str, Any]:
    return {"apiVersion": "quota.karmada.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_elastic_quotas_are_stored_and_tell_their_story(federation: Federation, namespace: str) -> None:
    tree = create(federation, namespace, elastic_object("QuotaTree", "default"))
    assert tree["spec"] == {
        "keepUsed": False,
        "mode": "Runtime",
        "reclaim": {"delaySeconds": 120, "enabled": True},
        "scaleMin": True,
    }
    create(federation, namespace, elastic_object("CompositeElasticQuota", "dept", min={"cpu": 20}))
    spec = {"parent": "dept", "min": {"cpu": 20, "quota.karmada.io/gpu-memory": 16}, "max": {"cpu": "30"}}
    stored = create(federation, namespace, elastic_object("ElasticQuota", "team", **spec))
    assert stored["spec"] == {**spec, "allowLentResource": True, "scaleMin": True, "tree": "default"}
    status = {"summary": "cpu: 25/30", "borrowing": "cpu: 10", "lending": "", "held": 2, "runtime": {"cpu": "30"}}
    patch = json.dumps({"status": status})
    federation.kubectl("patch", "eq", "team", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    listed = federation.kubectl("get", "eq", "-n", namespace)
    assert re.search(r"NAME\s+USED\s+RUNNING\s+BORROWED\s+LENT\s+HELD\s+PARENT\s+AGE", listed)
    assert re.search(r"team\s+cpu: 25/30\s+cpu: 10\s+2\s+dept", listed)
    assert "dept" in federation.kubectl("get", "ceq")


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (elastic_object("CompositeElasticQuota", "q", parent="q"), "a quota cannot be its own parent"),
        (
            elastic_object("CompositeElasticQuota", "q", namespaces=["a"], managers=[{"kind": "User", "name": "ann"}]),
            "managers manage the quotas below a parent",
        ),
        (elastic_object("ElasticQuota", "q", min={"cpu": -1}), "must be greater than or equal to 0"),
        (elastic_object("ElasticQuota", "q", max={"cpu": "much"}), "must be a quantity"),
        (elastic_object("QuotaTree", "q", mode="Chaos"), 'Unsupported value: "Chaos"'),
    ],
)
def test_the_api_server_refuses_elastic_quotas_that_make_no_sense(
    federation: Federation, refused: dict[str, Any], words: str
) -> None:
    with pytest.raises(RefusedError, match=re.escape(words)):
        try_to_create(federation, refused)
