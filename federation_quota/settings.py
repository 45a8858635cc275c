"""What an administrator sets, common to both deployables: where the API servers are, and where the system lives.

Command line flags, each with an environment variable of the same meaning (`--host-kubeconfig`,
FEDERATION_QUOTA_HOST_KUBECONFIG). A bad value is one clear line before anything starts.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from federation_quota import logs, monitoring
from federation_quota.group_resource import WORKLOADS, GroupResource
from federation_quota.ledger.settling import EXPIRY_SECONDS

PREFIX = "FEDERATION_QUOTA_"
SHORTEST_EXPIRY_SECONDS = 5.0
LONGEST_EXPIRY_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What both deployables need to know."""

    kubeconfig: str | None  # of the federation API server; None: as kubectl would find it
    host_kubeconfig: str | None  # of the cluster that the system runs in; None: the same
    namespace: str  # on either, for leases and the authority's Secret
    system_users: frozenset[str]
    workloads: frozenset[GroupResource]  # the kinds that have owners
    monitoring: monitoring.Settings
    expiry_seconds: float  # after that, a write that was let through and is not stored never will be


class Parser(argparse.ArgumentParser):
    """argparse, with environment variables as defaults."""

    def setting(
        self, flag: str, help_text: str, default: str | None = None, choices: Sequence[str] | None = None
    ) -> None:
        """A flag with a value."""
        variable = PREFIX + flag.removeprefix("--").replace("-", "_").upper()
        default = os.environ.get(variable, default)
        if choices and default is not None and default not in choices:
            self.error(f"{variable}={default}: it is one of {', '.join(choices)}")
        text = f"{help_text} [{variable}]"
        self.add_argument(flag, default=default, help=text, choices=choices)

    def common(self) -> None:
        """The flags of every deployable."""
        self.setting("--kubeconfig", "Kubeconfig of the federation API server; default: as kubectl finds it.")
        self.setting("--host-kubeconfig", "Kubeconfig of the cluster this runs in; default: the federation's.")
        self.setting("--namespace", "Where leases and the authority's Secret are kept.", "federation-quota-system")
        self.setting(
            "--system-users",
            "User names, comma separated, that may write what only the system may: this and the other deployable.",
            "system:serviceaccount:federation-quota-system:webhook,"
            "system:serviceaccount:federation-quota-system:controllers",
        )
        self.setting(
            "--workloads",
            "Kinds with pods that people propagate, comma separated: who creates one of these is its owner.",
            ",".join(map(str, WORKLOADS)),
        )
        self.setting("--metrics-listen", "Address and port of /metrics, /livez and /readyz.", "0.0.0.0:8080")
        self.setting(
            "--metrics-authorization",
            "Who may read /metrics: whoever reaches it, who is then told of no users and groups, or, over TLS, who has "
            "a token of the host cluster's.",
            "none",
            ["none", "token"],
        )
        self.setting("--metrics-server-names", "DNS names and IPs, comma separated, of that listener.", "localhost")
        self.setting("--metrics-certificate", "File with a certificate chain for it; default: the system's own.")
        self.setting("--metrics-key", "File with its key.")
        self.setting(
            "--expiry-seconds",
            "When a request that was admitted can no longer be stored: more than the API server gives any request "
            "(34, or its --request-timeout if that is less). The same for both deployables.",
            f"{EXPIRY_SECONDS:g}",
        )
        self.setting("--log-level", "How much to log.", "info", logs.LEVELS)
        self.setting("--log-format", "JSON lines, or for people; auto: for people on a terminal.", "auto", logs.FORMATS)


def common(options: argparse.Namespace) -> Settings:
    """The common settings, and logging set up as they say."""
    for path in (options.kubeconfig, options.host_kubeconfig):
        if path and not Path(path).is_file():
            raise SystemExit(f"there is no kubeconfig at {path}")
    users = frozenset(names(options.system_users))
    if not users:
        raise SystemExit("--system-users names nobody: the system could not write its own status")
    try:
        workloads = frozenset(map(GroupResource.parse, names(options.workloads)))
    except ValueError as problem:
        raise SystemExit(f"--workloads: {problem}") from None
    if not workloads:
        raise SystemExit("--workloads names no kind: nothing would have an owner, and no limit would hold")
    expiry = _expiry(options.expiry_seconds)
    watched = _monitoring(options)
    logs.configure(options.log_level, options.log_format)
    return Settings(options.kubeconfig, options.host_kubeconfig, options.namespace, users, workloads, watched, expiry)


def _expiry(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SHORTEST_EXPIRY_SECONDS <= seconds <= LONGEST_EXPIRY_SECONDS:
        raise SystemExit(
            f"--expiry-seconds {text!r}: it is a number from {SHORTEST_EXPIRY_SECONDS:g} to {LONGEST_EXPIRY_SECONDS:g}"
        )
    return seconds


def names(text: str) -> tuple[str, ...]:
    """A list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _monitoring(options: argparse.Namespace) -> monitoring.Settings:
    try:
        address = monitoring.Address.parse(options.metrics_listen)
    except ValueError as problem:
        raise SystemExit(f"--metrics-listen: {problem}") from None
    files = (options.metrics_certificate, options.metrics_key)
    if bool(files[0]) != bool(files[1]):
        raise SystemExit("--metrics-certificate and --metrics-key go together")
    if files[0] and options.metrics_authorization == "none":
        raise SystemExit("--metrics-certificate is of no use without --metrics-authorization=token")
    return monitoring.Settings(
        address=address,
        needs_token=options.metrics_authorization == "token",
        server_names=names(options.metrics_server_names),
        certificate=(Path(files[0]), Path(files[1])) if files[0] else None,
    )
