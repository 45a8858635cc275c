"""Loopback ports that nobody else has, and that nobody else will be given meanwhile.

Chosen below the range from which the kernel takes the ports of outgoing connections, and written down per user, so that
two federations started at the same moment are not given the same one.
"""

import contextlib
import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path

from localfed import cache, lock
from localfed.errors import FederationError

LOOPBACK = "127.0.0.1"
RANGE = range(20000, 32000)


def take(names: list[str], owner: Path) -> dict[str, int]:
    """A free port for each name, kept for the federation in the folder `owner` until `give_back`."""
    with _book() as book:
        taken = {port for ports in book.values() for port in ports}
        candidates = random.sample(RANGE, len(RANGE))
        free = (port for port in candidates if port not in taken and is_free(port))
        try:
            ports = {name: next(free) for name in names}
        except StopIteration:
            raise FederationError(f"no {len(names)} free ports between {RANGE.start} and {RANGE.stop}") from None
        book[str(owner)] = list(ports.values())
        return ports


def give_back(owner: Path) -> None:
    """Forget the ports of the federation in that folder."""
    with _book() as book:
        book.pop(str(owner), None)


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: a connection of the past in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


@contextlib.contextmanager
def _book() -> Iterator[dict[str, list[int]]]:
    """The ports given out, by folder; folders that are gone have given theirs back."""
    path = cache.directory() / "ports.json"
    with lock.hold(path.with_suffix(".lock"), "the list of ports", wait_seconds=60):
        try:
            book: dict[str, list[int]] = json.loads(path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            book = {}
        book = {folder: ports for folder, ports in book.items() if Path(folder).is_dir()}
        yield book
        path.write_text(json.dumps(book))
