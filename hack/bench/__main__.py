"""Command line: `python -m bench <subject> [--quick]`, non-zero when a bar is missed."""

import argparse
import importlib
import sys

from bench.measure import QUICK, THOROUGH, table

SUBJECTS = ("quantity",)


def main(arguments: list[str] | None = None) -> int:
    """Measure one subject, print its table, and say by the exit code whether every bar was met."""
    parser = argparse.ArgumentParser(prog="bench", description="Ratios to a yardstick, measured in one run.")
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--quick", action="store_true", help="a few calls only: shows that it runs, judges no bar")
    options = parser.parse_args(arguments)

    # Imported when asked for: what one subject compares with need not be installed for another.
    comparisons = importlib.import_module(f"bench.{options.subject}").run(QUICK if options.quick else THOROUGH)
    print(table(comparisons))
    return int(not options.quick and any(row.is_missed for row in comparisons))


if __name__ == "__main__":
    sys.exit(main())
