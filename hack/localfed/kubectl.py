"""kubectl as a function: what people type is what the demo, the tests and the set-up run."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from localfed.errors import FederationError


class KubectlError(FederationError):
    """kubectl ended with an error; `stderr` has its own words."""

    def __init__(self, arguments: Sequence[str], stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: {stderr.strip()}")
        self.stderr = stderr


def documents(*objects: dict[str, Any]) -> str:
    """Objects as the text of one file.

    One after another, and not as a List: for that one kubectl reads the OpenAPI document of everything, some megabytes,
    which takes a busy API server longer to write than it is given.
    """
    return "\n---\n".join(json.dumps(one) for one in objects)


class Kubectl:
    """kubectl against the clusters of one kubeconfig."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path) -> None:
        self._program = program
        self.kubeconfig = kubeconfig
        self._home = home

    def __call__(
        self, *arguments: str, context: str | None = None, manifest: str | None = None, timeout: float = 120
    ) -> str:
        """Run it and return what it printed; `manifest` goes to its standard input (`-f -`)."""
        where = ["--context", context] if context else []
        result = subprocess.run(
            [self._program, "--kubeconfig", self.kubeconfig, *where, *arguments],
            input=manifest,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            # Its discovery cache belongs to this federation: another one may have had the same port.
            env={"HOME": str(self._home), "PATH": os.environ.get("PATH", os.defpath)},
        )
        if result.returncode:
            raise KubectlError(arguments, result.stderr)
        return result.stdout

    def json(self, *arguments: str, context: str | None = None) -> dict[str, Any]:
        """Run it with `-o json` and decode."""
        decoded: dict[str, Any] = json.loads(self(*arguments, "-o", "json", context=context))
        return decoded

    def apply(self, *objects: dict[str, Any], context: str | None = None) -> None:
        """Server-side apply of objects given as values."""
        arguments = ["apply", "--server-side", "--force-conflicts", "-f", "-"]
        self(*arguments, context=context, manifest=documents(*objects))

    def apply_status(self, value: dict[str, Any], context: str | None = None) -> None:
        """Server-side apply of one object's status subresource."""
        arguments = ["apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-"]
        self(*arguments, context=context, manifest=json.dumps(value))
