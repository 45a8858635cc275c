"""Kubeconfig files: how programs and people reach the local clusters."""

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Access:
    """One identity on one cluster."""

    cluster: str
    server: str
    authority: Path
    certificate: Path
    key: Path


def write(path: Path, accesses: list[Access]) -> Path:
    """One context per access, named after its cluster; the first is the current one. JSON is YAML."""
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": accesses[0].cluster,
        "clusters": [
            {
                "name": access.cluster,
                "cluster": {"server": access.server, "certificate-authority-data": _encoded(access.authority)},
            }
            for access in accesses
        ],
        "users": [
            {
                "name": access.cluster,
                "user": {
                    "client-certificate-data": _encoded(access.certificate),
                    "client-key-data": _encoded(access.key),
                },
            }
            for access in accesses
        ],
        "contexts": [
            {"name": access.cluster, "context": {"cluster": access.cluster, "user": access.cluster}}
            for access in accesses
        ],
    }
    part = path.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(config, file, indent=1)
    part.rename(path)
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
