"""helm, and an API server that knows the kinds which the chart can make objects of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localfed import programs
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard
from tests.chart.helm import Helm

NAMESPACE = "federation-quota-system"


@pytest.fixture(scope="session")
def helm(guard: Guard, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # the first build takes minutes: let it be seen
        program = programs.provide_helm(guard)
    return Helm(program, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def definitions(guard: Guard) -> list[Path]:
    """Of cert-manager's and the Prometheus operator's kinds, as these projects publish them."""
    sets = (programs.CERT_MANAGER, programs.PROMETHEUS_OPERATOR)
    return [programs.provide(one, guard) / name for one in sets for name in one.manifests]


@pytest.fixture(scope="package")
def server(guard: Guard, definitions: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A bare API server, whose namespace takes pods of the `restricted` Pod Security Standard only."""
    bare = Federation(tmp_path_factory.mktemp("chart") / "fed")
    bare.up(Shape(members=0, karmada=False), guard)
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    members = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-cluster"}}
    bare.kubectl.apply(namespace, members)
    for path in definitions:
        bare.kubectl("apply", "--server-side", "-f", str(path))
    bare.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    yield bare
    bare.down()
