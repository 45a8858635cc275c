"""The project's virtual environment: `.venv` beside this folder, from the hashed files under `requirements/`.

Standard library only, because this runs before anything is installed. `make` calls it as a script; `hack/federation`
calls `enter`, so that it can be started from a bare checkout. Nothing is ever installed outside `.venv`.
"""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements" / "dev.txt"
OLDEST_PYTHON = (3, 11)


def ensure() -> None:
    """Make `.venv` hold exactly what the requirement files say; a no-op when it already does."""
    if sys.version_info < OLDEST_PYTHON:
        _fail(f"Python {sys.version.split()[0]} is too old: 3.11 or newer is needed. Try: make PYTHON=python3.12 …")
    if _is_current("requirements") and _is_current("project"):
        return
    with _locked(ROOT / ".venv.lock"):
        if not _is_current("requirements"):  # nobody made it while we waited
            print(f"environment: installing {REQUIREMENTS.relative_to(ROOT)} into .venv", file=sys.stderr, flush=True)
            try:
                venv.create(VENV, with_pip=True, clear=True, symlinks=True)
            except (subprocess.CalledProcessError, OSError) as error:
                _fail(f"could not create {VENV}: {error}. On Debian and Ubuntu, python3-venv may be missing.")
            _pip("install", "--require-hashes", "-r", str(REQUIREMENTS))
            _remember("requirements")
        if not _is_current("project"):
            # Editable and without its dependencies: those are the hashed ones just installed.
            _pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
            _remember("project")


def enter() -> None:
    """Run the calling script under `.venv`'s Python: returns only when it already does."""
    if Path(sys.prefix) == VENV:
        return
    ensure()
    os.execv(PYTHON, [str(PYTHON), *sys.argv])  # noqa: S606 - our own interpreter and arguments, no shell


def _is_current(part: str) -> bool:
    stamp = VENV / f".{part}"
    return PYTHON.exists() and stamp.exists() and stamp.read_text() == _fingerprint(part)


def _remember(part: str) -> None:
    (VENV / f".{part}").write_text(_fingerprint(part))


def _fingerprint(part: str) -> str:
    """What that part of the environment is made from: the Python, the source, and the checkout's own place."""
    source = {"requirements": REQUIREMENTS, "project": ROOT / "pyproject.toml"}[part]
    digest = hashlib.sha256(source.read_bytes() + str(ROOT).encode())
    return f"{sys.version_info[0]}.{sys.version_info[1]} {digest.hexdigest()}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _pip(*arguments: str) -> None:
    """Run pip: a word now and then while it goes well, its own words where it does not."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for line in pip.stdout or ():
            lines.append(line)
            collected = sum(one.startswith("Collecting") for one in lines)
            if line.startswith("Collecting") and collected % 20 == 0:
                print(f"environment: {collected} packages fetched", file=sys.stderr, flush=True)
    if pip.returncode:
        print("".join(lines[-30:]), file=sys.stderr)
        _fail(f"pip ended with {pip.returncode} (its own words stand above): run this again once that is mended.")


def _fail(message: str) -> NoReturn:
    print(f"environment: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    ensure()
