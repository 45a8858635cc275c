"""The federation as pytest fixtures: one for the whole run, a fresh namespace for each test.

The run holds the federation's guard, so a test run that is killed leaves nothing behind either.
"""

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from localfed.console import say
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard

# With failover: a member that is tainted NoExecute loses its workloads to the others.
FAILOVER = ["--feature-gates=Failover=true", "--enable-no-execute-taint-eviction=true"]
# Who has no owner's rights, and who gives them.
OWNERS = ["--ownerless-groups=robots", "--owner-administrators=steward"]
FLAGS = {"karmada-controller-manager": FAILOVER, "quota-webhook-1": OWNERS, "quota-webhook-2": OWNERS}
SHARED = "FEDQUOTA_FEDERATION"
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


@pytest.fixture
def namespace(federation: Federation) -> Iterator[str]:
    """A namespace on the federation that no other test has seen; Karmada makes it in the members."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    federation.kubectl("create", "namespace", name)
    yield name
    # Not waited for: nothing of it matters to the next test.
    federation.kubectl("delete", "namespace", name, "--wait=false")
