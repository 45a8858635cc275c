"""What whoever watches over the product sees: metrics, health, logs and state of the running replicas."""

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from federation_quota import metrics
from federation_quota.quantity import parse
from localfed.api import RefusedError
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.ports import LOOPBACK
from localfed.quota import controllers_name, webhook_name
from tests import logged
from tests.federation.manifests import quota
from tests.federation.stage import Stage, eventually
from tests.federation.test_concurrency import binding
from tests.federation.tokens import issue

pytestmark = pytest.mark.federation

ROOT = Path(__file__).resolve().parents[2]
WEBHOOKS = [webhook_name(1), webhook_name(2)]
CONTROLLERS = [controllers_name(1), controllers_name(2)]


def read(federation: Federation, name: str, path: str) -> tuple[int, str]:
    root = federation.spec(name).health.removesuffix("/readyz")
    try:
        with urllib.request.urlopen(root + path, timeout=60) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()


def families(federation: Federation, name: str) -> list[Metric]:
    status, text = read(federation, name, "/metrics")
    assert status == 200
    return list(text_string_to_metric_families(text))


class Scrape:
    """What some replicas told at one time."""

    def __init__(self, federation: Federation, names: list[str]) -> None:
        found = [family for name in names for family in families(federation, name)]
        self._samples = [one for family in found for one in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        """Over those replicas, of a sample with at least these labels."""
        return sum(one.value for one in self._of(name) if labels.items() <= one.labels.items())

    def amounts(self, name: str, namespace: str) -> dict[str, float]:
        """What is told of the quotas of a namespace, by resource."""
        return {one.labels["resource"]: one.value for one in self._of(name) if one.labels["namespace"] == namespace}

    def _of(self, name: str) -> Iterator[Sample]:
        return (one for one in self._samples if one.name == f"federation_quota_{name}")


@pytest.mark.alone
def test_metrics_tell_what_was_decided_and_what_statuses_say(stage: Stage) -> None:
    def scrape(names: list[str]) -> Scrape:
        return Scrape(stage.federation, names)

    stage.apply(quota("q", {"pods": "5", "cpu": "2", "memory": "4Gi"}))
    stage.quota_active("q")
    before = scrape(WEBHOOKS)
    stage.apply(binding("fits", stage.namespace, 3))
    for _ in range(3):  # the same again and again
        with pytest.raises(RefusedError, match="exceeded quota: q"):
            stage.apply(binding("too-large", stage.namespace, 4))
    after = scrape(WEBHOOKS)

    def counted(sample: str, **labels: str) -> float:
        labels["hook"] = "validate/resourcebindings"
        return after.sum(sample, **labels) - before.sum(sample, **labels)

    assert counted("admissions_total", result="allowed") >= 1
    assert counted("admissions_total", result="refused", reason="QuotaExceeded") == 3
    assert 1 <= counted("denied_total") <= 2  # once by each replica that was asked
    assert counted("admission_seconds_count") >= 4
    assert after.sum("batch_size_sum") > before.sum("batch_size_sum")
    eventually(lambda: stage.used("q").get("pods") == "3")
    status = stage.status("q")

    def says(field: str) -> dict[str, float]:
        return {name: parse(text).nano / 10**9 for name, text in status[field].items()}

    eventually(lambda: scrape(CONTROLLERS).amounts("used", stage.namespace) == says("used"))
    found = scrape(CONTROLLERS)
    assert found.amounts("hard", stage.namespace) == says("hard") == {"pods": 5, "cpu": 2, "memory": 4 * 2**30}
    assert found.sum("leader") == 1
    assert found.sum("increases_without_reservation_total") == 0
    stage.delete("karmadaquota", "q")
    eventually(lambda: scrape(CONTROLLERS).amounts("hard", stage.namespace) == {})


def test_every_replica_tells_what_is_its_own_and_is_healthy(federation: Federation) -> None:
    for name in WEBHOOKS + CONTROLLERS:
        process = metrics.WEBHOOK if name in WEBHOOKS else metrics.CONTROLLERS
        mine = [one for one in metrics.definitions() if one.served_by in (process, metrics.BOTH) and not one.is_guarded]
        found = {family.name for family in families(federation, name) if family.name.startswith(metrics.PREFIX)}
        assert found == {one.name.removesuffix("_total") for one in mine}, "and nothing that names people"
        assert read(federation, name, "/livez") == (200, "ok")
        assert read(federation, name, "/readyz") == (200, "ok")
    assert Scrape(federation, [WEBHOOKS[0]]).sum("certificate_expiry_timestamp_seconds", listener="admission") > 1.7e9


@pytest.mark.parametrize("like", [WEBHOOKS[0], CONTROLLERS[0]])
def test_with_tokens_who_may_reads_and_the_state_is_told(like: str, stage: Stage, guard: Guard, tmp_path: Path) -> None:
    """Another replica, that asks for tokens: a real ServiceAccount's, over TLS of the system's own authority."""
    tokens = issue(stage.federation, stage.namespace)
    authority = stage.federation.kubectl.json(
        "get", "secret", "federation-quota-authority", "-n", "federation-quota-system"
    )
    trusted = ssl.create_default_context(cadata=base64.b64decode(authority["data"]["signing.crt"]).decode())
    stage.apply(quota("q", {"pods": "5"}))
    stage.quota_active("q")
    with replica(stage.federation, guard, like, tmp_path / "log") as (root, pid, log):

        def ask(path: str, token: str = "") -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            request = urllib.request.Request(root + path, headers=headers)  # noqa: S310 - loopback
            return answer(request, trusted)

        eventually(lambda: is_answered(lambda: ask("/readyz") == (200, "ok")), what="it is ready")
        assert ask("/metrics")[0] == 401
        assert ask("/metrics", "made-up")[0] == 401
        status, said = ask("/metrics", tokens.stranger)
        assert (status, "may not get /metrics" in said) == (403, True)
        status, said = ask("/metrics", tokens.reader)
        assert status == 200
        assert "federation_quota_certificate_expiry_timestamp_seconds{listener=" in said
        assert 'federation_quota_authorizations_total{result="unauthenticated"} 2.0' in said
        assert ("# TYPE federation_quota_usage_used gauge" in said) == (like in CONTROLLERS), "what names people"
        with pytest.raises(ConnectionError):  # without TLS there is nothing
            urllib.request.urlopen(f"http{root.removeprefix('https')}/metrics", timeout=60)  # noqa: S310 - loopback

        os.kill(pid, signal.SIGUSR2)
        eventually(lambda: states(log), what="its state")
        [state] = states(log)
        [account] = [one for one in state["accounts"] if one["namespace"] == stage.namespace]
        assert (account["name"], account["active"], account["why_not"], account["reservations"]) == ("q", True, "", [])
        assert state["view"]["version"] > 0
        assert {one["resource"] for one in state["reflectors"]} >= {"resourcebindings", "karmadaquotas"}
        assert state["not_ready"] == {}
        assert any("Reflector.run" in one["runs"] for one in state["tasks"])
        text = log.read_text()
        for secret in (tokens.reader, tokens.stranger, "made-up", "PRIVATE KEY", authority["data"]["signing.key"]):
            assert secret not in text
        # A second one in the same place says so, in one line, and ends.
        ended = subprocess.run(
            arguments(stage.federation, like, root.rpartition(":")[2]),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ended.returncode == 1
        [line] = [json.loads(one) for one in ended.stderr.splitlines() if json.loads(one)["level"] == "error"]
        assert "cannot listen on 127.0.0.1" in line["problem"]
        assert "--metrics-listen" in line["problem"]


def test_a_denial_stands_in_the_log_with_its_review(stage: Stage) -> None:
    stage.apply(quota("q", {"pods": "1"}))
    stage.quota_active("q")
    for _ in range(2):
        with pytest.raises(RefusedError, match="exceeded quota: q"):
            stage.apply(binding("too-large", stage.namespace, 2))
    lines = [
        line
        for name in WEBHOOKS
        for line in logged.events(stage.federation.log(name))
        if line["event"] == "review.denied" and line["namespace"] == stage.namespace
    ]
    assert 1 <= len(lines) <= 2  # one of each replica that was asked
    for line in lines:
        assert len(line["review"]) == 36
        assert (line["quota"], line["binding"], line["requested"]) == ("q", "too-large", "pods=2")
        assert (line["used"], line["limited"], line["level"]) == ("pods=0", "pods=1", "info")


def arguments(federation: Federation, like: str, port: str) -> list[str]:
    flags = [
        "--metrics-authorization=token",
        f"--metrics-server-names={LOOPBACK}",
        f"--metrics-listen={LOOPBACK}:{port}",
    ]
    return [*federation.spec(like).argv, "--log-format=json", *flags]


@contextmanager
def replica(federation: Federation, guard: Guard, like: str, log: Path) -> Iterator[tuple[str, int, Path]]:
    """One more replica beside those that run: where its metrics are, its pid and its log. It leaves in good order."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = str(probe.getsockname()[1])
    with log.open("wb") as output:
        process = guard.start(arguments(federation, like, port), environment=os.environ, output=output, directory=ROOT)
    try:
        yield f"https://{LOOPBACK}:{port}", process.pid, log
    finally:
        process.terminate()
        assert process.wait(timeout=120) == 0


def states(log: Path) -> list[dict[str, Any]]:
    return [one for one in logged.events(log) if one["event"] == "process.state"]


def is_answered(ask: Callable[[], bool]) -> bool:
    try:
        return ask()
    except OSError:
        return False


def answer(request: urllib.request.Request, context: ssl.SSLContext) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as found:  # noqa: S310 - loopback
            return found.status, found.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
