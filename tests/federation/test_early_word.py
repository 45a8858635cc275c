"""What people are told at once, when they apply or scale a workload: by kubectl, on the terminal."""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from federation_quota.hooks import DENY_AT_APPLY_LABEL
from federation_quota.stamp import QUOTA_NAME_LABEL
from localfed.federation import Federation
from tests.federation.grove import Grove, growing
from tests.federation.manifests import DIVIDED, DUPLICATED, deployment, policy, quota
from tests.federation.stage import Stage, eventually

pytestmark = pytest.mark.federation


class Said(NamedTuple):
    """What kubectl printed, and whether it was content."""

    is_ok: bool
    printed: str
    warnings: list[str]
    error: str


def kubectl(stage: Stage, *arguments: str, manifest: dict[str, Any] | None = None) -> Said:
    """kubectl as a user runs it, with all that it prints."""
    environment = stage.federation.environment()
    path = f"{environment['PATH']}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["kubectl", "-n", stage.namespace, *arguments],
        input=json.dumps(manifest) if manifest else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"HOME": str(stage.federation.directory.path), "PATH": path, "KUBECONFIG": environment["KUBECONFIG"]},
    )
    lines = ran.stderr.splitlines()
    warnings = [line.removeprefix("Warning: ") for line in lines if line.startswith("Warning: ")]
    error = "\n".join(line for line in lines if not line.startswith("Warning: "))
    return Said(ran.returncode == 0, ran.stdout.strip(), warnings, error)


def apply(stage: Stage, manifest: dict[str, Any], *flags: str) -> Said:
    return kubectl(stage, "apply", *flags, "-f", "-", manifest=manifest)


def limited(stage: Stage, cpu: str, scheduling: dict[str, Any] = DIVIDED, **spec: Any) -> None:  # noqa: ANN401
    stage.apply(quota("team", {"cpu": cpu}, **spec), policy(scheduling))
    stage.quota_active("team")


def running(stage: Stage, name: str, replicas: int, cpu: str) -> None:
    said = apply(stage, deployment(name, replicas, cpu))
    assert said.is_ok
    assert said.warnings == [], "there is room"
    eventually(lambda: sum(stage.in_members(name).values()) == replicas, what=f"{name} runs")
    eventually(lambda: not stage.status("team")["reservations"], what="the admission is settled")


def test_a_workload_that_will_not_fit_is_accepted_with_a_warning(stage: Stage) -> None:
    limited(stage, "10")
    running(stage, "first", 6, "1")
    said = apply(stage, deployment("second", 6, "1"))
    assert said.is_ok
    assert said.printed == "deployment.apps/second created"
    assert said.warnings == [
        "quota team: 6 more cpu asked for, 6 of 10 used: "
        "if propagated, it will not be scheduled until something is freed"
    ]
    eventually(lambda: stage.is_refused("second", "exceeded quota: team, requested: cpu=6"))


def test_more_than_the_whole_quota_is_told_as_such(stage: Stage) -> None:
    limited(stage, "10")
    said = apply(stage, deployment("huge", 11, "1"))
    assert said.warnings == [
        "quota team: 11 more cpu asked for, 0 of 10 used: "
        "if propagated, it will not be scheduled until the quota is raised"
    ]


def test_a_change_is_held_against_what_is_bound_already(stage: Stage) -> None:
    limited(stage, "10")
    running(stage, "web", 4, "2")
    assert apply(stage, deployment("web", 5, "2")).warnings == [], "exactly at the limit"
    eventually(lambda: stage.used("team") == {"cpu": "10"})
    eventually(lambda: not stage.status("team")["reservations"], what="the admission is settled")
    told = (
        "quota team: 2500m more cpu asked for, 10 of 10 used: "
        "if propagated, the change will not reach the members until the quota is raised"
    )
    # Each replica tells by its own view, which may be a moment behind what is stored.
    eventually(lambda: apply(stage, deployment("web", 5, "2500m"), "--dry-run=server").warnings == [told], what=told)


def test_scaling_is_told_about_and_done(stage: Stage) -> None:
    limited(stage, "10")
    running(stage, "web", 4, "1")
    running(stage, "other", 4, "1")
    said = kubectl(stage, "scale", "deployment", "web", "--replicas=7")
    assert said.is_ok
    assert said.warnings == [
        "quota team: 3 more cpu asked for, 8 of 10 used: "
        "if propagated, the change will not reach the members until something is freed"
    ]
    assert kubectl(stage, "scale", "deployment", "web", "--replicas=6").warnings == [], "that many fit"
    assert kubectl(stage, "scale", "deployment", "web", "--replicas=1").warnings == []


def test_every_copy_of_a_duplicated_workload_counts(stage: Stage) -> None:
    limited(stage, "10", DUPLICATED)
    said = apply(stage, deployment("web", 4, "1"))
    assert said.warnings == []
    eventually(lambda: stage.in_members("web") == {"m1": 4, "m2": 4})
    eventually(lambda: not stage.status("team")["reservations"], what="the admission is settled")
    told = kubectl(stage, "scale", "deployment", "web", "--replicas=6").warnings
    assert len(told) == 1
    assert "4 more cpu asked for, 8 of 10 used" in told[0]


def test_what_does_not_change_the_request_is_not_talked_about(stage: Stage) -> None:
    limited(stage, "10")
    running(stage, "web", 10, "1")
    for arguments in (
        ["label", "deployment", "web", "colour=blue"],
        ["annotate", "deployment", "web", "colour=blue"],
        ["set", "image", "deployment/web", "main=registry.example/none:2"],
    ):
        said = kubectl(stage, *arguments)
        assert said.is_ok
        assert said.warnings == [], arguments


def test_a_dry_run_is_told_the_same_and_leaves_nothing(stage: Stage) -> None:
    limited(stage, "10")
    said = apply(stage, deployment("web", 11, "1"), "--dry-run=server")
    assert said.printed == "deployment.apps/web created (server dry run)"
    assert len(said.warnings) == 1
    assert stage.get("deployment", "web") is None
    assert stage.status("team")["reservations"] == []


@pytest.mark.parametrize(
    ("kind", "api_version", "spec"),
    [
        ("StatefulSet", "apps/v1", {"serviceName": "web", "replicas": 11}),
        ("ReplicaSet", "apps/v1", {"replicas": 11}),
        ("Job", "batch/v1", {"parallelism": 11, "completions": 20}),
        ("Pod", "v1", {}),
    ],
)
def test_every_kind_that_has_replicas_is_talked_about(
    stage: Stage, kind: str, api_version: str, spec: dict[str, Any]
) -> None:
    limited(stage, "10")
    template = deployment("web", 1, "1" if spec else "11")["spec"]
    template["template"]["spec"]["restartPolicy"] = "Never" if kind == "Job" else "Always"
    shape = {
        "Pod": template["template"]["spec"],
        "Job": {**spec, "template": template["template"]},
    }.get(kind, {**template, **spec})
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": shape}
    said = apply(stage, manifest, "--dry-run=server")
    assert said.is_ok, said.error
    assert len(said.warnings) == 1
    assert said.warnings[0].startswith("quota team: 11 more cpu asked for, 0 of 10 used")


@pytest.mark.parametrize(
    ("on_exceeded", "outcome"),
    [
        ("Warn", "let through, this quota only warns"),
        ("Hold", "if propagated, it is held until the quota is raised"),
    ],
)
def test_the_word_is_about_what_the_quota_does(stage: Stage, on_exceeded: str, outcome: str) -> None:
    limited(stage, "10", onExceeded=on_exceeded)
    said = apply(stage, deployment("web", 11, "1"), "--dry-run=server")
    assert said.warnings == [f"quota team: 11 more cpu asked for, 0 of 10 used: {outcome}"]


def test_a_namespace_without_a_quota_hears_nothing(stage: Stage) -> None:
    assert apply(stage, deployment("web", 1000, "1")).warnings == []


class TestDenialAtApply:
    @pytest.fixture(autouse=True)
    def _asked_for(self, stage: Stage) -> None:
        stage.federation.kubectl("label", "namespace", stage.namespace, f"{DENY_AT_APPLY_LABEL}=true")

    def test_a_workload_that_will_not_fit_is_refused(self, stage: Stage) -> None:
        limited(stage, "10")
        running(stage, "first", 6, "1")

        def refused() -> Said:
            return apply(stage, deployment("second", 6, "1"))

        eventually(lambda: not refused().is_ok, what="the API server knows the label")
        stage.kubectl("delete", "deployment", "second", "--ignore-not-found")
        said = refused()
        assert 'admission webhook "deny.quota.karmada.io" denied the request' in said.error
        assert "exceeded quota: team, requested: cpu=6, used: cpu=6, limited: cpu=10" in said.error
        assert stage.get("deployment", "second") is None
        fits = apply(stage, deployment("second", 4, "1"))
        assert fits.is_ok
        assert fits.warnings == []

    def test_scaling_is_refused_upwards_and_done_downwards(self, stage: Stage) -> None:
        limited(stage, "10")
        running(stage, "web", 10, "1")
        said = kubectl(stage, "scale", "deployment", "web", "--replicas=11")
        assert not said.is_ok
        assert "exceeded quota: team, requested: cpu=1, used: cpu=10, limited: cpu=10" in said.error
        assert kubectl(stage, "scale", "deployment", "web", "--replicas=9").is_ok

    def test_what_is_too_large_already_may_become_smaller(self, stage: Stage) -> None:
        assert apply(stage, deployment("web", 20, "1")).is_ok
        stage.apply(policy(DIVIDED, name="none", kind="StatefulSet"), quota("team", {"cpu": "10"}))
        stage.quota_active("team")
        said = apply(stage, deployment("web", 15, "1"))
        assert said.is_ok
        assert said.warnings == [
            "quota team: 15 more cpu asked for, 0 of 10 used: "
            "if propagated, it will not be scheduled until the quota is raised"
        ]
        assert not apply(stage, deployment("web", 16, "1")).is_ok

    @pytest.mark.parametrize("on_exceeded", ["Warn", "Hold"])
    def test_a_quota_that_does_not_deny_does_not_deny_here(self, stage: Stage, on_exceeded: str) -> None:
        limited(stage, "10", onExceeded=on_exceeded)
        said = apply(stage, deployment("web", 11, "1"), "--dry-run=server")
        assert said.is_ok
        assert len(said.warnings) == 1


class TestTrees:
    """Elastic quotas in trees of their own, with a total of their own."""

    @pytest.fixture
    def grove(self, federation: Federation, namespace: str) -> Iterator[Grove]:
        with growing(federation, namespace) as found:
            found.apply(found.tree(total={"cpu": 10}))
            yield found

    @pytest.fixture
    def own(self, grove: Grove, stage: Stage) -> str:
        """The namespace's quota, in force."""
        grove.apply(grove.elastic(stage.namespace, min={"cpu": 2}, max={"cpu": 12}))
        eventually(lambda: self._status(stage).get("shape"), what="every replica has joined it")
        eventually(lambda: self._status(stage).get("runtime"), what="something is published")
        return f"{stage.namespace}/quota"

    def _status(self, stage: Stage) -> dict[str, Any]:
        return (stage.get("elasticquota", "quota") or {}).get("status") or {}

    def test_what_will_go_is_not_talked_about_and_what_waits_is(self, stage: Stage, own: str) -> None:
        assert apply(stage, deployment("web", 8, "1"), "--dry-run=server").warnings == [], "it could have 10"
        assert apply(stage, deployment("web", 11, "1"), "--dry-run=server").warnings == [
            f"quota {own}: 11 more cpu asked for, 0 of the 10 used that it could have now: "
            "if propagated, it is held until others in its tree need less, or something ends"
        ]

    def test_what_can_never_fit_is_told_and_refused_where_that_is_asked_for(self, stage: Stage, own: str) -> None:
        text = (
            f"quota {own}: 13 more cpu asked for, 0 of 12 used, its max: "
            "if propagated, it is held until the quota is raised"
        )
        assert apply(stage, deployment("web", 13, "1"), "--dry-run=server").warnings == [text]
        stage.federation.kubectl("label", "namespace", stage.namespace, f"{DENY_AT_APPLY_LABEL}=true")

        def said() -> Said:
            return apply(stage, deployment("web", 13, "1"), "--dry-run=server")

        eventually(lambda: not said().is_ok, what="the API server knows the label")
        assert text in said().error
        assert apply(stage, deployment("web", 11, "1"), "--dry-run=server").is_ok, "what waits is accepted"

    def test_a_quota_that_cannot_be_had_is_said_also_when_only_the_label_changes(self, stage: Stage, own: str) -> None:
        stage.apply(deployment("web", 1, "1"))
        said = kubectl(stage, "label", "deployment", "web", f"{QUOTA_NAME_LABEL}=nobody")
        assert said.is_ok
        assert len(said.warnings) == 1
        assert said.warnings[0].startswith("there is no quota nobody that workloads of namespace")
        assert kubectl(stage, "label", "deployment", "web", f"{QUOTA_NAME_LABEL}=quota", "--overwrite").warnings == []

    def test_more_than_a_quota_takes_in_is_told_and_refused(self, stage: Stage, grove: Grove, own: str) -> None:
        spec = {"min": {"cpu": 2}, "max": {"cpu": 12}, "admission": {"cpu": 3}}
        shape = self._status(stage)["shape"]
        grove.apply(grove.elastic(stage.namespace, **spec))
        eventually(lambda: self._status(stage).get("shape") not in (None, "", shape), what="all have joined anew")
        said = apply(stage, deployment("web", 4, "1"))
        assert said.warnings == [
            f"quota {own}: 4 more cpu asked for, 0 of 3 asked for already, all that it takes in: "
            "if propagated, it is refused"
        ]
        stage.apply(policy(DIVIDED))
        text = "requested: admission.cpu=4, used: admission.cpu=0, limited: admission.cpu=3"
        eventually(lambda: stage.is_refused("web", text), what="the binding is refused")
        assert stage.binding("web") is None
