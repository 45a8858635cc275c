"""Command line: `python -m bench [subject ...] [--quick]`, everything by default; non-zero when a bar is missed."""

import argparse
import importlib
import sys

from bench.measure import QUICK, THOROUGH, table

SUBJECTS = ("quantity", "decode", "members", "elastic")


def main(arguments: list[str] | None = None) -> int:
    """Measure the subjects, print their tables, and say by the exit code whether every bar was met."""
    parser = argparse.ArgumentParser(prog="bench", description="Ratios to a yardstick, measured in one run.")
    parser.add_argument("subjects", nargs="*", metavar="subject", help=f"out of {', '.join(SUBJECTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a few calls only: shows that it runs, judges no bar")
    options = parser.parse_args(arguments)
    unknown = [subject for subject in options.subjects if subject not in SUBJECTS]
    if unknown:
        parser.error(f"nothing is measured under the name {unknown[0]!r}; there is {', '.join(SUBJECTS)}")

    is_missed = False
    for subject in options.subjects or SUBJECTS:
        # Imported when asked for: what one subject compares with need not be installed for another.
        comparisons = importlib.import_module(f"bench.{subject}").run(QUICK if options.quick else THOROUGH)
        print(f"{subject}\n\n{table(comparisons)}\n")
        is_missed = is_missed or any(row.is_missed for row in comparisons)
    return int(is_missed and not options.quick)


if __name__ == "__main__":
    sys.exit(main())
