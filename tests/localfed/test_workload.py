"""What there is to compile: counted once, and weighed."""

from pathlib import Path

import pytest

from localfed.workload import Package, Workload


def package(path: str, folder: str, *imports: str, is_compiled: bool = False, files: tuple[str, ...] = ()) -> Package:
    return Package(path, folder, is_compiled, imports, files)


def test_a_line_of_go_list_is_read() -> None:
    read = Package.parse("k8s.io/api/core/v1|/mod/api/core/v1|true|fmt io|doc.go types.go")
    assert read == package("k8s.io/api/core/v1", "/mod/api/core/v1", "fmt", "io", files=("doc.go", "types.go"))
    assert Package.parse("fmt|/go/src/fmt|false||print.go") == package(
        "fmt", "/go/src/fmt", is_compiled=True, files=("print.go",)
    )
    assert Package.parse("go: downloading k8s.io/api v0.36.4") is None


def test_what_is_compiled_already_is_not_counted() -> None:
    assert list(Workload().add([package("fmt", "/fmt", is_compiled=True), package("own", "/own", "fmt")])) == ["own"]


def test_what_two_sets_share_is_counted_once_and_what_has_other_dependencies_is_not_shared() -> None:
    workload = Workload()
    shared = package("fmt", "/fmt")
    assert list(workload.add([shared, package("x", "/x@1"), package("y", "/y", "x")])) == ["fmt", "x", "y"]
    assert list(workload.add([shared, package("x", "/x@2"), package("y", "/y", "x")])) == ["x", "y"]


def test_the_time_that_is_left_follows_from_the_pace_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("localfed.workload.time.monotonic", lambda: now)
    packages = []
    for name in "abcd":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.go").write_text("x" * 100)
        packages.append(package(name, str(tmp_path / name), files=("x.go",)))
    workload = Workload()
    workload.add(packages)
    assert workload.seconds_left() is None
    workload.done(packages[0])
    now += 30
    assert workload.seconds_left() == pytest.approx(90)
