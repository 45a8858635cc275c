"""Where the vectors are and how they are loaded; not what they mean, which each test module knows for its file.

They come from `tests/vectors`, or from the folder that FEDQUOTA_VECTORS names: the same file names and shapes, other
cases. The project's own folder must be complete. Another one may hold some files only, and what it lacks is skipped
aloud; but it must exist, and whatever it holds must be readable and not empty.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

Case = dict[str, Any]

OWN_FOLDER = Path(__file__).resolve().parent.parent / "vectors"
FOLDER_VARIABLE = "FEDQUOTA_VECTORS"


class VectorsError(Exception):
    """The vectors cannot be had, so nothing can be said about conformance: a failure, never a pass."""


def load_cases(name: str) -> list[Case]:
    """All cases of a file that is one list of objects."""
    path = _locate(name)
    try:
        cases = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise VectorsError(f"{path} is not readable as JSON: {error}") from error
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise VectorsError(f"{path} must be one list of objects")
    if not cases:
        raise VectorsError(f"{path} holds no case at all")
    return cases


def load_sections(name: str) -> dict[str, list[Case]]:
    """The cases of a file that is one object of sections, each a list of objects, or a single one."""
    path = _locate(name)
    try:
        sections = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise VectorsError(f"{path} is not readable as JSON: {error}") from error
    if not isinstance(sections, dict):
        raise VectorsError(f"{path} must be one object of sections")
    found = {section: cases if isinstance(cases, list) else [cases] for section, cases in sections.items()}
    if not all(isinstance(case, dict) for cases in found.values() for case in cases):
        raise VectorsError(f"{path} must have lists of objects as its sections")
    if not any(found.values()):
        raise VectorsError(f"{path} holds no case at all")
    return found


def sectioned(sections: dict[str, list[Case]]) -> list[Any]:
    """Every case with the name of its section, as parameters of a test."""
    return [
        pytest.param(section, case, id=f"{section}-{index}-{case.get('name', '')}"[:80])
        for section, cases in sections.items()
        for index, case in enumerate(cases)
    ]


def case_ids(cases: Sequence[Case], *label_keys: str) -> list[str]:
    """One name per case: its place in the file, and what it says under the given keys."""
    return [
        f"{index}-" + " ".join(str(case[key]) for key in label_keys if key in case)[:60]
        for index, case in enumerate(cases)
    ]


def _locate(name: str) -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    folder = Path(named) if named else OWN_FOLDER
    path = folder / f"{name}.json"
    if path.is_file():
        return path
    if named and folder.is_dir():
        pytest.skip(f"{FOLDER_VARIABLE} names {folder}, which has no {path.name}", allow_module_level=True)
    raise VectorsError(f"there is no {path}" + (f" ({FOLDER_VARIABLE} names this folder)" if named else ""))
