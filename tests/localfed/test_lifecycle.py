"""`hack/federation` as people use it: up, status, env, logs, down, and everything that can get in the way.

The smallest federation (no members, no Karmada) has every mechanism that these tests are about; the full one stands
behind the tests in `tests/federation`.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from localfed import marker, ports
from tests.localfed.test_builder import names

pytestmark = [pytest.mark.federation, pytest.mark.own]

PROGRAM = Path(__file__).resolve().parents[2] / "hack" / "federation"
SMALLEST = ("--members", "0", "--no-karmada")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=900)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "fed"
    yield folder
    run("down", "--dir", str(folder))
    assert not processes_of(folder)


def up(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("up", "--dir", str(directory), *(arguments or SMALLEST))


def statuses(directory: Path) -> dict[str, dict[str, Any]]:
    said = run("status", "--dir", str(directory), "-o", "json")
    return {one["name"]: one for one in json.loads(said.stdout)}


def processes_of(directory: Path) -> list[psutil.Process]:
    return marker.find(marker.DIRECTORY, str(directory))


def start_up(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PROGRAM, "up", "--dir", str(directory), *SMALLEST],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(condition: Callable[[], object], what: str, within_seconds: float = 60) -> None:
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {within_seconds} s"
        time.sleep(0.05)


def test_up_status_env_logs_kill_up_again_down(directory: Path) -> None:
    assert up(directory).returncode == 0
    before = statuses(directory)
    assert {one["state"] for one in before.values()} == {"ready"}
    assert run("status", "--dir", str(directory)).returncode == 0

    shell = f'eval "$({PROGRAM} env --dir {directory})" && kubectl get namespaces -o name && kubectl version'
    said = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout
    assert "namespace/default" in said
    assert "Server Version: v1.36." in said

    assert "Serving securely" in run("logs", "federation-apiserver", "--dir", str(directory)).stdout
    wrong = run("logs", "apiserver", "--dir", str(directory))
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    assert "federation-apiserver" in wrong.stderr, "it should name what there is"

    victim = "federation-controller-manager"
    os.kill(before[victim]["pid"], signal.SIGKILL)
    wait_until(lambda: statuses(directory)[victim]["state"] == "dead", "status sees the death")
    said_dead = run("status", "--dir", str(directory))
    assert said_dead.returncode == 1
    assert f"{victim} (dead)" in said_dead.stderr

    subprocess.run(["bash", "-c", shell.replace("kubectl version", "kubectl create ns kept")], check=True)
    assert up(directory).returncode == 0, "up starts again what has died"
    after = statuses(directory)
    assert {one["state"] for one in after.values()} == {"ready"}
    assert after[victim]["pid"] != before[victim]["pid"]
    assert after["etcd"]["pid"] == before["etcd"]["pid"], "and leaves alone what runs"
    kept = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout
    assert "namespace/kept" in kept

    assert run("down", "--dir", str(directory)).returncode == 0
    assert not processes_of(directory)
    assert all(ports.is_free(one["port"]) for one in after.values())
    assert not directory.exists()
    gone = run("status", "--dir", str(directory))
    assert (gone.returncode, gone.stderr) == (
        1,
        f"federation: no federation in {directory}: `hack/federation up` makes one\n",
    )
    assert run("down", "--dir", str(directory)).returncode == 0, "down of nothing is done already"


def test_two_ups_in_one_directory_make_one_federation(directory: Path) -> None:
    both = [start_up(directory) for _ in range(2)]
    said = [one.communicate(timeout=300)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    running = names(processes_of(directory))
    assert sorted(running) == sorted(set(running)), "one of each"
    assert {one["state"] for one in statuses(directory).values()} == {"ready"}
    assert sum("waiting for the federation" in text for text in said) == 1


@pytest.mark.parametrize(("way", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
@pytest.mark.parametrize("moment", ["etcd", "kube-apiserver"])
def test_an_up_cut_short_leaves_nothing_running(directory: Path, way: signal.Signals, code: int, moment: str) -> None:
    process = start_up(directory)
    wait_until(lambda: moment in names(processes_of(directory)), f"{moment} starts")
    process.send_signal(way)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == code
    wait_until(lambda: not processes_of(directory), "everything has ended", within_seconds=120)
    if code == 130:
        assert said.splitlines()[-1] == "federation: interrupted; what was started has been stopped"


def test_an_up_after_one_that_was_killed_starts_from_nothing(directory: Path) -> None:
    process = start_up(directory)
    wait_until(lambda: processes_of(directory), "something starts")
    process.kill()
    process.communicate()
    assert up(directory).returncode == 0
    assert {one["state"] for one in statuses(directory).values()} == {"ready"}


def test_a_folder_with_other_things_in_it_is_left_alone(directory: Path) -> None:
    directory.mkdir()
    (directory / "thesis.txt").write_text("do not touch")
    said = up(directory)
    assert (said.returncode, said.stderr.count("\n")) == (1, 1)
    assert "holds other files (thesis.txt)" in said.stderr
    assert run("down", "--dir", str(directory)).returncode == 0
    assert (directory / "thesis.txt").read_text() == "do not touch"


def test_a_federation_of_another_shape_is_not_changed_under_its_user(directory: Path) -> None:
    assert up(directory).returncode == 0
    said = up(directory, "--members", "1", "--no-karmada")
    assert said.returncode == 1
    assert "another shape (0 members, without Karmada)" in said.stderr
    assert {one["state"] for one in statuses(directory).values()} == {"ready"}


def test_a_program_that_fails_to_start_is_named_with_its_last_words(directory: Path) -> None:
    said = up(directory, *SMALLEST, "--flag", "federation-apiserver=--no-such-flag")
    assert said.returncode == 1
    last = said.stderr.splitlines()[-1]
    assert last.startswith("federation: federation-apiserver ended while starting: ")
    assert "unknown flag: --no-such-flag" in last
    assert not processes_of(directory)
    assert "no-such-flag" in run("logs", "federation-apiserver", "--dir", str(directory)).stdout
    assert up(directory).returncode == 0, "the folder can be used again"


def test_a_directory_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        said = run("up", "--dir", str(place), *SMALLEST)
        assert (said.returncode, said.stderr.count("\n")) == (1, 1), said.stderr


def test_a_state_file_that_cannot_be_read_does_not_keep_down_from_tidying(directory: Path) -> None:
    assert up(directory).returncode == 0
    (directory / "federation.json").write_text("{")
    said = run("status", "--dir", str(directory))
    assert said.returncode == 1
    assert "cannot be read" in said.stderr
    assert run("down", "--dir", str(directory)).returncode == 0
    assert not processes_of(directory)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("up", "--members", "-1"), "--members"),
        (("up", "--node-capacity", "cpu"), "--node-capacity"),
        (("up", "--flag", "x"), "--flag"),
        (("sideways",), "No such command"),
    ],
)
def test_words_that_make_no_sense_are_refused(arguments: tuple[str, ...], word: str) -> None:
    said = run(*arguments)
    assert said.returncode == 2
    assert word in said.stderr


def test_help_names_every_command() -> None:
    said = run("--help").stdout
    for command in ("up", "down", "status", "env", "logs", "build"):
        assert f"  {command} " in said
