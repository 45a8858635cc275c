"""Run one seed alone: `python -m tests.simulation protocol 17`, which is what a failing test says to do."""

import argparse
import sys

from tests.simulation.catalogue import SIMULATIONS


def main() -> int:
    """The exit code: zero if everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("simulation", choices=SIMULATIONS)
    parser.add_argument("seed", type=int)
    parser.add_argument("--mutation", help="take this part of the product out")
    options = parser.parse_args()
    simulation = SIMULATIONS[options.simulation]
    names = [mutation.__name__ for mutation in simulation.mutations]
    if options.mutation is not None and options.mutation not in names:
        parser.error(f"there is no mutation {options.mutation!r}; there is {', '.join(names)}")
    if options.mutation is None:
        outcome = simulation.run(options.seed)
    else:
        outcome = simulation.run_mutated(simulation.mutation(options.mutation), options.seed)
    for event, count in sorted(outcome.counts.items()):
        print(f"{count:8} {event}")  # noqa: T201 - a tool for people
    print(outcome.violation or "everything held")  # noqa: T201
    return int(bool(outcome.violation))


if __name__ == "__main__":
    sys.exit(main())
