"""One server process: how it is started, when it is ready, and whether it still runs."""

import contextlib
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from localfed import marker
from localfed.directory import Directory, Started, State
from localfed.errors import FederationError
from localfed.guard import Guard

READY_WITHIN_SECONDS = 180.0
# The time of the machine's start is known to the second.
SAME_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Spec:
    """A process as it should be: everything but its pid."""

    name: str
    argv: list[str]
    port: int
    health: str  # answers 200 when it is ready
    authority: Path | None = None  # who signed its certificate; None: plain HTTP, or a certificate it made for itself
    client: tuple[Path, Path] | None = None  # certificate and key to ask with, where anonymous does not do


class Launcher:
    """Starts the processes of one federation and writes down that it did."""

    def __init__(self, directory: Directory, state: State, guard: Guard) -> None:
        self._directory = directory
        self._state = state
        self._guard = guard

    def start(self, specs: Iterable[Spec]) -> None:
        """Start those that do not run, and return when all are ready."""
        specs = list(specs)
        self.launch(specs)
        self._wait(specs)

    def launch(self, specs: Iterable[Spec]) -> None:
        """Start those that do not run."""
        for spec in specs:
            if not is_running(self._state.processes.get(spec.name)):
                self._start(spec)

    def _start(self, spec: Spec) -> None:
        self._directory.logs.mkdir(exist_ok=True)
        log = self._directory.log(spec.name)
        environment = {
            "HOME": str(self._directory.path),  # nothing of the user's own configuration leaks in
            "PATH": os.environ.get("PATH", os.defpath),
            # Go's collector runs when the heap has doubled; these heaps are small, and the machine's cores are few.
            "GOGC": "300",
            marker.DIRECTORY: str(self._directory.path),
        }
        with log.open("ab") as output:
            process = self._guard.start(
                spec.argv, environment=environment, output=output, directory=self._directory.path
            )
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended at once: the wait will say so
            created = since_boot(psutil.Process(process.pid))
            self._state.processes[spec.name] = Started(process.pid, created)
        self._directory.save(self._state)

    def _wait(self, specs: list[Spec]) -> None:
        waiting = list(specs)
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while waiting:
            for spec in waiting:
                if not is_running(self._state.processes.get(spec.name)):
                    log = self._directory.log(spec.name)
                    raise FederationError(f"{spec.name} ended while starting: {last_words(log)} (see {log})")
            waiting = [spec for spec in waiting if not is_ready(spec)]
            if waiting and time.monotonic() > deadline:
                names = ", ".join(spec.name for spec in waiting)
                raise FederationError(
                    f"{names} not ready within {READY_WITHIN_SECONDS:.0f} s (see the logs in {self._directory.logs})"
                )
            if waiting:
                time.sleep(0.1)


def is_running(started: Started | None) -> bool:
    """Whether that very process still runs."""
    if started is None:
        return False
    try:
        process = psutil.Process(started.pid)
        return abs(since_boot(process) - started.created) < SAME_SECONDS and marker.is_running(process)
    except psutil.NoSuchProcess:
        return False


def since_boot(process: psutil.Process) -> float:
    """When it started, in seconds since the machine did: the clock may be set meanwhile."""
    return process.create_time() - psutil.boot_time()


def is_ready(spec: Spec) -> bool:
    """Whether its health address answers 200."""
    context = None
    if spec.health.startswith("https:"):
        if spec.authority:
            context = ssl.create_default_context(cafile=str(spec.authority))
        else:
            # Health only, on loopback, of a process we started: it made its certificate for itself.
            context = ssl._create_unverified_context()  # noqa: S323
        if spec.client:
            context.load_cert_chain(*spec.client)
    try:
        with urllib.request.urlopen(spec.health, timeout=5, context=context) as answer:  # noqa: S310 - built by us
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def last_words(log: Path) -> str:
    """The line of a log that most likely says why the process ended."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except FileNotFoundError:
        lines = []
    telling = [line for line in lines[-200:] if line.lower().startswith(("error", "panic", "f1", "{"))]
    errors = [line for line in telling if "error" in line.lower() or "panic" in line.lower()]
    return (errors or lines or ["it said nothing"])[-1][:300]
