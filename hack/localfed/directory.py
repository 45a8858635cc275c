"""The folder of one federation: whose it is, what runs in it, and what is written where.

The state is one JSON file, replaced whole. It says what was asked for and which processes were started; whether those
still run is asked of the operating system, never of the file.
"""

import dataclasses
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localfed.errors import FederationError

STATE = "federation.json"
LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a federation is asked to be."""

    members: int = 2
    karmada: bool = True
    nodes: int = 0  # per member; with nodes, a member also runs pods
    quota: int = 0  # replicas of federation-quota's own deployables
    capacity: dict[str, str] = field(default_factory=lambda: {"cpu": "8", "memory": "32Gi", "pods": "110"})
    flags: dict[str, list[str]] = field(default_factory=dict)  # more arguments, by process name
    runners: dict[str, list[str]] = field(default_factory=dict)  # for a Python process: what runs it, instead of `-m`

    def __str__(self) -> str:
        nodes = f" with {self.nodes} nodes each" if self.nodes else ""
        quota = f", federation-quota with {self.quota} replicas" if self.quota else ""
        return f"{self.members} members{nodes}, {'with' if self.karmada else 'without'} Karmada{quota}"


@dataclass(frozen=True, slots=True)
class Started:
    """A process as it was started: the pid alone could come to mean another one."""

    pid: int
    created: float


@dataclass(slots=True)
class State:
    """What the folder remembers."""

    shape: Shape
    ports: dict[str, int]
    programs: dict[str, str]  # set name -> folder
    is_up: bool = False  # False while the first `up` is at work: after a crash, nothing here is worth keeping
    processes: dict[str, Started] = field(default_factory=dict)


class Directory:
    """One federation's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.lock = self.path / LOCK
        self.logs = self.path / "logs"
        self.pki = self.path / "pki"
        self.kubeconfig = self.path / "kubeconfig"
        self.etcd = self.path / "etcd"

    def claim(self) -> None:
        """Make the folder, or make sure that an existing one is a federation's or empty."""
        if self.path.exists() and not self.path.is_dir():
            raise FederationError(f"{self.path} is not a folder: choose another with --dir")
        strangers = {entry.name for entry in self.path.iterdir()} - {LOCK} if self.path.exists() else set()
        if strangers and STATE not in strangers:
            raise FederationError(
                f"{self.path} holds other files ({', '.join(sorted(strangers)[:3])}): choose an empty or new folder "
                "with --dir"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise FederationError(f"cannot make {self.path}: {error.strerror}") from error

    def log(self, name: str) -> Path:
        """Where a process writes what it says."""
        return self.logs / f"{name}.log"

    def load(self) -> State | None:
        """What the folder remembers; None where there is no federation."""
        try:
            raw: dict[str, Any] = json.loads((self.path / STATE).read_text())
        except FileNotFoundError:
            return None
        except (OSError, json.JSONDecodeError) as error:
            raise FederationError(f"{self.path / STATE} cannot be read: {error}. `down` clears it away.") from error
        processes = {name: Started(**started) for name, started in raw.pop("processes").items()}
        return State(**{**raw, "shape": Shape(**raw["shape"])}, processes=processes)

    def save(self, state: State) -> None:
        """Remember."""
        part = self.path / f"{STATE}.part"
        part.write_text(json.dumps(dataclasses.asdict(state), indent=1))
        part.rename(self.path / STATE)

    def clear(self, *, keep: frozenset[str] = frozenset()) -> None:
        """Remove everything but the lock, which the caller holds, and what is named."""
        for entry in self.path.iterdir():
            if entry.name == LOCK or entry.name in keep:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def remove(self) -> None:
        """Remove the folder, the lock last."""
        self.clear()
        shutil.rmtree(self.path)
