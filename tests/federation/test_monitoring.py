"""What whoever watches over the product sees: metrics, health, logs and state of the running replicas."""

import urllib.error
import urllib.request

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from federation_quota import metrics
from federation_quota.quantity import parse
from localfed.federation import Federation
from localfed.kubectl import KubectlError
from localfed.quota import controllers_name, webhook_name
from tests.federation.manifests import quota
from tests.federation.stage import Stage, eventually
from tests.federation.test_concurrency import binding

pytestmark = pytest.mark.federation

WEBHOOKS = [webhook_name(1), webhook_name(2)]
CONTROLLERS = [controllers_name(1), controllers_name(2)]


def read(federation: Federation, name: str, path: str) -> tuple[int, str]:
    root = federation.spec(name).health.removesuffix("/readyz")
    try:
        with urllib.request.urlopen(root + path, timeout=10) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()


def families(federation: Federation, name: str) -> list[Metric]:
    status, text = read(federation, name, "/metrics")
    assert status == 200
    return list(text_string_to_metric_families(text))


def value(federation: Federation, names: list[str], sample: str, **labels: str) -> float:
    """The sum over those replicas of a sample with at least these labels."""
    return sum(
        one.value
        for name in names
        for family in families(federation, name)
        for one in family.samples
        if one.name == sample and labels.items() <= one.labels.items()
    )


def test_metrics_tell_what_was_decided_and_what_statuses_say(stage: Stage) -> None:
    federation = stage.federation

    def counted(sample: str, **labels: str) -> float:
        return value(federation, WEBHOOKS, f"federation_quota_{sample}", hook="validate/resourcebindings", **labels)

    stage.apply(quota("q", {"pods": "5", "cpu": "2", "memory": "4Gi"}))
    stage.quota_active("q")
    before = {
        "allowed": counted("admissions_total", result="allowed"),
        "denied": counted("admissions_total", result="refused", reason="QuotaExceeded"),
        "once": counted("denied_total"),
        "seconds": counted("admission_seconds_count"),
        "batches": value(federation, WEBHOOKS, "federation_quota_batch_size_count"),
    }
    stage.apply(binding("fits", stage.namespace, 3))
    for _ in range(3):  # the same again and again
        with pytest.raises(KubectlError, match="exceeded quota: q"):
            stage.apply(binding("too-large", stage.namespace, 4))
    assert counted("admissions_total", result="allowed") > before["allowed"]
    assert counted("admissions_total", result="refused", reason="QuotaExceeded") == before["denied"] + 3
    assert 1 <= counted("denied_total") - before["once"] <= 2  # once by each replica that was asked
    assert counted("admission_seconds_count") >= before["seconds"] + 4
    assert value(federation, WEBHOOKS, "federation_quota_batch_size_count") > before["batches"]
    eventually(lambda: stage.used("q").get("pods") == "3")

    def shown(which: str) -> dict[str, float]:
        labels = {"namespace": stage.namespace, "quota": "q"}
        return {
            name: value(federation, CONTROLLERS, f"federation_quota_{which}", resource=name, **labels)
            for name in ("pods", "cpu", "memory")
        }

    def says(field: str) -> dict[str, float]:
        return {name: parse(text).nano / 10**9 for name, text in stage.status("q")[field].items()}

    eventually(lambda: shown("used") == says("used"))
    assert shown("hard") == says("hard") == {"pods": 5, "cpu": 2, "memory": 4 * 2**30}
    assert value(federation, CONTROLLERS, "federation_quota_leader") == 1
    assert value(federation, CONTROLLERS, "federation_quota_increases_without_reservation_total") == 0
    stage.delete("karmadaquota", "q")
    eventually(lambda: f'namespace="{stage.namespace}"' not in "".join(text(federation, one) for one in CONTROLLERS))


def text(federation: Federation, name: str) -> str:
    return read(federation, name, "/metrics")[1]


def test_every_replica_tells_what_is_defined_and_is_healthy(federation: Federation) -> None:
    for name in WEBHOOKS + CONTROLLERS:
        process = metrics.WEBHOOK if name in WEBHOOKS else metrics.CONTROLLERS
        mine = [one for one in metrics.definitions() if one.served_by in (process, metrics.BOTH)]
        wanted = {one.name.removesuffix("_total") for one in mine}
        found = {family.name for family in families(federation, name) if family.name.startswith(metrics.PREFIX)}
        assert found == wanted
        assert read(federation, name, "/livez") == (200, "ok")
        assert read(federation, name, "/readyz") == (200, "ok")
    for name in WEBHOOKS:
        assert value(federation, [name], "federation_quota_certificate_expiry_timestamp_seconds") > 1.7e9
