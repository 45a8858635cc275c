"""How much there is to compile, and how long that will take: packages, weighed by the size of their source."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Package:
    """One Go package, as `go list` describes it."""

    path: str
    folder: str
    is_compiled: bool
    imports: tuple[str, ...]
    files: tuple[str, ...]

    FORMAT: ClassVar[str] = '{{.ImportPath}}|{{.Dir}}|{{.Stale}}|{{join .Imports " "}}|{{join .GoFiles " "}}'

    @classmethod
    def parse(cls, line: str) -> Package | None:
        """The package that a line in FORMAT describes; None for any other line."""
        if line.count("|") != cls.FORMAT.count("|"):
            return None
        path, folder, stale, imports, files = line.split("|")
        return cls(path, folder, stale == "false", tuple(imports.split()), tuple(files.split()))

    @property
    def weight(self) -> int:
        """Bytes of source: what it takes to compile a package grows with it."""
        size = 0
        for name in self.files:
            with contextlib.suppress(OSError):
                size += (Path(self.folder) / name).stat().st_size
        return size


class Workload:
    """All that the sets of one run have to compile; a package that two sets share counts once."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._left = 0
        self._done = 0
        self._began: float | None = None

    def add(self, packages: list[Package]) -> dict[str, Package]:
        """Those that this set will have to compile, by import path. Packages come after what they import."""
        identities: dict[str, int] = {}
        found = {}
        for package in packages:
            # Compiled against other dependencies, the same source is another package.
            imported = tuple(identities.get(path, 0) for path in package.imports)
            identity = identities[package.path] = hash((package.folder, imported))
            if not package.is_compiled and package.path != "unsafe" and identity not in self._known:
                found[package.path] = package
                self._left += package.weight
            self._known.add(identity)
        return found

    def done(self, package: Package) -> None:
        """Count a package as compiled."""
        if self._began is None:
            self._began = time.monotonic()
        self._left -= package.weight
        self._done += package.weight

    def seconds_left(self) -> float | None:
        """An estimate from the pace so far; None while there is too little to go by."""
        if self._began is None or (passed := time.monotonic() - self._began) < 10:
            return None
        return passed * self._left / self._done
