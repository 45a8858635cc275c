"""Whose workloads are, on the real federation: two users with certificates of their own, and all that they try."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from federation_quota.stamp import OWNER_ANNOTATION, STAMP_ANNOTATION
from localfed.federation import Federation
from localfed.kubectl import KubectlError
from tests.federation.manifests import DUPLICATED, deployment, policy
from tests.federation.people import Person, administrator, tenant
from tests.federation.stage import Stage, eventually
from tests.federation.teams import sharing

pytestmark = pytest.mark.federation

ANN = {"user": "ann", "groups": ["dev", "ops"]}
BOB = {"user": "bob", "groups": ["dev"]}
FORGED = json.dumps({"user": "bob", "groups": ["dev"]}, separators=(",", ":"))


@pytest.fixture
def ann(stage: Stage) -> Person:
    return tenant(stage, "ann", "ops", "dev")


@pytest.fixture
def bob(stage: Stage) -> Person:
    return tenant(stage, "bob", "dev")


def owner(stage: Stage, name: str = "web", kind: str = "deployment") -> object:
    found = stage.get(kind, name)
    assert found is not None
    text = (found["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION)
    return json.loads(text) if text else None


def signed(manifest: dict[str, Any], text: str = FORGED) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {OWNER_ANNOTATION: text}}}


def test_each_owns_what_they_apply(stage: Stage, ann: Person, bob: Person) -> None:
    ann.apply(deployment("web", 1))
    bob.apply(deployment("shop", 1))
    assert owner(stage, "web") == ANN
    assert owner(stage, "shop") == BOB


def test_an_owner_cannot_be_forged_when_something_is_created(stage: Stage, ann: Person) -> None:
    ann.kubectl_apply(signed(deployment("applied", 1)))
    ann.kubectl_apply(signed(deployment("server-side", 1)), "--server-side")
    ann("create", "-f", "-", manifest=signed(deployment("created", 1)))
    pod = {"containers": [{"name": "main", "image": "registry.example/none:1"}]}
    metadata = {"name": "bare"}
    ann.apply(signed({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}))
    job = {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
    ann.apply(signed({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}))
    for name in ("applied", "server-side", "created"):
        assert owner(stage, name) == ANN, name
    assert owner(stage, "bare", "pod") == ANN
    assert owner(stage, "bare", "job") == ANN


def test_an_owner_cannot_be_changed_or_removed_by_anybody(stage: Stage, ann: Person, bob: Person) -> None:
    ann.apply(deployment("web", 1))
    root = administrator(stage.federation, stage.namespace)
    merged = json.dumps({"metadata": {"annotations": {OWNER_ANNOTATION: FORGED}}})
    removed = json.dumps({"metadata": {"annotations": {OWNER_ANNOTATION: None}}})
    pointer = "/metadata/annotations/" + OWNER_ANNOTATION.replace("/", "~1")
    dropped = json.dumps([{"op": "remove", "path": pointer}])
    emptied = json.dumps([{"op": "remove", "path": "/metadata/annotations"}])
    patch = ["patch", "deployment", "web"]
    for who, person in (("ann", ann), ("bob", bob), ("root", root)):
        for attempt in (
            ["annotate", "--overwrite", "deployment", "web", f"{OWNER_ANNOTATION}={FORGED}"],
            ["annotate", "deployment", "web", f"{OWNER_ANNOTATION}-"],
            [*patch, "--type=merge", "-p", merged],
            [*patch, "--type=merge", "-p", removed],
            [*patch, "--type=json", "-p", dropped],
            [*patch, "--type=json", "-p", emptied],
        ):
            person(*attempt)
            assert owner(stage) == ANN, (who, attempt)
        person("replace", "-f", "-", manifest=deployment("web", 2))
        assert owner(stage) == ANN, who
        person.kubectl_apply(
            signed(deployment("web", 3)), "--server-side", "--force-conflicts", f"--field-manager={who}"
        )
        assert owner(stage) == ANN, who
        person.kubectl_apply(deployment("web", 1), "--server-side", "--force-conflicts", f"--field-manager={who}")
        assert owner(stage) == ANN, who
    # Of Kubernetes' own kinds some take metadata along with a status.
    for change in (merged, removed):
        root(*patch, "--subresource=status", "--type=merge", "-p", change)
        assert owner(stage) == ANN, "status"


def test_what_is_being_deleted_keeps_its_owner_until_it_is_gone(stage: Stage, ann: Person) -> None:
    waiting = deployment("web", 1)
    waiting["metadata"]["finalizers"] = ["test.quota.karmada.io/wait"]
    ann.apply(waiting)
    ann("delete", "deployment", "web", "--wait=false")
    ann("annotate", "--overwrite", "deployment", "web", f"{OWNER_ANNOTATION}={FORGED}")
    assert owner(stage) == ANN
    ann("patch", "deployment", "web", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: stage.get("deployment", "web") is None, what="it goes all the same")


def test_edits_by_others_change_no_owner_and_who_makes_it_anew_owns_it(stage: Stage, ann: Person, bob: Person) -> None:
    ann.apply(deployment("web", 1))
    bob("scale", "deployment", "web", "--replicas=3")
    bob.apply(deployment("web", 2, "200m"))
    assert owner(stage) == ANN
    bob("delete", "deployment", "web")
    bob.apply(deployment("web", 1))
    assert owner(stage) == BOB


def test_a_dry_run_shows_the_owner_and_stores_nothing(stage: Stage, ann: Person, bob: Person) -> None:
    said = json.loads(ann.kubectl_apply(signed(deployment("web", 1)), "--dry-run=server", "-o", "json"))
    assert json.loads(said["metadata"]["annotations"][OWNER_ANNOTATION]) == ANN
    assert stage.get("deployment", "web") is None
    ann.apply(deployment("web", 1))
    said = json.loads(bob.kubectl_apply(signed(deployment("web", 2)), "--dry-run=server", "-o", "json"))
    assert json.loads(said["metadata"]["annotations"][OWNER_ANNOTATION]) == ANN


def test_who_acts_for_somebody_creates_in_their_name(stage: Stage, ann: Person) -> None:
    root = administrator(stage.federation, stage.namespace)
    root.kubectl_apply(deployment("hers", 1), "--as=carol", "--as-group=dev", "--as-group=system:masters")
    assert owner(stage, "hers") == {"user": "carol", "groups": ["dev", "system:masters"]}
    root.apply(deployment("own", 1))
    found = owner(stage, "own")
    assert isinstance(found, dict)
    assert "system:masters" in found["groups"], "administrators are somebody, too"


def test_the_service_accounts_of_a_namespace_are_one_owner(stage: Stage, ann: Person) -> None:
    for name in ("one", "two"):
        ann("create", "serviceaccount", name)
        acting = f"--as=system:serviceaccount:{stage.namespace}:{name}"
        stage.kubectl("create", "rolebinding", name, "--clusterrole=edit", f"--serviceaccount={stage.namespace}:{name}")
        eventually(partial(_is_done, ann, "create", "deployment", name, "--image=x", acting))
    ours = f"system:serviceaccounts:{stage.namespace}"
    assert owner(stage, "one") == {"user": ours, "groups": ["system:serviceaccounts", ours]}
    assert owner(stage, "one") == owner(stage, "two")


def _is_done(person: Person, *arguments: str) -> bool:
    return not person.refusal(*arguments)


def test_those_who_are_nobody_own_nothing(stage: Stage) -> None:
    robot = tenant(stage, "ci", "robots")
    robot.apply(signed(deployment("web", 1)))
    assert owner(stage) is None


def test_who_administers_owners_hands_over_and_is_told_what_an_owner_is(stage: Stage, ann: Person) -> None:
    steward = tenant(stage, "steward")
    ann.apply(deployment("web", 1))
    annotate = ["annotate", "--overwrite", "deployment", "web"]
    said = steward.refusal(*annotate, f"{OWNER_ANNOTATION}=bob")
    assert 'not an owner, which reads {"user": "ann", "groups": ["dev"]}' in said
    assert owner(stage) == ANN
    steward(*annotate, f"{OWNER_ANNOTATION}={FORGED}")
    assert owner(stage) == BOB
    steward.apply(signed(deployment("restored", 1)))
    assert owner(stage, "restored") == BOB


@pytest.fixture
def leaf(federation: Federation) -> Iterator[Stage]:
    """A namespace under an elastic quota."""
    with sharing(federation, {"lab": "10"}, total={"cpu": "10"}) as teams:
        yield teams.stages["lab"]


def stamped(stage: Stage, name: str = "web") -> object:
    """The owner on the binding's stamp."""
    found = stage.binding(name)
    text = ((found or {}).get("metadata", {}).get("annotations") or {}).get(STAMP_ANNOTATION)
    return json.loads(text).get("owner") if text else None


def test_under_a_leaf_the_binding_says_whose_it_is_and_no_tenant_can_change_that(leaf: Stage) -> None:
    ann, bob = tenant(leaf, "ann", "ops", "dev"), tenant(leaf, "bob", "dev")
    leaf.apply(policy(DUPLICATED))
    ann.apply(deployment("web", 1))
    eventually(lambda: stamped(leaf) == ANN, what="the binding is stamped")
    bob("scale", "deployment", "web", "--replicas=2")
    eventually(lambda: (leaf.binding("web") or {})["spec"]["replicas"] == 2, what="it is scaled")
    assert stamped(leaf) == ANN
    text = (leaf.binding("web") or {})["metadata"]["annotations"][STAMP_ANNOTATION]
    forged = json.dumps({**json.loads(text), "owner": BOB})
    for attempt in (
        ["annotate", "--overwrite", "resourcebinding", "web-deployment", f"{STAMP_ANNOTATION}={forged}"],
        ["annotate", "resourcebinding", "web-deployment", f"{STAMP_ANNOTATION}-"],
    ):
        assert bob.refusal(*attempt), "tenants write no bindings"
        leaf.kubectl(*attempt)
        assert stamped(leaf) == ANN, attempt
    bob("delete", "deployment", "web")
    bob.apply(deployment("web", 1))
    eventually(lambda: stamped(leaf) == BOB, what="what is made anew is of who made it")


def test_what_is_under_no_leaf_says_nothing_of_owners(stage: Stage, ann: Person) -> None:
    stage.apply(policy(DUPLICATED))
    ann.apply(deployment("web", 1))
    eventually(lambda: sum(stage.clusters("web").values()) == 2, what="it is scheduled")
    assert stamped(stage) is None


def test_who_is_in_too_many_groups_is_told_so(stage: Stage) -> None:
    groups = [f"--as-group=g{number}" for number in range(600)]
    root = administrator(stage.federation, stage.namespace)
    with pytest.raises(KubectlError, match="512 at most are kept with a workload"):
        root.kubectl_apply(deployment("web", 1), "--as=busy", "--as-group=system:masters", *groups)
