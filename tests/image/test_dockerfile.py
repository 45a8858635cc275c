"""The Dockerfile, followed step by step: what it installs is what runs. No container engine is needed, or there."""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from localfed import cache, lock
from tests.image.dockerfile import Instruction, Sandbox, parse

pytestmark = [pytest.mark.federation, pytest.mark.own]

ROOT = Path(__file__).resolve().parents[2]
STAGES = parse((ROOT / "Dockerfile").read_text())
ENVIRONMENT = "/opt/federation-quota"


@pytest.fixture(scope="module")
def wheels() -> Path:
    """The pinned packages, fetched once into the user's cache; hashes are looked at again when they are installed."""
    files = [ROOT / "requirements" / name for name in ("runtime.txt", "build.txt")]
    digest = hashlib.sha256(sys.version.encode() + b"".join(path.read_bytes() for path in files)).hexdigest()
    folder = cache.directory() / f"wheels-{digest[:12]}"
    with lock.hold(folder.with_suffix(".lock"), "fetching wheels"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="wheels-", suffix=".part") as part:
                for path in files:
                    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
                    subprocess.run([*command, "--dest", f"{part}/all", "-r", path], check=True, timeout=600)
                Path(part, "all").rename(folder)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Sandbox:
    """The first stage, followed."""
    sandbox = Sandbox(tmp_path_factory.mktemp("image"), ROOT, wheels)
    sandbox.follow(STAGES[0])
    return sandbox


@pytest.mark.parametrize("program", ["federation-quota-webhook", "federation-quota-controllers"])
def test_both_programs_run_from_what_was_installed(built: Sandbox, program: str, tmp_path: Path) -> None:
    path = built.at(f"{ENVIRONMENT}/bin/{program}")
    # From elsewhere and without the checkout in sight: nothing but the environment can be found.
    said = subprocess.run([path, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True, env={})
    assert f"usage: {program}" in said.stdout


def test_the_environment_holds_the_pinned_packages_the_product_and_nothing_else(built: Sandbox) -> None:
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)
    python = built.at(f"{ENVIRONMENT}/bin/python")
    script = "import importlib.metadata as m, json; print(json.dumps([[d.name, d.version] for d in m.distributions()]))"
    said = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    found = {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in json.loads(said.stdout)}
    product = {one for one in found if one[0] == "federation-quota"}
    assert len(product) == 1
    assert found - product <= set(pinned), "no pip, no build tools"
    folders = built.at(f"{ENVIRONMENT}/lib").glob("python*/site-packages/*")
    assert not {"tests", "hack"} & {path.name for path in folders}


def test_the_last_stage_takes_the_environment_alone_and_is_not_root() -> None:
    last = STAGES[-1]
    assert [rest for word, rest in last if word == "COPY"] == [f"--from=build {ENVIRONMENT} {ENVIRONMENT}"]
    assert Instruction("USER", "65532:65532") in last
    assert not [one for one in last if one.word in ("RUN", "ADD")]


def test_images_are_named_without_a_registry() -> None:
    for stage in STAGES:
        assert re.fullmatch(r"python:[\w.-]+( AS \w+)?", stage[0].rest), stage[0].rest


def test_nothing_is_copied_that_the_build_context_leaves_out() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    copied = {source.rstrip("/") for word, rest in STAGES[0] if word == "COPY" for source in rest.split()[:-1]}
    assert copied == kept
