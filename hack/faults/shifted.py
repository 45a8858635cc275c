"""Runs a Python module with a wall clock that somebody else sets: `python shifted.py FILE MODULE ARGUMENT …`.

FILE holds the seconds to add to the time of day, and may change at any moment. Monotonic clocks go on as they are:
no correction of a machine's clock moves them. Started by the driver in the place of `-m`; it needs nothing of its own
package, and takes care not to be found in the way of the module's imports.
"""

import datetime
import runpy
import sys
import time
from pathlib import Path


def main() -> None:
    """Replace the clocks, then become the module."""
    here, clock, module = Path(sys.argv[0]).parent, Path(sys.argv[1]), sys.argv[2]
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here.resolve()]
    real_time, real_time_ns, real = time.time, time.time_ns, datetime.datetime

    def shift() -> float:
        try:
            return float(clock.read_text() or 0)
        except (OSError, ValueError):  # it is being written
            return 0.0

    class Datetime(real):  # type: ignore[misc, valid-type]
        """datetime, whose now is the shifted one."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            moment: datetime.datetime = cls.fromtimestamp(real_time() + shift(), tz)
            return moment

        @classmethod
        def utcnow(cls) -> datetime.datetime:
            return cls.now(datetime.UTC).replace(tzinfo=None)

    time.time = lambda: real_time() + shift()
    time.time_ns = lambda: real_time_ns() + int(shift() * 1e9)
    datetime.datetime = Datetime  # type: ignore[misc]
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
