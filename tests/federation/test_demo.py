"""The README's first command, done as a reader would do it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localfed.federation import Federation

pytestmark = [pytest.mark.federation, pytest.mark.own, pytest.mark.late]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    """The demo's own, ended with the test."""
    found = Federation(tmp_path / "demo")
    yield found
    found.down()


def told(federation: Federation) -> str:
    """What the demo prints from its first word to its last."""
    command = [sys.executable, str(ROOT / "hack" / "demo.py"), "--dir", str(federation.directory.path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def test_the_demo_tells_its_story_and_leaves_the_federation_up(federation: Federation) -> None:
    story = told(federation)
    for line in (
        "cpu: 0/10",
        "cpu: 6/10",
        "exceeded quota: shop, requested: cpu=6, used: cpu=6, limited: cpu=10",
        "resourcebinding.work.karmada.io/reports-deployment condition met",
        "cpu: 80/80",
        "cpu: 100/100",
        f"hack/federation down --dir {federation.directory.path}",
    ):
        assert line in story, story
    assert {status.state for status in federation.status()} == {"ready"}


@pytest.mark.soak
def test_the_reader_may_run_it_twice(federation: Federation) -> None:
    told(federation)
    told(federation)
