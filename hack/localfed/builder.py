"""Building one set of programs with Go: seen while it goes on, done once, and all or nothing.

The result appears in the cache by one rename, so a build that fails, is interrupted or killed leaves nothing that a
later run could take for ready. What Go has compiled by then stays in Go's own cache: going on is cheap.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from localfed import cache, lock, toolchain
from localfed.console import Progress
from localfed.errors import FederationError
from localfed.guard import Guard

if TYPE_CHECKING:
    from localfed.programs import ProgramSet

GIB = 1024**3


def build(wanted: ProgramSet, folder: Path, guard: Guard) -> None:
    """Have the set's programs in `folder`: at once where they are, built where they are not."""
    if folder.is_dir():
        return
    with lock.hold(folder.with_suffix(".lock"), f"the build of {wanted.name} {wanted.version}"):
        if folder.is_dir():  # another builder was faster
            return
        go = Go(toolchain.find_go(wanted.oldest_go, guard), wanted, guard)
        go.check_space(folder)
        progress = Progress(f"building {wanted.name} {wanted.version} (once; kept in {folder})")
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{wanted.name}-", suffix=".part") as part:
            go.compile(Path(part), progress)
            go.copy_manifests(Path(part))
            (Path(part) / "programs").chmod(0o755)
            (Path(part) / "programs").rename(folder)
        progress.done(f"built {', '.join(wanted.programs or wanted.manifests)}")


class Go:
    """One Go toolchain at work on one set."""

    def __init__(self, go: Path, wanted: ProgramSet, guard: Guard) -> None:
        self._go = go
        self._wanted = wanted
        self._guard = guard
        self._environment = {
            **os.environ,
            "CGO_ENABLED": "0",  # no C compiler is assumed
            "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",  # what go.sum does not name is not built
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }
        # A fetched Go finds its own files by its place; one set for another Go would mislead it.
        self._environment.pop("GOROOT", None)

    def check_space(self, folder: Path) -> None:
        """Say before minutes are spent that the disk is too small."""
        for place in {folder.parent, Path(self._ask("env", "GOCACHE"))}:
            free = shutil.disk_usage(_existing(place)).free / GIB
            if free < self._wanted.space_gib:
                raise FederationError(
                    f"building {self._wanted.name} needs about {self._wanted.space_gib:g} GiB, and {place} has "
                    f"{free:.1f} GiB free: make room, or set XDG_CACHE_HOME and GOCACHE to a larger disk."
                )

    def compile(self, part: Path, progress: Progress) -> None:
        """Compile every package of the set into `part/programs`, under the names the programs go by."""
        packages = list(self._wanted.packages)
        total = 0
        for line in self._run("list", "-deps", *packages) if packages else ():
            # What is not yet in the module cache is announced on the same stream.
            total += not line.startswith("go: ")
            progress.update(line if line.startswith("go: ") else f"{total} packages to compile")
        flags = "-s -w"
        if self._wanted.version_variable:
            flags += f" -X {self._wanted.version_variable}={self._wanted.version}"
        target = part / "programs"
        target.mkdir()
        for package, names in self._wanted.packages.items():
            first, *others = names
            arguments = ["build", "-v", "-ldflags", flags, "-o", str(target / first), package]
            for count, line in enumerate(self._run(*arguments), start=1):
                progress.update(f"compiled {count} of at most {total} packages: {line}")
            for other in others:
                (target / other).symlink_to(first)

    def copy_manifests(self, part: Path) -> None:
        """Copy what the origin carries beside its code."""
        if not self._wanted.manifests:
            return
        self._ask("mod", "download", self._wanted.origin)  # where nothing of it was compiled, it is not there yet
        origin = Path(self._ask("list", "-m", "-f", "{{.Dir}}", self._wanted.origin))
        for name, path in self._wanted.manifests.items():
            source, target = origin / path, part / "programs" / name
            if source.is_dir():
                # Contents only: the module cache is read-only, our copy need not be.
                shutil.copytree(source, target, copy_function=shutil.copyfile)
                for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
                    folder.chmod(0o755)
            else:
                shutil.copyfile(source, target)

    def _ask(self, *arguments: str) -> str:
        return "".join(self._run(*arguments)).strip()

    def _run(self, *arguments: str) -> Iterator[str]:
        """The lines of one go command, as they come; an error where it fails."""
        log_path = cache.directory() / f"build-{self._wanted.name}.log"
        lines: list[str] = []
        process = self._guard.start(
            [str(self._go), *arguments],
            environment=self._environment,
            output=subprocess.PIPE,
            directory=self._wanted.module,
        )
        assert process.stdout is not None  # noqa: S101 - asked for one line above
        with log_path.open("w") as log, process.stdout:
            for raw in process.stdout:
                line = raw.decode(errors="replace").rstrip()
                lines.append(line)
                log.write(line + "\n")
                yield line
        if code := process.wait():
            raise FederationError(
                f"building {self._wanted.name} {self._wanted.version} failed (go {arguments[0]} ended with {code}): "
                f"{_telling_line(lines)}. The whole output: {log_path}. Run the same command again once that is "
                "mended (nothing compiled is lost), or set FEDERATION_BIN_DIR to a folder with ready programs."
            )


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
