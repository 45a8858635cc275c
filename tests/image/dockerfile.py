"""A Dockerfile as a list of instructions, and what of it can be followed without a container engine."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """One line of it, continued lines joined."""

    word: str
    rest: str


def parse(text: str) -> list[list[Instruction]]:
    """The instructions of each stage, its FROM first."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    stages: list[list[Instruction]] = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append(Instruction(word, rest))
    return stages


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Folders that stand for a stage's file system, and a checkout that stands for the build context."""

    root: Path
    context: Path
    wheels: Path  # what commands that install packages find them in, in an index's place

    def follow(self, stage: list[Instruction]) -> None:
        """Do what a stage says: copies and commands, each path below `root`."""
        place = self.root
        for word, rest in stage:
            if word == "WORKDIR":
                place = self.at(rest)
                place.mkdir(parents=True)
            elif word == "COPY":
                self._copy(rest, place)
            elif word == "RUN":
                self._run(rest, place)
            elif word != "FROM":
                raise ValueError(f"nobody knows here how to follow {word} {rest}")

    def at(self, path: str) -> Path:
        """Where an absolute path of the stage is."""
        return self.root / path.removeprefix("/")

    def _copy(self, rest: str, place: Path) -> None:
        *sources, target = rest.split()
        for source in sources:
            found = self.context / source
            if found.is_dir():
                shutil.copytree(found, place / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(found, place / target)

    def _run(self, command: str, place: Path) -> None:
        here = re.sub(r"(?<=[\s=])/(?=opt/|src)", f"{self.root}/", command)
        program, _, arguments = here.partition(" ")
        if program != "python":
            raise ValueError(f"nobody knows here how to run {program}")
        result = subprocess.run(
            ["sh", "-c", f"{sys.executable} {arguments}"],
            cwd=place,
            env={
                **os.environ,
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self.wheels),
                "PIP_NO_COMPILE": "1",  # faster, and the same code
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
