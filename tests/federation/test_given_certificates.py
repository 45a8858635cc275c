"""A federation with one replica of each, and certificates that an administrator, or cert-manager, gives in files."""

import base64
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from localfed.api import RefusedError
from localfed.authority import Authority
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.quota import controllers_name
from tests.federation.manifests import quota
from tests.federation.stage import Stage, eventually
from tests.federation.teams import GROUP
from tests.federation.test_concurrency import binding

pytestmark = [pytest.mark.federation, pytest.mark.own]

HOOKS = "federation-quota-validating"


@dataclass(frozen=True)
class Given:
    """That federation."""

    federation: Federation
    authority: Authority

    @property
    def stage(self) -> Stage:
        return Stage(self.federation, "default")


@pytest.fixture(scope="module")
def given(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Given]:
    folder = tmp_path_factory.mktemp("given")
    authority = Authority(folder / "given", "an authority of the administrator's")
    certificate, key = authority.issue("webhook", common_name="webhook")
    flags = {
        "quota-webhook-1": [f"--certificate={certificate}", f"--key={key}"],
        "quota-controllers-1": [f"--certificate-authority={authority.certificate}"],
    }
    federation = Federation(folder / "fed")
    federation.up(Shape(members=0, quota=1, flags=flags), guard)
    try:
        yield Given(federation, authority)
    finally:
        federation.down()


def test_hooks_trust_and_serve_what_was_given(given: Given) -> None:
    federation, stage = given.federation, Stage(given.federation, "trusting")
    federation.kubectl("create", "namespace", stage.namespace)
    found = federation.api.get("validatingwebhookconfiguration", HOOKS)
    for hook in found["webhooks"]:
        assert base64.b64decode(hook["clientConfig"]["caBundle"]) == given.authority.certificate.read_bytes()
    stage.apply(quota("q", {"pods": "1"}))
    stage.quota_active("q")
    with pytest.raises(Exception, match="exceeded quota: q, requested: pods=2, used: pods=0, limited: pods=1"):
        stage.apply(binding("b", stage.namespace, 2))
    assert "federation-quota-authority" not in federation.kubectl("get", "secrets", "-A")


def test_what_is_stored_past_the_webhook_raises_an_alarm(given: Given) -> None:
    """In a federation of its own: for a moment it has no hooks."""
    federation, stage = given.federation, given.stage
    leafy = Stage(federation, "leafy")

    def alarms() -> float:
        root = federation.spec(controllers_name(1)).health.removesuffix("/readyz")
        with urllib.request.urlopen(f"{root}/metrics", timeout=60) as answer:  # noqa: S310 - loopback
            lines = answer.read().decode().splitlines()
        name = "federation_quota_increases_without_reservation_total"
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def told(name: str) -> list[str]:
        said = federation.log(controllers_name(1)).read_text().splitlines()
        return [one for one in said if "audit.unreserved" in one and f'"{name}"' in one]

    def is_smuggled() -> bool:
        # They come back by themselves, every ten seconds: that may be just now.
        federation.kubectl("delete", "--ignore-not-found", "validatingwebhookconfiguration", HOOKS)
        try:
            stage.apply(binding("smuggled", "default", 3))
            leafy.apply(given_at_once("smuggled-too", "leafy", 3))
        except RefusedError:
            return False
        return True

    def are_back() -> bool:
        found = federation.api.list("validatingwebhookconfigurations")
        return HOOKS in [one["metadata"]["name"] for one in found]

    stage.apply(quota("alarmed", {"pods": "2"}))
    stage.quota_active("alarmed")
    stage.apply(binding("fair", "default", 1))
    stage.apply(binding("fair", "default", 0), binding("fairer", "default", 1))
    tree = {"apiVersion": GROUP, "kind": "QuotaTree", "metadata": {"name": "leafy"}, "spec": {"total": {"cpu": "1"}}}
    federation.kubectl("create", "namespace", "leafy")
    federation.kubectl("apply", "-f", "-", manifest=json.dumps(tree))
    leafy.apply(
        {
            "apiVersion": GROUP,
            "kind": "ElasticQuota",
            "metadata": {"name": "own"},
            "spec": {"tree": "leafy", "min": {"cpu": "200m"}},
        }
    )
    eventually(lambda: (leafy.get("elasticquota", "own") or {}).get("status", {}).get("shape"), what="it is active")
    assert alarms() == 0
    eventually(is_smuggled, what="it gets past")
    eventually(lambda: told("alarmed") and told("leafy/own"), what="the alarms")
    assert alarms() >= 2
    eventually(lambda: stage.used("alarmed") == {"pods": "4"}, what="it is counted all the same")
    [line] = told("alarmed")
    assert '"binding": "smuggled"' in line
    [line] = told("leafy/own")
    assert '"binding": "smuggled-too"' in line
    assert '"namespace": "leafy"' in line
    eventually(are_back, what="the hooks are back for others")


def given_at_once(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    """A binding that comes with its clusters."""
    found = binding(name, namespace, replicas)
    return {**found, "spec": {**found["spec"], "clusters": [{"name": "m1", "replicas": replicas}]}}
