"""Runs a program of the product with a wall clock that somebody else sets: `python shifted.py FILE MODULE ARGUMENT …`.

FILE holds the seconds to add to the time of day, and may change at any moment. Monotonic clocks go on as they are: no
correction of a machine's clock moves them. Started by the driver in the place of `-m`; it needs nothing of its own
package, and takes care not to be found in the way of the program's imports.
"""

import datetime
import importlib
import sys
import time
from pathlib import Path

PRODUCT = ("federation_quota", "controllers", "webhook")


def main() -> None:
    """Load the program, replace the clocks in its modules, and run it."""
    here, clock, module = Path(sys.argv[0]).parent, Path(sys.argv[1]), sys.argv[2]
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here.resolve()]
    real_time, real = time.time, datetime.datetime

    def shift() -> float:
        try:
            return float(clock.read_text() or 0)
        except (OSError, ValueError):  # it is being written, or never was
            return 0.0

    class Datetime(real):  # type: ignore[misc, valid-type]
        """datetime, whose now is the shifted one."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return real.fromtimestamp(real_time() + shift(), tz)

    program = importlib.import_module(f"{module}.__main__")
    # After the import: types that decode times are made of the real class, and stay so.
    time.time = lambda: real_time() + shift()
    for name, loaded in list(sys.modules.items()):
        if name.partition(".")[0] in PRODUCT and vars(loaded).get("datetime") is real:
            vars(loaded)["datetime"] = Datetime
    sys.argv = [module, *sys.argv[3:]]
    program.main()


if __name__ == "__main__":
    main()
