"""The project's virtual environment: `.venv` beside this folder, from the hashed files under `requirements/`.

Standard library only, because this runs before anything is installed. `make` calls it as a script; `hack/federation`
calls `enter`, so that it can be started from a bare checkout. Nothing is ever installed outside `.venv`.

pip installs uv, and uv installs the rest: seconds instead of a minute. uv gets the package indexes that pip is
configured with. Where uv cannot be had, or fails, pip installs everything.
"""

import ast
import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements" / "dev.txt"
UV = VENV / "bin" / "uv"
OLDEST_PYTHON = (3, 11)

# pip's option -> the variable that says the same to uv.
UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
}


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
            _install("--require-hashes", "-r", str(REQUIREMENTS))
            _remember("requirements")
        if not _is_current("project"):
            # Editable and without its dependencies: those are the hashed ones just installed.
            _install("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
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


def _install(*arguments: str) -> None:
    """Install with uv, which pip installs first; with pip where that does not work."""
    if not UV.exists():
        _fetch_uv()
    if UV.exists():
        settings = _pip_settings()
        command = [str(UV), "pip", "install", "--quiet", "--python", str(PYTHON), *arguments]
        if settings.get("no-index", "0").lower() in {"1", "true", "yes", "on"}:
            command.append("--no-index")
        environment = uv_environment(settings, os.environ)
        uv = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
        )
        if uv.returncode == 0:
            return
        words = " ".join(uv.stdout.split())[:300]
        print(f"environment: uv could not install ({words}): trying with pip", file=sys.stderr, flush=True)
    _pip("install", *arguments)


def _fetch_uv() -> None:
    """Have pip install uv alone, as the requirement file pins and hashes it."""
    pinned = re.search(r"^uv==(?:.*\\\n)*.*\n", REQUIREMENTS.read_text(), re.MULTILINE)
    if not pinned:
        return
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "uv.txt"
        alone.write_text(pinned[0])
        command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
        command += ["--no-compile", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(alone)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _pip_settings() -> dict[str, str]:
    """What pip's configuration files and the environment say, for `pip install`: option -> value."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "config", "list"]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    found = re.findall(r"^(global|install|:env:)\.([\w-]+)=(.*)$", said, re.MULTILINE)
    ranks = ("global", "install", ":env:")  # the environment overrules the files, and [install] overrules [global]
    return {option: ast.literal_eval(value) for _, option, value in sorted(found, key=lambda one: ranks.index(one[0]))}


def uv_environment(pip: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv: what pip is configured with, and before that what the user set for uv."""
    given = {UV_VARIABLES[option]: " ".join(value.split()) for option, value in pip.items() if option in UV_VARIABLES}
    if "UV_FIND_LINKS" in given:
        given["UV_FIND_LINKS"] = given["UV_FIND_LINKS"].replace(" ", ",")
    return {**given, **environment}


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
