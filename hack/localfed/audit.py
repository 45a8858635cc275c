"""The audit log of the federation API server: what federation-quota's own identities asked it for, and what it said.

Nothing else is logged, and of each request only who, what and with which outcome: the tests compare it with the roles
that the chart grants.
"""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from localfed.directory import Directory

NAME = "audit"


def flags(directory: Directory, users: Collection[str]) -> list[str]:
    """For an API server that is to keep it; the policy is written on the way."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": sorted(users)}, {"level": "None"}],
    }
    path = directory.path / f"{NAME}-policy.json"
    path.write_text(json.dumps(policy))
    return [f"--audit-policy-file={path}", f"--audit-log-path={directory.logs / NAME}.json"]


def entries(directory: Directory) -> Iterator[dict[str, Any]]:
    """What was logged so far, rotated files included."""
    for path in sorted(directory.logs.glob(f"{NAME}*.json"), key=_age):
        with path.open() as file:
            for line in file:
                if line.endswith("\n"):  # the last may be half written
                    yield json.loads(line)


def _age(path: Path) -> tuple[bool, str]:
    """Rotated ones carry their time, and come before the one that is written to."""
    return path.stem == NAME, path.name
