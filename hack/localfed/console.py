"""What people see while they wait: progress on standard error, results on standard output."""

import shutil
import sys
import time


class Progress:
    """One long step, shown as it goes: rewritten in place on a terminal, a line now and then elsewhere."""

    LINE_EVERY_SECONDS = 15.0

    def __init__(self, title: str) -> None:
        self._title = title
        self._began = time.monotonic()
        self._last_line = self._began
        self._is_terminal = sys.stderr.isatty()
        say(title)

    def update(self, detail: str) -> None:
        """Tell how far it is; cheap enough to call for every item."""
        now = time.monotonic()
        if self._is_terminal:
            line = f"  {detail} ({duration(now - self._began)})"
            # A line that wraps could not be rewritten.
            print(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)
        elif now - self._last_line >= self.LINE_EVERY_SECONDS:
            self._last_line = now
            say(f"  {detail} ({duration(now - self._began)})")

    def done(self, detail: str = "done") -> None:
        """Close the step with how long it took."""
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr)
        say(f"  {detail} in {duration(time.monotonic() - self._began)}")


def say(line: str) -> None:
    """One line of progress."""
    print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time span, for people: `3:10` or `4.2 s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes else f"{seconds:.1f} s"
