"""Building sets of programs with Go: seen while it goes on, done once, and all or nothing.

The sets of one call are built as a pipeline. Go keeps all cores busy until the last packages of a set, which wait for
each other and for the linker: that is when the next set starts to compile. All sets share one build cache.

The result appears in the cache by one rename, so a build that fails, is interrupted or killed leaves nothing that a
later run could take for ready. What Go has compiled by then stays in Go's own cache: going on is cheap.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from localfed import cache, lock, marker, toolchain
from localfed.console import Progress, duration
from localfed.errors import FederationError
from localfed.guard import Guard
from localfed.workload import Package, Workload

if TYPE_CHECKING:
    from localfed.programs import ProgramSet

GIB = 1024**3
FEW_PACKAGES = 40
"""With no more than this left to compile, a set leaves cores idle, and the next one starts."""

Steps = Generator[int | None, bytes, None]
"""Yields the file descriptor that it wants to read, and is sent what was read; yields None to be called again soon."""


def build(wanted: Sequence[tuple[ProgramSet, Path]], guard: Guard) -> None:
    """Have the programs of each set in its folder: at once where they are, built where they are not."""
    with contextlib.ExitStack() as locks:
        held = []
        # Every process takes the locks in the same order, so that no two wait for each other.
        for each, folder in sorted(wanted, key=lambda pair: pair[1]):
            if folder.is_dir():
                continue
            own = locks.enter_context(contextlib.ExitStack())
            own.enter_context(lock.hold(folder.with_suffix(".lock"), f"the build of {each.name} {each.version}"))
            if not folder.is_dir():  # no other builder was faster
                held.append((folder, own))
        builds = [Build(each, folder, own, guard) for each, folder in wanted for at, own in held if at == folder]
        if builds:
            _build(builds, guard)


def _build(builds: list[Build], guard: Guard) -> None:
    go = toolchain.find_go(max(one.wanted.oldest_go for one in builds), guard)
    _check_space(go, builds)
    names = ", ".join(f"{one.wanted.name} {one.wanted.version}" for one in builds)
    progress = Progress(f"building {names} (once; kept in {builds[0].folder.parent})")
    tasks: list[Steps] = [one.compile_standard(go) for one in builds if one.wanted.standard]
    workload = Workload()
    for before, one in zip([None, *builds], builds, strict=False):
        tasks.append(one.steps(go, workload, before))
    _drive(tasks, lambda: progress.update(_describe(builds, workload)))
    built = [name for one in builds for name in (one.wanted.programs or one.wanted.manifests)]
    progress.done(f"built {', '.join(built)}")


def _drive(tasks: list[Steps], show: Callable[[], None]) -> None:
    """Run all of them until they are through; where one fails, the others end."""
    wishes: dict[Steps, int | None] = {}
    try:
        for task in tasks:
            wishes[task] = next(task)
        while wishes:
            readable, _, _ = select.select([wish for wish in wishes.values() if wish is not None], [], [], 0.2)
            for task, wish in list(wishes.items()):
                if wish is None or wish in readable:
                    try:
                        wishes[task] = task.send(os.read(wish, 1 << 16) if wish is not None else b"")
                    except StopIteration:
                        del wishes[task]
            show()
    finally:
        for task in tasks:
            task.close()


def _describe(builds: list[Build], workload: Workload) -> str:
    parts = [text for one in builds if (text := one.describe())]
    if (seconds := workload.seconds_left()) is not None:
        parts.append(f"about {duration(seconds)} left")
    return "; ".join(parts)


def _check_space(go: Path, builds: list[Build]) -> None:
    """Say before minutes are spent that the disk is too small."""
    needed = sum(one.wanted.space_gib for one in builds)
    asked = subprocess.run([go, "env", "GOCACHE"], capture_output=True, text=True, check=False)
    for place in {builds[0].folder.parent, Path(asked.stdout.strip() or "/")}:
        free = shutil.disk_usage(_existing(place)).free / GIB
        if free < needed:
            raise FederationError(
                f"building {', '.join(one.wanted.name for one in builds)} needs about {needed:g} GiB, and {place} has "
                f"{free:.1f} GiB free: make room, or set XDG_CACHE_HOME and GOCACHE to a larger disk."
            )


class Build:
    """The build of one set, whose lock it releases at the end."""

    def __init__(self, wanted: ProgramSet, folder: Path, held: contextlib.ExitStack, guard: Guard) -> None:
        self.wanted = wanted
        self.folder = folder
        self.is_listed = False
        self.is_compiled = False
        self._held = held
        self._guard = guard
        self._doing = "waiting"
        self._total = 0
        self._left: dict[str, Package] = {}
        self._go_mod: Path | None = None  # in place of the module's own

    @property
    def has_cores_to_spare(self) -> bool:
        """Whether the next set may start to compile."""
        return self.is_compiled or (self._doing == "compiling" and len(self._left) <= FEW_PACKAGES)

    def describe(self) -> str:
        """What is left to do, for people."""
        if self._doing == "compiling":
            if self._left:
                return f"{self.wanted.name}: {len(self._left):,} of {self._total:,} packages left"
            return f"{self.wanted.name}: linking"
        if self._doing == "waiting" and self.is_listed:
            return f"{self.wanted.name}: {self._total:,} packages" if self._total else ""
        return f"{self.wanted.name}: {self._doing}" if self._doing else ""

    def steps(self, go: Path, workload: Workload, before: Build | None) -> Steps:
        """Build it, and compile no sooner than the set before it leaves cores idle."""
        with (
            self._held,
            tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=f"{self.wanted.name}-", suffix=".part") as part,
        ):
            target = Path(part) / "programs"
            target.mkdir(mode=0o755)
            while before and not before.is_listed:
                yield None
            yield from self._leave_out(go, Path(part) / "modules")
            yield from self._list(go, workload)
            while before and self.wanted.packages and not before.has_cores_to_spare:
                yield None
            yield from self._compile(go, target, workload)
            self.is_compiled = True
            yield from self._copy_manifests(go, target)
            target.rename(self.folder)
            self._doing = ""

    def compile_standard(self, go: Path) -> Steps:
        """Compile packages of Go's own, into Go's cache: the cores are idle while modules are downloaded."""
        yield from self._go(go, "build", *self._flags(), *self.wanted.standard, log_name="standard")

    def _leave_out(self, go: Path, folder: Path) -> Steps:
        """Have Go take the modules of which files are left out from copies without them."""
        if not self.wanted.left_out:
            return
        folders: dict[str, Path] = {}
        yield from self._find_modules(go, list(self.wanted.left_out), folders)
        folder.mkdir()
        for name in ("go.mod", "go.sum"):
            if (self.wanted.module / name).is_file():
                shutil.copyfile(self.wanted.module / name, folder / name)
        replacements = []
        for module, path in self.wanted.left_out.items():
            copy = folder / module.replace("/", "-")
            _link_tree(folders[module], copy)
            try:
                (copy / path).unlink()
            except FileNotFoundError:
                raise FederationError(
                    f"{self.wanted.name}: {module} has no {path} to leave out: mend hack/localfed/programs.py"
                ) from None
            replacements.append(f"-replace={module}={copy}")
        yield from self._go(go, "mod", "edit", *replacements, str(folder / "go.mod"))
        self._go_mod = folder / "go.mod"

    def _find_modules(self, go: Path, modules: list[str], folders: dict[str, Path]) -> Steps:
        """Download modules, and say where each is."""
        self._doing = f"downloading {', '.join(modules)}"
        yield from self._go(go, "mod", "download", *modules)
        said: list[str] = []
        yield from self._go(go, "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", *modules, on_line=said.append)
        for module, _, folder in (line.partition("\t") for line in said):
            folders[module] = Path(folder)

    def _list(self, go: Path, workload: Workload) -> Steps:
        """Find out what there is to compile; this downloads the modules, too."""
        self._doing = "finding out what there is to compile"
        packages: list[Package] = []

        def read(line: str) -> None:
            if line.startswith("go: "):
                self._doing = line.removeprefix("go: ")
            elif package := Package.parse(line):
                packages.append(package)

        if self.wanted.packages:
            yield from self._go(
                go, "list", *self._flags(), "-deps", "-f", Package.FORMAT, *self.wanted.packages, on_line=read
            )
        self._left = workload.add(packages)
        self._total = len(self._left)
        self._doing = "waiting"
        self.is_listed = True

    def _compile(self, go: Path, target: Path, workload: Workload) -> Steps:
        """Compile every package of the set into `target`, under the names the programs go by."""
        if not self.wanted.packages:
            return
        self._doing = "compiling"

        def read(line: str) -> None:
            if package := self._left.pop(line, None):
                workload.done(package)

        # One command for all: Go links one program while it compiles the others.
        yield from self._go(go, "build", "-v", *self._flags(), "-o", f"{target}/", *self.wanted.packages, on_line=read)
        for package, (first, *others) in self.wanted.packages.items():
            (target / self.wanted.executable(package)).rename(target / first)
            for other in others:
                (target / other).symlink_to(first)

    def _copy_manifests(self, go: Path, target: Path) -> Steps:
        """Copy what the origin carries beside its code."""
        if not self.wanted.manifests:
            return
        # Where nothing of it was compiled, it is not there yet.
        folders: dict[str, Path] = {}
        yield from self._find_modules(go, [self.wanted.origin], folders)
        self._doing = f"copying {', '.join(self.wanted.manifests)}"
        for name, path in self.wanted.manifests.items():
            source, copy = folders[self.wanted.origin] / path, target / name
            if source.is_dir():
                # Contents only: the module cache is read-only, our copy need not be.
                shutil.copytree(source, copy, copy_function=shutil.copyfile)
                for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
                    folder.chmod(0o755)
            else:
                shutil.copyfile(source, copy)

    def _flags(self) -> list[str]:
        linker = "-s -w"
        if self.wanted.version_variable:
            linker += f" -X {self.wanted.version_variable}={self.wanted.version}"
        # No debug information: the linker would drop it (-s -w), so the compiler need not write it.
        flags = ["-gcflags=all=-dwarf=false", f"-ldflags={linker}"]
        return [*flags, f"-modfile={self._go_mod}"] if self._go_mod else flags

    def _go(
        self, go: Path, *arguments: str, on_line: Callable[[str], object] = str, log_name: str | None = None
    ) -> Steps:
        """Run one go command and hand on its lines as they come; an error where it fails."""
        log_path = cache.directory() / f"build-{log_name or self.wanted.name}.log"
        lines: list[str] = []
        process = self._guard.start(
            [str(go), *arguments],
            environment=_environment(),
            output=subprocess.PIPE,
            directory=self.wanted.module,
        )
        assert process.stdout is not None  # noqa: S101 - asked for one line above
        try:
            with log_path.open("w") as log, process.stdout:
                rest = b""
                while chunk := (yield process.stdout.fileno()):
                    *complete, rest = (rest + chunk).split(b"\n")
                    for line in (raw.decode(errors="replace").rstrip() for raw in complete):
                        lines.append(line)
                        log.write(line + "\n")
                        on_line(line)
            code = process.wait()
        except BaseException:
            # With the compilers that it started: they are of its session, and a moment later they are gone.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            marker.wait(_group(process.pid), within_seconds=10)
            raise
        if code:
            raise FederationError(
                f"building {self.wanted.name} {self.wanted.version} failed (go {arguments[0]} ended with {code}): "
                f"{_telling_line(lines)}. The whole output: {log_path}. Run the same command again once that is "
                "mended (nothing compiled is lost), or set FEDERATION_BIN_DIR to a folder with ready programs."
            )


def _link_tree(source: Path, copy: Path) -> None:
    """A copy whose folders are its own, and whose files are the same where the file system allows it."""
    for folder, _, names in os.walk(source):
        target = copy / Path(folder).relative_to(source)
        target.mkdir()
        for name in names:
            try:
                (target / name).hardlink_to(Path(folder) / name)
            except OSError:  # another file system
                shutil.copyfile(Path(folder) / name, target / name)


def _group(leader: int) -> list[psutil.Process]:
    """The processes of a group."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if os.getpgid(process.pid) == leader:
                found.append(process)
    return found


def _environment() -> dict[str, str]:
    environment = {
        # The compilers collect garbage only when they are large: a fifth less work.
        "GOGC": "800",
        "GOMEMLIMIT": "1500MiB",
        **os.environ,
        "CGO_ENABLED": "0",  # no C compiler is assumed
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",  # what go.sum does not name is not built
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    # A fetched Go finds its own files by its place; one set for another Go would mislead it.
    environment.pop("GOROOT", None)
    return environment


def _telling_line(lines: list[str]) -> str:
    """The line that says why: a full disk before all else, else the last that is more than a package's name."""
    for line in lines:
        if "no space left on device" in line:
            return line
    telling = [line for line in lines if " " in line.strip()]
    return (telling or lines or ["no output"])[-1].strip()[:300]


def _existing(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    with contextlib.suppress(StopIteration):
        return next(place for place in (path, *path.parents) if place.exists())
    return Path("/")
