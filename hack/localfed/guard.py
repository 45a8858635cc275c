"""Nothing is left behind: the processes of one run end with it, unless the run releases them.

A `Guard` starts processes for a run: an `up`, a build, a test session. When its block is left, or the process that
holds it dies in whatever way (kill -9 included), everything it started ends too: a watchdog in a session of its own
sees the pipe close. `release` is the one way out: what was started then lives on.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from localfed import marker, watchdog


class Guard:
    """The owner of one run's processes."""

    def __init__(self) -> None:
        self.run = uuid.uuid4().hex
        self._watchdog: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._watchdog = subprocess.Popen(
            [sys.executable, watchdog.__file__, self.run],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the run, not for its watchdog
            env={"PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        return self

    def start(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        output: IO[Any] | int,
        directory: Path,
        descriptors: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a process of this run, in a session of its own so that the terminal's signals pass it by.

        `descriptors` are files of ours that it keeps open under the same numbers.
        """
        if self._watchdog is None or self._watchdog.poll() is not None:
            raise RuntimeError("a guard starts processes only while it is held")
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**environment, marker.RUN: self.run, marker.OUTERMOST: os.environ.get(marker.OUTERMOST, self.run)},
            cwd=directory,
            pass_fds=descriptors,
        )

    def release(self) -> None:
        """Let everything that was started live on after this run."""
        self._dismiss(watchdog.RELEASE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._watchdog is not None:
            watchdog.end(self.run)
            self._dismiss(watchdog.RELEASE)

    def _dismiss(self, word: bytes) -> None:
        if self._watchdog is not None:
            self._watchdog.communicate(word)
            self._watchdog = None
