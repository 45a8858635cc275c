"""The process that outlives a killed run for just long enough to end what the run had started.

It waits for its standard input to close. If the run said `RELEASE` before, nothing is ended.
"""

import signal
import sys

from localfed import marker

RELEASE = b"release"


def main() -> None:
    """Wait for the run named by the first argument to end, and tidy up unless it released its processes."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    if sys.stdin.buffer.read() != RELEASE:
        end(sys.argv[1])


def end(run: str) -> None:
    """End what that run started, and what was started within it and meant to live on."""
    for mark in (marker.RUN, marker.OUTERMOST):
        marker.end_all(mark, run)


if __name__ == "__main__":
    main()
