"""Ready programs from FEDERATION_BIN_DIR: taken when they fit, refused with a reason when not."""

from pathlib import Path

import pytest

from localfed import programs
from localfed.errors import FederationError
from localfed.guard import Guard


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDERATION_BIN_DIR", str(tmp_path))
    return tmp_path


def put(folder: Path, says: str) -> None:
    for name in programs.KUBERNETES.programs:
        (folder / name).write_text(f"#!/bin/sh\necho {says}\n")
        (folder / name).chmod(0o755)


def test_a_folder_that_lacks_programs_is_refused_by_their_names(folder: Path, guard: Guard) -> None:
    put(folder, "Kubernetes v1.36.4")
    (folder / "kubectl").unlink()
    with pytest.raises(FederationError, match=r"lacks kubectl: .*`hack/federation build --into"):
        programs.provide(programs.KUBERNETES, guard)


def test_another_minor_version_is_refused_with_what_it_says_it_is(folder: Path, guard: Guard) -> None:
    put(folder, "Kubernetes v1.35.9")
    with pytest.raises(
        FederationError, match=r"kube-apiserver is not of kubernetes 1\.36, it says: Kubernetes v1\.35\.9"
    ):
        programs.provide(programs.KUBERNETES, guard)


def test_a_program_that_cannot_run_is_refused_with_the_reason(folder: Path, guard: Guard) -> None:
    put(folder, "Kubernetes v1.36.4")
    (folder / "kube-apiserver").write_bytes(b"\x7fELF no")
    with pytest.raises(
        FederationError, match=r"kube-apiserver is not of kubernetes 1\.36, it says: .*Exec format error"
    ):
        programs.provide(programs.KUBERNETES, guard)


def test_another_patch_of_the_same_minor_is_taken(folder: Path, guard: Guard) -> None:
    put(folder, "Kubernetes v1.36.9")
    assert programs.provide(programs.KUBERNETES, guard) == folder


def test_the_pinned_versions_are_the_ones_the_design_names() -> None:
    assert programs.KUBERNETES.version.startswith("v1.36.")
    assert programs.KARMADA.version.startswith("v1.18.")
