"""helm as a function, on our chart."""

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "charts" / "federation-quota"
NAMESPACE = "federation-quota-system"

Manifest = dict[str, Any]
Values = dict[str, Any]


class HelmError(Exception):
    """helm ended with an error: its own words."""


class Helm:
    """One helm, with a home of its own."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._home = home

    def template(self, values: Values, *arguments: str) -> list[Manifest]:
        """What the chart comes to with these values, hooks and tests included."""
        said = self._run("template", "federation-quota", str(CHART), *arguments, values=values)
        return [one for one in yaml.load_all(said, yaml.CSafeLoader) if one]

    def lint(self, values: Values) -> None:
        """HelmError where it finds anything to complain about."""
        self._run("lint", "--strict", str(CHART), values=values)

    def _run(self, *arguments: str, values: Values) -> str:
        result = subprocess.run(
            [self._program, *arguments, "--namespace", NAMESPACE, "--values", "-"],
            input=yaml.safe_dump(values),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={"HOME": str(self._home), "PATH": os.environ.get("PATH", os.defpath)},
        )
        if result.returncode:
            raise HelmError(result.stderr + result.stdout)
        return result.stdout
