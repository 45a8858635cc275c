"""Choose the fixed seeds anew, and write `seeds.toml`: `python -m tests.simulation.choose`.

To be run after a change to a simulated world, or to what the product does in it. Every seed below `--seeds`, and every
seed that is in the file already, is run once under coverage; and every mutation is run until a few seeds have caught
it. Of these the cheapest set is taken that catches every mutation, shows every event, and goes wherever in the product
any of them went.
"""

import argparse
import ast
import functools
import math
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import coverage

from tests.simulation import seeds
from tests.simulation.catalogue import SIMULATIONS
from tests.simulation.seeds import FILE, FRESH, ROOT, Fixed
from tests.simulation.simulation import Simulation

ENOUGH_CATCHES = 6  # seeds for each mutation, so that one seed can catch several
RARE = 30  # a mutation that few of so many seeds catch is not looked for in more
MOST_SEEDS_FOR_A_MUTATION = 400
HEADER = """\
# The fixed seeds of the simulations, and why each is there. Written by `python -m tests.simulation.choose`.
#
# catches: mutations that the tests run with this seed. Every mutation is caught by one seed of its simulation.
# shows: events that have to happen in this seed. Every event of a simulation is shown by one of its seeds.
# reaches: functions of the product with a step from line to line that no other seed of this simulation takes.
"""

Step = tuple[str, int, int]
"""In a file of the product, from one line to another."""


@dataclass(frozen=True)
class Candidate:
    """A seed, and what it is good for."""

    seed: int
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    steps: frozenset[Step] = frozenset()
    catches: frozenset[str] = frozenset()

    def merits(self, events: Collection[str]) -> frozenset[object]:
        """All that the fixed set would have of it."""
        shown = {("event", name) for name in events if self.counts.get(name)}
        return frozenset({*shown, *(("mutation", name) for name in self.catches), *self.steps})


def observe(simulation: Simulation, seed: int) -> Candidate:
    """Run a seed under coverage."""
    _fill_caches(simulation)
    watched = coverage.Coverage(
        branch=True, data_file=None, config_file=False, include=[f"{ROOT}/{pattern}" for pattern in simulation.reaches]
    )
    began = time.process_time()
    with watched.collect():
        outcome = simulation.run(seed)
    seconds = time.process_time() - began
    if outcome.violation:
        raise SystemExit(f"{simulation.name}, seed {seed} violates: {outcome.violation}")
    data = watched.get_data()
    steps = ((path, *arc) for path in data.measured_files() for arc in data.arcs(path) or ())
    shown = ((str(Path(path).relative_to(ROOT)), begin, end) for path, begin, end in steps)
    return Candidate(seed, seconds, dict(outcome.counts), frozenset(shown))


@functools.cache
def _fill_caches(simulation: Simulation) -> None:
    """Run a seed that is not watched: what the product remembers for good is worked out by the first seed alone."""
    simulation.run(0)


def is_caught(simulation: Simulation, mutation: str, seed: int) -> bool:
    """Whether a seed notices that a part is missing."""
    return bool(simulation.run_mutated(simulation.mutation(mutation), seed).violation)


def candidates(simulation: Simulation, count: int, pool: Executor) -> list[Candidate]:
    """The first seeds and those of the file, with all that they are good for."""
    known = [row.seed for row in seeds.fixed(simulation.name)]
    numbers = sorted({*known, *range(count)})
    observed = {one.seed: one for one in pool.map(functools.partial(observe, simulation), numbers)}
    catches: dict[int, set[str]] = {seed: set() for seed in observed}
    for mutation in simulation.mutations:
        name = mutation.__name__
        caught_by = _catching(simulation, name, [*known, *range(MOST_SEEDS_FOR_A_MUTATION)], pool)
        for seed in caught_by:
            if seed not in observed:
                observed[seed] = pool.submit(observe, simulation, seed).result()
            catches.setdefault(seed, set()).add(name)
        _say(f"{simulation.name}: {name} is caught by {', '.join(map(str, caught_by))}")
    return [
        Candidate(one.seed, one.seconds, one.counts, one.steps, frozenset(catches[one.seed]))
        for one in observed.values()
    ]


def _catching(simulation: Simulation, mutation: str, numbers: Sequence[int], pool: Executor) -> list[int]:
    """The first few of these seeds that catch a mutation, or the first of all where they are rare."""
    found: list[int] = []
    for number in range(0, len(numbers), ENOUGH_CATCHES):
        part = list(dict.fromkeys(numbers[number : number + ENOUGH_CATCHES]))
        caught = pool.map(functools.partial(is_caught, simulation, mutation), part)
        found += [seed for seed, is_it in zip(part, caught, strict=True) if is_it and seed not in found]
        if len(found) >= ENOUGH_CATCHES or (found and number >= RARE):
            return found
    if not found:
        raise SystemExit(f"{simulation.name}: no seed below {MOST_SEEDS_FOR_A_MUTATION} catches {mutation}")
    return found


def choose(simulation: Simulation, among: Collection[Candidate]) -> list[Fixed]:
    """The cheapest set that has every merit of them all, as far as taking the best one each time finds it."""
    merits = {one.seed: one.merits(simulation.events) for one in among}
    missing = frozenset().union(*merits.values())
    if lacking := [event for event in simulation.events if ("event", event) not in missing]:
        raise SystemExit(f"{simulation.name}: no seed shows {', '.join(lacking)}")
    chosen: list[Candidate] = []
    while missing:
        best = max(among, key=lambda one: (len(merits[one.seed] & missing) / one.seconds, -one.seed))
        chosen.append(best)
        missing -= merits[best.seed]
    for one in sorted(chosen, key=lambda one: -one.seconds):
        others = frozenset().union(*(merits[other.seed] for other in chosen if other is not one))
        if merits[one.seed] <= others:
            chosen.remove(one)
    return list(_explained(simulation, sorted(chosen, key=lambda one: one.seed)))


def _explained(simulation: Simulation, chosen: Sequence[Candidate]) -> Iterator[Fixed]:
    by_cost = sorted(chosen, key=lambda one: one.seconds)
    catches = {
        mutation.__name__: next(one.seed for one in by_cost if mutation.__name__ in one.catches)
        for mutation in simulation.mutations
    }
    shows = {event: max(chosen, key=lambda one: one.counts.get(event, 0)).seed for event in simulation.events}
    for one in chosen:
        others = frozenset().union(*(other.steps for other in chosen if other is not one))
        yield Fixed(
            one.seed,
            tuple(name for name, seed in catches.items() if seed == one.seed),
            tuple(event for event, seed in shows.items() if seed == one.seed),
            tuple(sorted({function_at(path, abs(begin)) for path, begin, _ in one.steps - others})),
        )


def function_at(path: str, line: int) -> str:
    """The function, or else the module, that a line of the product is in."""
    module = path.removesuffix(".py").replace("/", ".")
    around = [(begin, name) for begin, end, name in _functions(path) if begin <= line <= end]
    return f"{module}.{max(around)[1]}" if around else module


@functools.cache
def _functions(path: str) -> list[tuple[int, int, str]]:
    return list(_defined(ast.parse((ROOT / path).read_text()), ""))


def _defined(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.lineno, child.end_lineno or child.lineno, prefix + child.name
            yield from _defined(child, f"{prefix}{child.name}.")
        else:
            yield from _defined(child, prefix)


def written(sets: Mapping[str, Iterable[Fixed]]) -> str:
    """The file's text."""
    parts = [HEADER]
    for name, rows in sets.items():
        for row in rows:
            parts.append(f"\n[[{name}]]\nseed = {row.seed}\n")
            parts += (f"{key} = {_array(getattr(row, key))}\n" for key in ("catches", "shows", "reaches"))
    return "".join(parts)


def _array(texts: Sequence[str]) -> str:
    """On one line where it fits."""
    line = "[" + ", ".join(f'"{text}"' for text in texts) + "]"
    return line if len(line) < 100 else "[\n" + "".join(f'    "{text}",\n' for text in texts) + "]"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a tool for people


def main() -> None:
    """Choose, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.choose", description=__doc__)
    parser.add_argument("simulations", nargs="*", metavar="simulation", help="default: all; others stay as they are")
    parser.add_argument("--seeds", type=int, default=400, help="of the protocol; of the others in proportion")
    parser.add_argument("--jobs", type=int, default=None, help="processes; default: one for each core")
    options = parser.parse_args()
    if unknown := set(options.simulations) - SIMULATIONS.keys():
        parser.error(f"there is no simulation {sorted(unknown)[0]!r}; there is {', '.join(SIMULATIONS)}")
    sets = {name: list(seeds.fixed(name)) for name in SIMULATIONS}
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.simulations or SIMULATIONS:
            count = math.ceil(options.seeds * FRESH[name] / FRESH["protocol"])
            found = candidates(SIMULATIONS[name], count, pool)
            sets[name] = choose(SIMULATIONS[name], found)
            seconds = sum(one.seconds for one in found if one.seed in {row.seed for row in sets[name]})
            _say(f"{name}: {len(sets[name])} of {len(found)} seeds, {seconds:.1f} s of CPU under coverage")
            FILE.write_text(written(sets))


if __name__ == "__main__":
    main()
