"""One at a time, between processes: a file lock that the kernel lets go of when its holder dies."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from localfed.console import say
from localfed.errors import FederationError


@contextlib.contextmanager
def hold(path: Path, purpose: str, wait_seconds: float = 1800.0) -> Iterator[None]:
    """Hold the lock at `path`, waiting for whoever has it, and telling the person for whom."""
    deadline = time.monotonic() + wait_seconds
    has_told = False
    while (file := _try(path)) is None:
        if time.monotonic() > deadline:
            raise FederationError(f"gave up after {wait_seconds:.0f} s waiting for {purpose} ({path})")
        if not has_told:
            has_told = True
            say(f"waiting for {purpose}, which process {_holder(path)} is busy with")
        time.sleep(0.1)
    with file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _try(path: Path) -> TextIO | None:
    """The locked file, or None while another holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except FileNotFoundError:  # its last holder removed the folder in this moment
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last holder may have removed the file and its folder: then this is a lock that nobody else will see.
        if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    file.close()
    return None


def _holder(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return path.read_text().strip() or "?"
    return "?"
