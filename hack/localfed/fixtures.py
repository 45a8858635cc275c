"""The federation as pytest fixtures: one for the whole run, a fresh namespace for each test.

The run holds the federation's guard, so a test run that is killed leaves nothing behind either.
"""

import os
import shutil
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from localfed import evidence
from localfed.console import say
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard

# With failover: a member that is tainted NoExecute loses its workloads to the others.
FAILOVER = ["--feature-gates=Failover=true", "--enable-no-execute-taint-eviction=true"]
# Who has no owner's rights, and who gives them.
OWNERS = ["--ownerless-groups=robots", "--owner-administrators=steward"]
# An API server that gives up sooner, so that what it may still store is known sooner: nobody waits a minute for it.
SOON = ["--expiry-seconds=30"]
# Clusters on paper stay ready though nobody renews their leases.
PATIENT = ["--cluster-monitor-grace-period=24h"]
FLAGS = {
    "federation-apiserver": ["--request-timeout=26s"],
    "karmada-controller-manager": [*FAILOVER, *PATIENT],
    "quota-webhook-1": [*OWNERS, *SOON],
    "quota-webhook-2": [*OWNERS, *SOON],
    "quota-controllers-1": SOON,
    "quota-controllers-2": SOON,
}
SHARED = "FEDQUOTA_FEDERATION"
# What keeps Karmada or the product at work: policies first, so that nothing is bound anew.
SKIPPED = "namespace.karmada.io/skip-auto-propagation"
LEFT_BEHIND = (
    *("propagationpolicies", "overridepolicies", "deployments", "statefulsets", "daemonsets", "replicasets"),
    *("replicationcontrollers", "cronjobs", "jobs", "pods", "services", "configmaps", "secrets", "resourcebindings"),
    *("works", "karmadaquotas"),  # an elastic quota stays as long as it has workloads, and idle ones cost nothing
)
MARKS: pytest.StashKey[dict[Path, int]] = pytest.StashKey()
SHAPE = Shape(members=2, nodes=2, quota=2, flags=FLAGS)


@pytest.fixture(scope="session")
def guard() -> Iterator[Guard]:
    """The owner of every process that the run starts."""
    with Guard() as guard:
        yield guard


@pytest.fixture(scope="session")
def federation(
    guard: Guard, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """A real federation with two members that run pods and the product itself, for the whole run.

    FEDQUOTA_FEDERATION names the folder of one that is up already, for several workers to share.
    """
    if shared := os.environ.get(SHARED):
        yield Federation(Path(shared))
        return
    if hasattr(request.config, "workerinput"):
        pytest.fail(f"workers share a federation that is up: use `make test`, or set {SHARED} to its folder")
    folder = tmp_path_factory.mktemp("federation")
    federation = Federation(folder / "fed")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a build may take minutes: let it be seen
        federation.up(SHAPE, guard)
    yield federation
    if request.session.testsfailed:
        shutil.copytree(federation.directory.logs, folder / "logs")
        say(f"\nthe federation's logs are kept in {folder / 'logs'}")
    federation.down()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Remember how far the federation's logs are when a test begins."""
    if (shared := os.environ.get(SHARED)) and item.get_closest_marker("federation"):
        item.stash[MARKS] = evidence.marks(Federation(Path(shared)).directory.logs)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what the federation's processes logged about the test."""
    report = yield
    if report.failed and MARKS in item.stash:
        logs = Federation(Path(os.environ[SHARED])).directory.logs
        names = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, str)]
        report.sections += evidence.since(item.stash[MARKS], logs, [name for name in names if name.startswith("test-")])
    return report


@pytest.fixture
def namespace(federation: Federation) -> Iterator[str]:
    """A namespace on the federation that no other test has seen; Karmada makes it in the members."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    federation.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    clear(federation, name)


def clear(federation: Federation, namespace: str) -> None:
    """Leave nothing in a namespace that keeps a controller busy.

    The namespace itself stays, for ending one costs the API servers hundreds of requests. Karmada makes it in no
    cluster that joins from now on.
    """
    federation.api.patch("namespace", namespace, change={"metadata": {"labels": {SKIPPED: "true"}}})
    for kind in filter(federation.api.serves, LEFT_BEHIND):
        federation.api.delete_all(kind, namespace)
