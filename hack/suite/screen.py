"""What people see of a run: one line of progress over all lanes, each failure at once, and the summary."""

import sys
import time
from typing import TextIO

from suite.report import Report, duration

LINE_EVERY_SECONDS = 15.0
WIDTH = 150


class Screen:
    """Standard output: the line is rewritten in place on a terminal, and printed now and then elsewhere."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._began = self._last_line = time.monotonic()

    def progress(self, report: Report, running: dict[str, float]) -> None:
        """How far it is; `running` has the tests that run, and since when."""
        now = time.monotonic()
        if not self._is_terminal and now - self._last_line < LINE_EVERY_SECONDS:
            return
        self._last_line = now
        done = report.count("passed") + report.count("failed") + report.count("skipped")
        line = f"[{duration(now - self._began)}] {done} done, {report.count('failed')} failed, "
        line += f"{len(running)} running, {report.left} left"
        if running:
            slowest = min(running, key=lambda name: running[name])
            line += f"; longest: {slowest.rpartition('/')[2]} ({now - running[slowest]:.0f} s)"
        if self._is_terminal:
            self._stream.write(f"\r\033[K{line[:WIDTH]}")
            self._stream.flush()
        else:
            self.say(line[:WIDTH])

    def failure(self, title: str, text: str) -> None:
        """A failure, whole, as soon as it is known."""
        self.say(f"\n{'=' * 20} {title} {'=' * 20}\n{text.rstrip()}\n{'=' * (42 + len(title))}")

    def say(self, line: str) -> None:
        """A line that stays."""
        self._stream.write(("\r\033[K" if self._is_terminal else "") + line + "\n")
        self._stream.flush()
