"""The README's first command, done as a reader would do it."""

import subprocess
import sys
from pathlib import Path

import pytest

from localfed.federation import Federation

pytestmark = [pytest.mark.federation, pytest.mark.own]

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_tells_its_story_and_leaves_the_federation_up(tmp_path: Path) -> None:
    federation = Federation(tmp_path / "demo")
    command = [sys.executable, str(ROOT / "hack" / "demo.py"), "--dir", str(federation.directory.path)]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert told.returncode == 0, told.stdout + told.stderr
        for line in (
            "cpu: 0/10",
            "cpu: 6/10",
            "exceeded quota: shop, requested: cpu=6, used: cpu=6, limited: cpu=10",
            "resourcebinding.work.karmada.io/reports-deployment condition met",
            "cpu: 80/80",
            "cpu: 100/100",
            f"hack/federation down --dir {federation.directory.path}",
        ):
            assert line in told.stdout, told.stdout
        assert {status.state for status in federation.status()} == {"ready"}
        again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert again.returncode == 0, "the reader may run it twice"
    finally:
        federation.down()
