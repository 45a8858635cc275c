"""What users and groups use, asked for as programs and people at terminals ask for it."""

import base64
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localfed.guard import Guard
from localfed.quota import controllers_name
from tests.federation.stage import Stage, eventually
from tests.federation.teams import Teams
from tests.federation.test_monitoring import answer, is_answered, replica
from tests.federation.tokens import Tokens, issue


@dataclass(frozen=True)
class Teller:
    """A replica of the controllers that tells programs, and the tokens of who may know and who may not."""

    root: str
    trusted: ssl.SSLContext
    tree: str
    tokens: Tokens

    def __call__(self, path: str, token: str = "", tree: str = "") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.root}/ws/v1/partition/{tree or self.tree}/usage/{path}"
        return answer(urllib.request.Request(url, headers=headers), self.trusted)  # noqa: S310 - loopback


@contextmanager
def telling(stage: Stage, tree: str, guard: Guard, log: Path) -> Iterator[Teller]:
    """One more replica of the controllers, which tells of that tree; who asks is from the namespace of the stage."""
    tokens = issue(stage.federation, stage.namespace)
    _grant(stage, f"/ws/v1/partition/{tree}/usage/*")
    authority = stage.federation.kubectl.json(
        "get", "secret", "federation-quota-authority", "-n", "federation-quota-system"
    )
    trusted = ssl.create_default_context(cadata=base64.b64decode(authority["data"]["signing.crt"]).decode())
    with replica(stage.federation, guard, controllers_name(1), log) as (root, _, _):
        found = Teller(root, trusted, tree, tokens)
        eventually(lambda: is_answered(lambda: found("users", tokens.reader)[0] == 200), what="it is ready")
        yield found


def usage(teams: Teams, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kubectl fedquota usage`, as an administrator types it."""
    environment = teams.federation.environment()
    path = f"{environment['PATH']}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["kubectl", "fedquota", "usage", *arguments, "--tree", teams.tree],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"HOME": str(teams.federation.directory.path), "PATH": path, "KUBECONFIG": environment["KUBECONFIG"]},
    )


def _grant(stage: Stage, path: str) -> None:
    kubectl = stage.federation.kubectl
    name = f"usage-{stage.namespace}"
    kubectl("create", "clusterrole", name, "--verb=get", f"--non-resource-url={path}")
    whose = [f"--clusterrole={name}", f"--serviceaccount={stage.namespace}:reader"]
    kubectl("create", "clusterrolebinding", name, *whose)
