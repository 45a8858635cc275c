"""The README's first command, done as a reader would do it."""

import subprocess
import sys
from pathlib import Path

import pytest

from localfed.federation import Federation

pytestmark = pytest.mark.federation

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_tells_its_story_and_leaves_the_federation_up(tmp_path: Path) -> None:
    federation = Federation(tmp_path / "demo")
    command = [sys.executable, str(ROOT / "hack" / "demo.py"), "--dir", str(federation.directory.path)]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert told.returncode == 0, told.stdout + told.stderr
        for line in (
            '[{"name":"m1","replicas":2},{"name":"m2","replicas":2}]',
            "$ kubectl --context m1 -n shop get deployments,pods",
            "$ kubectl --context m2 -n shop get deployments,pods",
            f"hack/federation down --dir {federation.directory.path}",
        ):
            assert line in told.stdout
        assert {status.state for status in federation.status()} == {"ready"}
        again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert again.returncode == 0, "the reader may run it twice"
    finally:
        federation.down()
