"""The harness can fail: on a wrong number, on a shape it does not know, and on vectors that are not there.

Run as anyone would run it, on a folder of its own, because a harness that swallows a case looks like one that passes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.vectors import FOLDER_VARIABLE, OWN_FOLDER, Case, VectorsError, load_cases

ROOT = Path(__file__).resolve().parent.parent.parent

READ: Case = {"in": "1500m", "out": "1500m", "format": "DecimalSI", "nano": "1500000000"}
LOST: Case = {"in": "7000E", "out": "7", "nano": str(7 * 10**30)}
RIGHT: list[Case] = [
    READ,
    LOST,
    {**READ, "source": "here", "a remark nobody expects": 1},
    {"in": "1.500", "out": "1.500", "canonical": "1500m"},
    {"in": "1e2147483640", "out": "1e2147483640", "nano": None},
    {"in": "1Y", "error": True, "message": "in the peer's words"},
    {"json": "0.10", "out": "100m"},
    {"json": "null", "out": "0"},
    {"json": '" +1 "', "out": "+1"},
    {"op": "sub", "a": "1Gi", "b": "1", "out": "1073741823", "out_format": "BinarySI"},
    {"op": "add", "a": "999E", "b": "1E", "out": "1", "out_format": "DecimalSI"},
]
WRONG: dict[str, Case] = {
    "another amount": {**READ, "nano": "1500000001"},
    "another text": {**READ, "out": "1.5"},
    "another format": {**READ, "format": "BinarySI"},
    "another canonical text": {"in": "1.500", "out": "1.500", "canonical": "1501m"},
    "other digits of a lost magnitude": {**LOST, "out": "8"},
    "a refusal of what is right": {"in": "1500m", "error": True},
    "a reading of what is wrong": {"in": "1K", "out": "1k"},
    "another JSON number": {"json": "0.1", "out": "101m"},
    "another sum": {"op": "add", "a": "1", "b": "1", "out": "3"},
    "another format of a sum": {"op": "add", "a": "1", "b": "1Ki", "out": "1025", "out_format": "BinarySI"},
    "another order": {"op": "cmp", "a": "1", "b": "1", "out": 1},
    "an operation nobody knows": {"op": "pow", "a": "1", "b": "1", "out": "1"},
    "a shape nobody knows": {"text": "1", "out": "1"},
    "two shapes at once": {"in": "1", "json": "1", "out": "1"},
    "no expectation": {"in": "1"},
}


def test_other_cases_of_the_same_shapes_pass(tmp_path: Path) -> None:
    run = run_on(tmp_path, RIGHT)
    assert run.returncode == pytest.ExitCode.OK, run.stdout
    assert f"{len(RIGHT)} passed" in run.stdout


def test_every_wrong_case_fails(tmp_path: Path) -> None:
    run = run_on(tmp_path, [*RIGHT, *WRONG.values()])
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    failed = {line.split("[")[1].split("-")[0] for line in run.stdout.splitlines() if line.startswith("FAILED")}
    assert [what for index, what in enumerate(WRONG, len(RIGHT)) if str(index) not in failed] == []
    assert f"{len(WRONG)} failed, {len(RIGHT)} passed" in run.stdout


def test_no_case_at_all_fails(tmp_path: Path) -> None:
    run = run_on(tmp_path, [])
    assert run.returncode == pytest.ExitCode.INTERRUPTED, run.stdout
    assert "holds no case at all" in run.stdout


@pytest.mark.parametrize(("document", "complaint"), [("[1]", "list of objects"), ("{}", "list"), ("[", "not readable")])
def test_a_file_that_is_no_list_of_cases_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: str, complaint: str
) -> None:
    (tmp_path / "quantity.json").write_text(document, encoding="utf-8")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(VectorsError, match=rf"quantity\.json .*{complaint}"):
        load_cases("quantity")


def test_a_folder_that_does_not_exist_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(VectorsError, match=r"there is no .*nowhere.*FEDQUOTA_VECTORS"):
        load_cases("quantity")


def test_a_file_missing_from_the_projects_own_folder_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with pytest.raises(VectorsError, match=r"there is no .*nothing\.json"):
        load_cases("nothing")


def test_a_file_missing_from_another_folder_is_skipped_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=r"which has no quantity\.json"):
        load_cases("quantity")


def test_without_a_folder_named_the_projects_own_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    own = json.loads((OWN_FOLDER / "quantity.json").read_text(encoding="utf-8"))
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert load_cases("quantity") == own
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    assert load_cases("quantity") == own


def run_on(folder: Path, cases: list[Case]) -> subprocess.CompletedProcess[str]:
    """The conformance tests of quantities, on a folder that holds these cases and nothing else."""
    (folder / "quantity.json").write_text(json.dumps(cases), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance/test_quantity.py"]
    environment = {**os.environ, FOLDER_VARIABLE: str(folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
