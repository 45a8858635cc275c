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


def put_helm(folder: Path, says: str) -> Path:
    program = folder / "helm"
    program.write_text(f"#!/bin/sh\necho {says}\n")
    program.chmod(0o755)
    return program


def test_a_helm_of_the_same_major_version_on_the_path_is_used_as_it_is(
    tmp_path: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDERATION_BIN_DIR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = put_helm(tmp_path, f"{programs.HELM.version.split('.')[0]}.0.0+gabcdef")
    assert programs.provide_helm(guard) == program


@pytest.mark.parametrize("says", ["v2.17.0", "v40.0.0", "4", "nothing of the kind", ""])
def test_any_other_helm_on_the_path_is_passed_over(
    tmp_path: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    monkeypatch.delenv("FEDERATION_BIN_DIR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    put_helm(tmp_path, says)
    monkeypatch.setattr(programs, "provide", lambda wanted, _guard: Path("built") / wanted.name)
    assert programs.provide_helm(guard) == Path("built/helm/helm")


@pytest.mark.parametrize(("says", "is_built"), [("v4.0.0", False), ("v2.17.0", True)])
def test_before_the_tests_everything_they_start_is_built_at_once(
    tmp_path: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch, says: str, *, is_built: bool
) -> None:
    monkeypatch.delenv("FEDERATION_BIN_DIR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    put_helm(tmp_path, says)
    calls: list[list[str]] = []
    monkeypatch.setattr(programs, "provide_all", lambda wanted, _guard: calls.append([one.name for one in wanted]))
    programs.provide_for_tests(guard)
    [names] = calls
    assert ("helm" in names) == is_built
    assert set(names) | {"helm"} == {one.name for one in (*programs.FEDERATION, *programs.CHART)}


def test_every_set_can_be_built_by_its_name() -> None:
    assert set(programs.GROUPS) >= {"federation", "chart", "kubernetes", "karmada", "kwok", "helm"}
    assert programs.HELM not in programs.GROUPS["federation"], "helm is not on the way to a federation"


def test_the_pinned_versions_are_the_ones_the_design_names() -> None:
    assert programs.KUBERNETES.version.startswith("v1.36.")
    assert programs.KARMADA.version.startswith("v1.18.")
