"""Validators on the real federation: two replicas, tenants of several namespaces, and a rule of somebody's own."""

import asyncio
import itertools
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from federation_quota import names
from federation_quota.kube import config, error
from federation_quota.kube.client import Client
from federation_quota.kube.quotas import RESOURCE_BINDINGS
from federation_quota.kube.retry import Policy
from federation_quota.stamp import HELD_LABEL, PENDING_ANNOTATION, TENANT_LABEL
from localfed import audit, packages
from localfed import quota as product
from localfed.api import RefusedError
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.fixtures import clear
from localfed.guard import Guard
from localfed.kubectl import KubectlError
from tests.federation.manifests import DIVIDED, deployment, policy, quota
from tests.federation.permissions import refused
from tests.federation.stage import Stage, eventually
from tests.federation.test_concurrency import binding
from tests.validators import RULE

pytestmark = [pytest.mark.federation, pytest.mark.own, pytest.mark.late]

REPLICAS = [product.webhook_name(number) for number in (1, 2)]


@dataclass(frozen=True)
class Ruled:
    """A federation with a validator, and the files that tell that what to do."""

    federation: Federation
    files: Path

    def say(self, **texts: str) -> None:
        """Write the files."""
        for name, text in texts.items():
            (self.files / name.replace("_", "-")).write_text(text)

    def unsay(self, *found: str) -> None:
        for name in found:
            (self.files / name).unlink(missing_ok=True)

    def calls(self, tenant: str) -> list[dict[str, Any]]:
        """When it was asked about a tenant."""
        lines = (self.files / "calls").read_text().splitlines() if (self.files / "calls").exists() else []
        return [one for one in map(json.loads, lines) if one["tenant"] == tenant]

    def leases(self) -> list[dict[str, Any]]:
        selector = names.selector(names.TENANTS)
        return self.federation.api.list("leases", product.NAMESPACE, labels=selector)


@pytest.fixture(scope="module")
def ruled(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    folder = tmp_path_factory.mktemp("ruled")
    files = folder / "files"
    files.mkdir()
    made = packages.package(folder / "packages", "acme", {"rule": "acme:Rule"}, RULE)
    flags = ["--validators=rule", f"--validator-settings=rule.folder={files}", "--validator-seconds=3"]
    shape = Shape(
        members=1,
        quota=2,
        flags=dict.fromkeys(REPLICAS, flags),
        runners={name: [packages.__file__, str(made)] for name in REPLICAS},
    )
    federation = Federation(folder / "fed")
    federation.up(shape, guard)
    try:
        yield Ruled(federation, files)
    finally:
        federation.down()


@pytest.fixture
def rule(ruled: Ruled) -> Iterator[Ruled]:
    """Afterwards everything is allowed again."""
    yield ruled
    for path in ruled.files.iterdir():
        if path.name != "calls":
            path.unlink()


@pytest.fixture
def tenant(ruled: Ruled) -> Iterator[tuple[str, Stage, Stage]]:
    """A tenant with two namespaces."""
    name = f"tenant-{uuid.uuid4().hex[:8]}"
    places = [f"{name}-{part}" for part in ("a", "b")]
    for place in places:
        metadata = {"name": place, "labels": {TENANT_LABEL: name}}
        ruled.federation.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield name, Stage(ruled.federation, places[0]), Stage(ruled.federation, places[1])
    for place in places:
        clear(ruled.federation, place)


def is_held(stage: Stage, name: str) -> bool:
    found = stage.binding(name)
    return found is not None and HELD_LABEL in (found["metadata"].get("labels") or {})


def note(stage: Stage, name: str) -> dict[str, Any]:
    found = stage.binding(name) or {"metadata": {}}
    text = (found["metadata"].get("annotations") or {}).get(PENDING_ANNOTATION)
    return json.loads(text) if text else {}


def condition(stage: Stage, name: str) -> dict[str, Any]:
    found = (stage.binding(name) or {}).get("status") or {}
    return next((one for one in found.get("conditions") or [] if one["type"] == "QuotaPending"), {})


async def test_one_request_of_a_tenant_at_a_time_and_never_more_than_the_rule_allows(
    rule: Ruled, tenant: tuple[str, Stage, Stage]
) -> None:
    """Through two replicas, in two namespaces of the tenant; what is stored is all that the rule sees."""
    name, *stages = tenant
    rule.say(limit="6", seconds="0.005")  # sixty times 100m
    outcomes: Counter[str] = Counter()
    connection = await config.load(kubeconfig=str(rule.federation.directory.kubeconfig))

    async def create(client: Client, number: int) -> None:
        stage = stages[number % 2]
        try:
            await client.create(RESOURCE_BINDINGS, binding(f"b{number}", stage.namespace, 1), stage.namespace)
            outcomes["stored"] += 1
        except error.ApiError as problem:
            outcomes[problem.reason] += 1

    retry = Policy(attempts=100)
    async with Client(connection, connections=40, timeout_seconds=120, retry=retry) as client:
        await asyncio.gather(*(create(client, number) for number in range(120)))
    assert outcomes == {"stored": 120}, "what was refused is held"
    placed = [one for stage in stages for one in _bindings(stage) if not _is_held(one)]
    assert len(placed) == 60

    calls = sorted(rule.calls(name), key=lambda one: one["entered"])
    assert len({one["pid"] for one in calls}) == 2, "both replicas judged"
    for before, after in itertools.pairwise(calls):
        assert before["left"] <= after["entered"], "two at once"


async def test_a_validator_that_hangs_is_cut_off_and_holds_nobody_else(
    rule: Ruled, tenant: tuple[str, Stage, Stage]
) -> None:
    name, stage, _ = tenant
    connection = await config.load(kubeconfig=str(rule.federation.directory.kubeconfig))
    async with Client(connection, timeout_seconds=60, retry=Policy(attempts=1)) as client:
        rule.say(**{f"hang_{name}": ""})
        with pytest.raises(error.TooManyRequestsError, match=r"validator rule did not answer within 3\.0 s"):
            await client.create(RESOURCE_BINDINGS, binding("hangs", stage.namespace, 1), stage.namespace)
        # The next one is told at once: nobody waits for a call that does not come back.
        with pytest.raises(error.TooManyRequestsError):
            await client.create(RESOURCE_BINDINGS, binding("hangs", stage.namespace, 1), stage.namespace)
    others = Stage(rule.federation, "default")
    async with Client(connection, timeout_seconds=60, retry=Policy(attempts=60)) as client:
        for number in range(20):
            await client.create(RESOURCE_BINDINGS, binding(f"free{number}", "default", 1), "default")
        assert rule.calls("namespace:default"), "a namespace without a label is a tenant of its own"
        rule.unsay(f"hang-{name}")
        await client.create(RESOURCE_BINDINGS, binding("hangs", stage.namespace, 1), stage.namespace)
    for number in range(20):
        others.delete("resourcebinding", f"free{number}")


def test_what_is_refused_waits_and_comes_when_its_tenant_uses_less(
    rule: Ruled, tenant: tuple[str, Stage, Stage]
) -> None:
    name, stage, other = tenant
    rule.say(limit="0.5")
    for one in (stage, other):
        one.apply(policy(DIVIDED))
    other.apply(deployment("first", 4))
    eventually(lambda: sum(other.clusters("first").values()) == 4)
    stage.apply(deployment("second", 3))
    eventually(lambda: is_held(stage, "second"), what="it is accepted, and held")
    assert note(stage, "second")["validator"] == "rule"
    eventually(lambda: condition(stage, "second").get("reason") == "ValidatorRefused", what="a condition says why")
    assert "the tenant has no more (short of: cores=0.2)" in condition(stage, "second")["message"]
    eventually(lambda: stage.has_event("second", "Pending", "validator rule: the tenant has no more"))
    asked = len(rule.calls(name))

    other.delete("deployment", "first")
    eventually(lambda: sum(stage.clusters("second").values()) == 3, what="it comes when there is room")
    assert not is_held(stage, "second")
    eventually(lambda: not note(stage, "second") and not condition(stage, "second"), what="and nothing is left of it")
    assert len(rule.calls(name)) - asked < 5, "nobody asked again and again meanwhile"


def test_what_is_refused_comes_at_its_time_where_nothing_fell(rule: Ruled, tenant: tuple[str, Stage, Stage]) -> None:
    _, stage, _ = tenant
    rule.say(limit="0.1", retry="2")
    stage.apply(policy(DIVIDED), deployment("web", 3))
    eventually(lambda: is_held(stage, "web"))
    rule.say(limit="1")
    eventually(lambda: sum(stage.clusters("web").values()) == 3)


def test_growth_waits_while_what_runs_goes_on_and_what_cannot_be_held_is_noted(
    rule: Ruled, tenant: tuple[str, Stage, Stage]
) -> None:
    _, stage, other = tenant
    rule.say(limit="0.6")
    for one in (stage, other):
        one.apply(policy(DIVIDED))
    other.apply(deployment("first", 3))
    stage.apply(deployment("web", 3))
    eventually(lambda: sum(stage.clusters("web").values()) == 3)
    stage.kubectl("scale", "deployment", "web", "--replicas=5")
    eventually(lambda: is_held(stage, "web"), what="its growth is held")
    assert sum(stage.clusters("web").values()) == 3
    stage.kubectl("scale", "deployment", "web", "--replicas=3")
    eventually(lambda: not is_held(stage, "web"), what="a smaller wish needs no room")

    # More for each replica cannot be held: the binding as it is carries the note.
    stage.kubectl("set", "resources", "deployment", "web", "--requests=cpu=200m")
    eventually(lambda: note(stage, "web").get("charge", {}).get("cpu") == "600m", what="it is noted")
    assert not is_held(stage, "web")
    other.delete("deployment", "first")
    eventually(lambda: _request(stage.binding("web")) == "200m", what="it arrives")
    eventually(lambda: not note(stage, "web"))


def test_what_a_quota_refuses_was_never_counted(rule: Ruled, tenant: tuple[str, Stage, Stage]) -> None:
    name, stage, other = tenant
    rule.say(limit="1")
    stage.apply(quota("q", {"cpu": "300m"}))
    stage.quota_active("q")
    with pytest.raises(RefusedError, match="exceeded quota: q"):
        stage.apply(binding("big", stage.namespace, 8))
    other.apply(binding("fits", other.namespace, 10))
    assert rule.calls(name)[-1]["used"] == "0"
    assert not is_held(other, "fits")


def test_a_dry_run_leaves_nothing_behind(rule: Ruled, tenant: tuple[str, Stage, Stage]) -> None:
    name, stage, _ = tenant
    rule.say(limit="1")
    manifest = json.dumps(binding("dry", stage.namespace, 9))
    stage.kubectl("create", "--dry-run=server", "-f", "-", manifest=manifest)
    manifest = json.dumps(binding("dry", stage.namespace, 11))
    with pytest.raises(KubectlError, match=r"validator rule: the tenant has no more \(short of: cores=0\.1\)"):
        stage.kubectl("create", "--dry-run=server", "-f", "-", manifest=manifest)
    assert all(one["is_dry_run"] for one in rule.calls(name))
    stage.apply(binding("real", stage.namespace, 10))
    assert not _is_held(_bindings(stage)[0])


def test_a_replica_that_leaves_hands_everything_over(
    rule: Ruled, tenant: tuple[str, Stage, Stage], guard: Guard
) -> None:
    name, stage, _ = tenant
    rule.say(limit="1")
    stage.apply(binding("one", stage.namespace, 4))
    [held] = [one for one in rule.leases() if one["metadata"]["labels"].get(TENANT_LABEL) == name]
    assert held["spec"]["holderIdentity"]
    for process in REPLICAS:
        rule.federation.terminate(process)
        rule.federation.start(process, guard)
        stage.apply(binding(f"after-{process}", stage.namespace, 3))
    assert [one["used"] for one in rule.calls(name) if one["allowed"]] == ["0", "400m", "700m"]
    eventually(
        lambda: not [one for one in rule.leases() if one["spec"].get("holderIdentity")], what="idle titles are given up"
    )


def test_only_who_may_says_whose_a_namespace_is(rule: Ruled, tenant: tuple[str, Stage, Stage]) -> None:
    name, stage, _ = tenant
    kubectl = rule.federation.kubectl
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "get", "update", "patch"]},
            {
                "apiGroups": ["quota.karmada.io"],
                "resources": ["tenants"],
                "resourceNames": ["mine"],
                "verbs": ["assign"],
            },
        ],
    }
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }
    kubectl.apply(role, bound)
    user = f"--as={name}"
    with pytest.raises(KubectlError, match="may not say whose namespace"):
        kubectl("label", "namespace", stage.namespace, "--overwrite", f"{TENANT_LABEL}=mine", user)
    with pytest.raises(KubectlError, match="may not say whose namespace"):
        kubectl("label", "namespace", stage.namespace, f"{TENANT_LABEL}-", user)
    kubectl("label", "namespace", stage.namespace, "theirs=fine", user)
    with pytest.raises(KubectlError, match="may not say whose namespace"):
        _namespace(rule, f"{name}-c", "somebody", user)
    _namespace(rule, f"{name}-c", "mine", user)
    for cleared in ("clusterrole", "clusterrolebinding"):
        kubectl("delete", cleared, name)
    clear(rule.federation, f"{name}-c")


def test_a_namespace_that_is_called_like_a_tenant_is_none_of_its_own(
    rule: Ruled, tenant: tuple[str, Stage, Stage]
) -> None:
    name, stage, _ = tenant
    rule.say(limit="1")
    stage.apply(binding("theirs", stage.namespace, 4))
    rule.federation.kubectl("create", "namespace", name)
    namesake = Stage(rule.federation, name)
    namesake.apply(binding("own", name, 8))  # more than the tenant has left
    [own] = _bindings(namesake)
    assert not _is_held(own)
    assert rule.calls(f"namespace:{name}")[0]["used"] == "0"
    clear(rule.federation, name)


def test_the_roles_of_validators_are_enough(rule: Ruled) -> None:
    """Comes last in this module: nothing that was done here was refused."""
    assert not set(refused(audit.entries(rule.federation.directory)))


def _namespace(rule: Ruled, name: str, tenant: str, user: str) -> None:
    metadata = {"name": name, "labels": {TENANT_LABEL: tenant}}
    manifest = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    rule.federation.kubectl("create", "-f", "-", user, manifest=manifest)


def _request(found: dict[str, Any] | None) -> object:
    return found and found["spec"]["replicaRequirements"]["resourceRequest"]["cpu"]


def _bindings(stage: Stage) -> list[dict[str, Any]]:
    return stage.federation.api.list("resourcebindings", stage.namespace)


def _is_held(found: dict[str, Any]) -> bool:
    return HELD_LABEL in (found["metadata"].get("labels") or {})
