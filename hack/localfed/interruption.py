"""Ctrl-C and a polite kill: both end a block of work with everything it started cleaned up."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from localfed.errors import InterruptedByUserError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal into `InterruptedByUserError`; later ones do not cut the cleaning up short."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for later in SIGNALS:
            signal.signal(later, signal.SIG_IGN)
        raise InterruptedByUserError("interrupted; what was started has been stopped")

    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
