"""The metrics as Prometheus reads them, and their page."""

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from federation_quota import karmadaquota, metrics
from federation_quota.ledger.account import Account
from federation_quota.metrics import Definition

ROOT = Path(__file__).resolve().parents[2]
# What people make at will has no end: a label for each would have none either.
BOUNDED = {
    "cluster",
    "code",
    "hook",
    "listener",
    "namespace",
    "outcome",
    "queue",
    "quota",
    "reason",
    "resource",
    "result",
    "validator",
    "verb",
    "way",
}

# Of these two there are only so many series: see `limits.gauges`.
SOMEBODYS = {"tree", "kind", "name", "node"}


def exposed() -> dict[str, Metric]:
    text = generate_latest(metrics.Everything()).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def account(name: str, hard: dict[str, str], used: dict[str, str]) -> Account:
    metadata = {"namespace": "ns", "name": name, "uid": "u", "resourceVersion": "7"}
    return karmadaquota.read({"metadata": metadata, "spec": {"hard": hard}, "status": {"used": used}})


@pytest.fixture
def amounts() -> Iterator[None]:
    yield
    metrics.quota_amounts.show(())


def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("metrics_page", ROOT / "hack" / "metrics.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_registries_have_what_is_defined_and_nothing_else() -> None:
    found = exposed()
    ours = {name: one for name, one in found.items() if name.startswith(metrics.PREFIX)}
    assert set(ours) == {one.name.removesuffix("_total") for one in metrics.definitions()}
    for one in metrics.definitions():
        family = ours[one.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (one.type, one.help)
    assert "process_resident_memory_bytes" in found


@pytest.mark.parametrize("one", metrics.definitions(), ids=lambda one: one.name)
def test_names_and_texts_follow_the_conventions(one: Definition) -> None:
    assert re.fullmatch(r"federation_quota_[a-z]+(_[a-z]+)*", one.name)
    assert one.name.endswith("_total") == (one.type == "counter")
    if one.type == "histogram":
        assert one.name.endswith(("_seconds", "_size"))  # a base unit
    assert not one.name.endswith(("_count", "_sum", "_bucket", "_milliseconds", "_info"))
    assert one.help.endswith(".")
    is_of_somebody = one.name in ("federation_quota_usage_used", "federation_quota_usage_limit")
    assert set(one.labels) <= BOUNDED | (SOMEBODYS if is_of_somebody else set())
    assert not SOMEBODYS & set(one.labels) or one.is_guarded, "names of people are told for a token alone"
    is_of_a_quota = one.name in ("federation_quota_used", "federation_quota_hard")
    assert ({"namespace", "quota"} <= set(one.labels)) == is_of_a_quota


def test_amounts_are_those_of_the_status_and_go_with_the_quota(amounts: None) -> None:
    both = [
        account("a", {"cpu": "2", "memory": "1Gi"}, {"cpu": "1500m", "memory": "512Mi"}),
        account("b", {"pods": "3"}, {}),
    ]
    metrics.quota_amounts.show(both)
    found = {
        (one.name, one.labels["quota"], one.labels["resource"]): one.value
        for family in exposed().values()
        if family.name in ("federation_quota_used", "federation_quota_hard")
        for one in family.samples
    }
    assert found == {
        ("federation_quota_used", "a", "cpu"): 1.5,
        ("federation_quota_used", "a", "memory"): 512 * 2**20,
        ("federation_quota_hard", "a", "cpu"): 2,
        ("federation_quota_hard", "a", "memory"): 2**30,
        ("federation_quota_hard", "b", "pods"): 3,
    }
    metrics.quota_amounts.show(both[1:])
    assert 'quota="a"' not in generate_latest(metrics.REGISTRY).decode()


def test_a_process_tells_only_what_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: CollectorRegistry() for name in ("REGISTRY", "PEOPLE")}
    for collector, is_guarded in {(made, one.is_guarded) for one, made in metrics._COLLECTORS.items()}:
        kept["PEOPLE" if is_guarded else "REGISTRY"].register(collector)
    for name, registry in kept.items():
        monkeypatch.setattr(metrics, name, registry)
    metrics.keep(metrics.WEBHOOK)
    found = exposed()
    assert "federation_quota_admissions" in found
    assert "federation_quota_view_lag_seconds" in found
    assert "federation_quota_leader" not in found
    assert "federation_quota_hard" not in found
    assert "federation_quota_usage_used" not in found


def test_the_page_is_made_from_the_definitions(capsys: pytest.CaptureFixture[str]) -> None:
    made = page()
    assert made.main(["--check"]) == 0
    changed = [replace(one, help="Something else.") for one in metrics.definitions()]
    assert made.render(changed) != made.PAGE.read_text()
    assert made.main(["--what"]) == 2
    assert "usage" in capsys.readouterr().err
