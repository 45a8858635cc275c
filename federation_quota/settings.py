"""What an administrator sets, common to both deployables: where the API servers are, and where the system lives.

Command line flags, each with an environment variable of the same meaning (`--host-kubeconfig`,
FEDERATION_QUOTA_HOST_KUBECONFIG). A bad value is one clear line before anything starts.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

PREFIX = "FEDERATION_QUOTA_"


@dataclass(frozen=True, slots=True)
class Settings:
    """What both deployables need to know."""

    kubeconfig: str | None  # of the federation API server; None: as kubectl would find it
    host_kubeconfig: str | None  # of the cluster that the system runs in; None: the same
    namespace: str  # on either, for leases and the authority's Secret
    system_users: frozenset[str]


class Parser(argparse.ArgumentParser):
    """argparse, with environment variables as defaults."""

    def setting(
        self, flag: str, help_text: str, default: str | None = None, choices: Sequence[str] | None = None
    ) -> None:
        """A flag with a value."""
        variable = PREFIX + flag.removeprefix("--").replace("-", "_").upper()
        default = os.environ.get(variable, default)
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
        self.setting("--log-level", "How much to log.", "info", ["debug", "info", "warning", "error"])


def common(options: argparse.Namespace) -> Settings:
    """The common settings, and logging set up as they say."""
    for path in (options.kubeconfig, options.host_kubeconfig):
        if path and not Path(path).is_file():
            raise SystemExit(f"there is no kubeconfig at {path}")
    users = frozenset(name.strip() for name in options.system_users.split(",") if name.strip())
    if not users:
        raise SystemExit("--system-users names nobody: the system could not write its own status")
    set_up_logging(options.log_level)
    return Settings(options.kubeconfig, options.host_kubeconfig, options.namespace, users)


def set_up_logging(level: str) -> None:
    """One line per event: for people on a terminal, JSON elsewhere; aiohttp's and asyncio's lines among them."""
    number = getattr(logging, level.upper())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(number, logging.WARNING), stream=sys.stderr, format="%(name)s %(message)s")
