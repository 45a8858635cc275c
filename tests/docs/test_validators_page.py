"""`docs/validators.md`, done as it says: the example installed with pip beside the product, and its sessions typed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localfed import packages
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.quota import webhook_name
from tests.docs import pages
from tests.docs.pages import ROOT
from tests.docs.test_sessions import OWN, Reader

PAGE = ROOT / "docs" / "validators.md"
EXAMPLE = ROOT / "examples" / "budget"


@pytest.fixture(scope="module")
def pip_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip makes of the example, in a folder of its own: this environment stays as it is."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    flags = ["--no-build-isolation", "--no-deps", f"--target={folder}"]
    subprocess.run([*pip, *flags, str(EXAMPLE)], check=True, capture_output=True, text=True, timeout=120)
    return folder


def test_the_example_has_tests_of_its_own(pip_made: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={EXAMPLE}", str(EXAMPLE)]
    environment = {"PYTHONPATH": str(pip_made), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [*command, "-c", str(EXAMPLE / "pyproject.toml")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture
def federation_with_budgets(guard: Guard, pip_made: Path, tmp_path: Path) -> Iterator[Federation]:
    replicas = [webhook_name(number) for number in (1, 2)]
    shape = Shape(
        members=1,
        quota=2,
        flags={name: ["--validators=budget"] for name in replicas},
        runners={name: [packages.__file__, str(pip_made)] for name in replicas},
    )
    federation = Federation(tmp_path / "fed")
    federation.up(shape, guard)
    yield federation
    federation.down()


@pytest.mark.federation
@pytest.mark.own
@pytest.mark.late
def test_the_page_goes_as_it_is_shown(federation_with_budgets: Federation, tmp_path: Path) -> None:
    assert str(PAGE.relative_to(ROOT)) in OWN
    reader = Reader(federation_with_budgets, "shop", tmp_path / "reader")
    for command in pages.sessions(PAGE):
        reader.type(command)
