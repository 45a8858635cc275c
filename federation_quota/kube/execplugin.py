"""Exec plugins of a kubeconfig: a program that hands out credentials (client.authentication.k8s.io).

`kubernetes` runs them too, but logs their failure and goes on without credentials, waits for them without limit, and
never asks again for a certificate that ends. Here a failure is an error that says what the plugin said. What comes
back is held by `kube.config`, never logged, never written anywhere.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from federation_quota.kube.error import CredentialsError

TIMEOUT_SECONDS = 60.0
_GROUP = "client.authentication.k8s.io/"
_LONGEST_COMPLAINT = 500


@dataclass(frozen=True, slots=True)
class Issued:
    """What a plugin handed out."""

    token: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    expires: datetime | None = None


async def run(
    section: Mapping[str, Any],
    *,
    cluster: Mapping[str, Any],
    directory: str,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Issued:
    """Run the plugin that the `exec` section of a user describes; `directory` is the kubeconfig's own."""
    command, version = section.get("command"), section.get("apiVersion")
    if not command or not str(version).startswith(_GROUP):
        raise CredentialsError("the exec section needs a command and an apiVersion of client.authentication.k8s.io")
    is_interactive = section.get("interactiveMode") != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if section.get("interactiveMode") == "Always" and not is_interactive:
        raise CredentialsError(f"the exec plugin {command} asks for a terminal, and there is none")
    added = {str(entry["name"]): str(entry["value"]) for entry in section.get("env") or []}
    environment = {**os.environ, **added, "KUBERNETES_EXEC_INFO": _info(section, cluster, is_interactive)}
    # As client-go reads it: a path with a slash is the kubeconfig's neighbour, a bare name is looked up.
    program = str(Path(directory) / command) if os.sep in command else command
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *map(str, section.get("args") or []),
            env=environment,
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if is_interactive else asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f" ({section['installHint']})" if section.get("installHint") else ""
        raise CredentialsError(f"the exec plugin {command} does not start: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(timeout_seconds):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise CredentialsError(f"the exec plugin {command} said nothing within {timeout_seconds:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        said = (complaint or b"").decode(errors="replace").strip()[-_LONGEST_COMPLAINT:]
        raise CredentialsError(f"the exec plugin {command} ended with {process.returncode}: {said or 'no word why'}")
    return _issued(str(command), str(version), output)


def _info(section: Mapping[str, Any], cluster: Mapping[str, Any], is_interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": is_interactive}
    if section.get("provideClusterInfo"):
        known = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        spec["cluster"] = {key: cluster[key] for key in known if key in cluster}
        for extension in cluster.get("extensions") or []:
            if extension.get("name") == "client.authentication.k8s.io/exec":
                spec["cluster"]["config"] = extension.get("extension")
    return json.dumps({"apiVersion": section["apiVersion"], "kind": "ExecCredential", "spec": spec})


def _issued(command: str, version: str, output: bytes) -> Issued:
    try:
        answer = json.loads(output)
        status = answer["status"]
        issued = Issued(
            token=status.get("token"),
            certificate=status.get("clientCertificateData"),
            key=status.get("clientKeyData"),
            expires=_moment(status.get("expirationTimestamp")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        # Not the text itself: it may hold half a credential.
        raise CredentialsError(f"the exec plugin {command} answered with something that is no ExecCredential") from None
    if answer.get("apiVersion") != version:
        raise CredentialsError(
            f"the exec plugin {command} answered as {answer.get('apiVersion')}, the kubeconfig says {version}"
        )
    if bool(issued.certificate) != bool(issued.key):
        raise CredentialsError(f"the exec plugin {command} gave a certificate without its key, or a key alone")
    if not issued.token and not issued.certificate:
        raise CredentialsError(f"the exec plugin {command} gave neither a token nor a certificate")
    return issued


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
