"""Elastic trees: 10,000 quotas on four levels, two resources, beside Koordinator's own manager on the same tree.

Koordinator's manager runs in a process of its own (`hack/modules/koordinator`), through what it exports, and says how
long each step took; ours takes its own time likewise. Both by the clock, in alternation, step by step the same:

- From nothing: all quotas, all requests, and then every runtime.
- A whole pass: what there is changes, as when a member is lost, and every quota gets its new runtime.
- One leaf: its request changes, and it gets its new runtime. Beside our own whole pass, too.

Before anything is timed, both must have come to the same runtimes, but for the rounding of the release (half up).
"""

import gc
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.measure import Comparison, Effort, Findings
from federation_quota.elastic.node import Node
from federation_quota.elastic.runtime import Runtimes
from federation_quota.elastic.tree import Tree
from localfed import programs
from localfed.guard import Guard

QUOTAS = 10_000
LEVELS = 4
FANOUT = 10
CHANGES = 300
MIB = 2**20
# Half up instead of the largest remainder, once in every round on every level.
MOST_OFF = 40

Requests = dict[str, dict[str, int]]


def run(effort: Effort) -> Findings:
    """All rows."""
    rounds = 15 if effort.rounds > 10 else 2
    tree, requests = make()
    with tempfile.TemporaryDirectory(prefix="bench-elastic-") as folder, Guard() as guard:
        program = programs.provide(programs.KOORDINATOR, guard) / "koordinator-quota"
        path = Path(folder) / "tree.json"
        path.write_text(json.dumps(written(tree, requests)), encoding="utf-8")
        with Koordinator(program, path) as peer:
            return Findings(_rows(tree, requests, peer, rounds))


def make() -> tuple[Tree, Requests]:
    """A tree as validation lets it be, in which some want less than their min and most want more than there is."""
    chance = random.Random(7)  # noqa: S311 # one tree for everybody, not a secret
    parents = [""]
    places: list[tuple[str, str, bool]] = []
    for _ in range(LEVELS - 1):
        level = [(f"{parent}q{place}", parent) for parent in parents for place in range(FANOUT)]
        places += [(name, parent, True) for name, parent in level]
        parents = [name for name, _ in level]
    for number in range(QUOTAS - len(places)):
        place, of = divmod(number, len(parents))
        places.append((f"{parents[of]}q{place}", parents[of], False))
    mins: dict[str, dict[str, int]] = {}
    for name, parent, is_parent in reversed(places):
        if not is_parent:
            milli = 100 * chance.randint(1, 40)
            mins[name] = {"cpu": milli, "memory": 4 * MIB * milli}
        above = mins.setdefault(parent, {"cpu": 0, "memory": 0})
        for resource, amount in mins[name].items():
            above[resource] += amount
    nodes, requests = [], {}
    for name, parent, is_parent in places:
        times = chance.randint(2, 4)
        most = {resource: amount * times for resource, amount in mins[name].items()}
        nodes.append(Node(name, parent, mins[name], most, is_parent=is_parent))
        if not is_parent:
            requests[name] = {key: amount * chance.randint(0, 40) // 10 for key, amount in mins[name].items()}
    total = {resource: amount * 11 // 10 for resource, amount in mins[""].items()}
    return Tree.of(nodes, total), requests


def written(tree: Tree, requests: Requests) -> dict[str, Any]:
    """The tree as the peer's program reads it."""
    nothing = {"cpu": 0, "memory": 0}
    return {
        "total": dict(tree.total),
        "quotas": [
            {
                "name": node.name,
                "parent": node.parent,
                "isParent": node.is_parent,
                "min": dict(node.min),
                "max": dict(node.max),
                "request": requests.get(node.name, nothing),
            }
            for node in tree.order
            if node is not None
        ],
    }


class Koordinator:
    """The peer's program, asked one step at a time."""

    def __init__(self, program: Path, tree: Path) -> None:
        self._process = subprocess.Popen(
            [program, tree],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            env=os.environ,
        )

    def __enter__(self) -> "Koordinator":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, command: str) -> list[int]:
        """The numbers that it answers."""
        assert self._process.stdin is not None  # noqa: S101 # asked for above
        assert self._process.stdout is not None  # noqa: S101 # asked for above
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"Koordinator's manager ended at {command!r}")
        return [int(number) for number in answer.split()]


def _rows(tree: Tree, requests: Requests, peer: Koordinator, rounds: int) -> list[Comparison]:
    peer.ask("build")
    ours = Runtimes(tree, requests)
    _check_same(ours, peer, requests)
    chance = random.Random(8)  # noqa: S311 # as above
    leaves = sorted(requests)
    built: list[tuple[float, float]] = []
    passed: list[tuple[float, float]] = []
    changed: list[tuple[float, float]] = []
    for _ in range(min(rounds, 3)):  # the peer takes seconds for it
        built.append((_seconds(partial(Runtimes, tree, requests)), peer.ask("build")[0] / 1e9))
    ours = Runtimes(tree, requests)
    _change_leaves(ours, peer, leaves, chance)  # both warm
    for number in range(rounds):
        total = {resource: amount * (9 if number % 2 else 12) // 11 for resource, amount in tree.total.items()}
        mine = _seconds(partial(_resize, ours, total))
        passed.append((mine, peer.ask(f"total {total['cpu']} {total['memory']}")[0] / 1e9))
        changed.append(_change_leaves(ours, peer, leaves, chance))
    full = statistics.median(mine for mine, _ in passed)
    row = "one changed leaf to its new runtime"
    one = statistics.median(mine for mine, _ in changed)
    return [
        _compare(f"{QUOTAS} quotas from nothing to every runtime", built, 1.0),
        _compare("what there is changes, and every runtime", passed, 1.0),
        _compare(row, changed, 1.0),
        Comparison(row, "our own whole pass", one * 1e6, full * 1e6, one / full, 0.05, "us"),
    ]


def _change_leaves(ours: Runtimes, peer: Koordinator, leaves: list[str], chance: random.Random) -> tuple[float, float]:
    """The median of the same changes on both sides, one side after the other."""
    changes = [
        (chance.choice(leaves), {"cpu": chance.randrange(8000), "memory": chance.randrange(32_000) * MIB})
        for _ in range(CHANGES)
    ]
    mine = [_seconds(partial(_change, ours, name, asked)) for name, asked in changes]
    theirs = [peer.ask(f"leaf {name} {asked['cpu']} {asked['memory']}")[0] / 1e9 for name, asked in changes]
    return statistics.median(mine), statistics.median(theirs)


def _resize(ours: Runtimes, total: dict[str, int]) -> None:
    ours.set_total(total)
    ours.settle()


def _change(ours: Runtimes, name: str, asked: dict[str, int]) -> None:
    ours.ask(name, asked)
    ours.runtime(name)


def _check_same(ours: Runtimes, peer: Koordinator, requests: Requests) -> None:
    """That both were asked the same: their runtimes differ by rounding at most."""
    for name in sorted(requests)[::500]:
        milli, size = peer.ask(f"runtime {name}")
        found = ours.runtime(name)
        if abs(found["cpu"] - milli) > MOST_OFF or abs(found["memory"] - size) > MOST_OFF * MIB:
            raise AssertionError(f"{name} has {found} with us, and {milli}, {size} with Koordinator")


def _seconds(call: Callable[[], object]) -> float:
    was_collecting = gc.isenabled()
    gc.disable()  # as timeit does it: its passes fall on whoever happens to be running
    try:
        began = time.perf_counter()
        call()
        return time.perf_counter() - began
    finally:
        if was_collecting:
            gc.enable()


def _compare(what: str, pairs: list[tuple[float, float]], bar: float) -> Comparison:
    mine, theirs = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    return Comparison(what, "Koordinator's manager", mine, theirs, ratio, bar, "us")
