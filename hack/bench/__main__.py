"""Command line: `python -m bench [set ...] [--quick]`; non-zero when a bar is missed.

By default it is every set. What was measured goes into `bench/results.json` as well; a
quick run shows that it runs, and writes nothing.
"""

import argparse
import importlib
import sys

from bench import results
from bench.measure import QUICK, THOROUGH, Findings, table

SETS = ("quantity", "decode", "members", "elastic", "admission", "flood", "limits", "tenants", "growth")


def main(arguments: list[str] | None = None) -> int:
    """Measure the sets, print their tables, and say by the exit code whether every bar was met."""
    parser = argparse.ArgumentParser(prog="bench", description="Ratios to a yardstick, measured in one run.")
    parser.add_argument("sets", nargs="*", metavar="set", help=f"out of {', '.join(SETS)}; default: all of them")
    parser.add_argument("--quick", action="store_true", help="a few calls only: shows that it runs, judges no bar")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sets if name not in SETS]
    if unknown:
        parser.error(f"nothing is measured under the name {unknown[0]!r}; there is {', '.join(SETS)}")

    is_missed = False
    for name in options.sets or SETS:
        # Imported when asked for: what one set compares with need not be installed for another.
        findings: Findings = importlib.import_module(f"bench.{name}").run(QUICK if options.quick else THOROUGH)
        print(f"{name}\n\n{table(findings.rows)}\n", flush=True)
        if not options.quick:
            results.write(name, findings)
            is_missed = is_missed or findings.is_missed
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
