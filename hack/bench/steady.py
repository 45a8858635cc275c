"""What one event costs beside few bindings and beside many, all sizes in one process and in turns.

`python -m bench.steady ROLE NAMESPACES ROUNDS CALLS SIZE...` prints what came out: nanoseconds of the processor per
change or admission, by round. ROLE is `webhook` or `controllers`; or `decoding`, for what it takes to decode every
binding beside working out every account from them.
"""

import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import structlog

from bench import stored
from bench.world import Controllers, Replica, listed
from federation_quota import karmadaquota
from federation_quota.accounting.observation import Observation
from federation_quota.kube import codec
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.judging import Books
from federation_quota.ledger.view import View

Figures = dict[str, dict[int, list[float]]]
"""What was measured, by size, a figure for each round."""


def in_a_process(role: str, namespaces: int, rounds: int, calls: int, sizes: Sequence[int]) -> Figures:
    """Measure in a process of its own."""
    numbers = (str(number) for number in (namespaces, rounds, calls, *sizes))
    command = [sys.executable, "-m", "bench.steady", role, *numbers]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ).stdout
    told: dict[str, dict[str, list[float]]] = json.loads(said.splitlines()[-1])
    return {what: {int(size): times for size, times in found.items()} for what, found in told.items()}


async def measure(role: str, namespaces: int, rounds: int, calls: int, sizes: Sequence[int]) -> Figures:
    """So many changes and admissions in each of so many rounds, at every size in turn."""
    bindings = listed(max(sizes), namespaces)
    if role == "decoding":
        return _decoding(bindings, namespaces, rounds)
    kind = Replica if role == "webhook" else Controllers
    found: Figures = {}
    async with AsyncExitStack() as stack:
        worlds = [await stack.enter_async_context(kind(bindings[:size], namespaces)) for size in sizes]
        gc.collect()
        gc.disable()  # as timeit does: its passes fall on whoever happens to be running
        for number in range(rounds):
            # Whatever comes first pays for a cold cache: they take turns at it.
            for world in worlds[:: 1 if number % 2 else -1]:
                found.setdefault("change", {}).setdefault(world.count, []).append(await world.change(calls))
                if isinstance(world, Replica):
                    found.setdefault("admission", {}).setdefault(world.count, []).append(await world.admit(calls))
        gc.enable()
    return found


def _decoding(bindings: Sequence[bytes], namespaces: int, rounds: int) -> Figures:
    accounts = [karmadaquota.read(stored.quota(number)) for number in range(namespaces)]
    decoding: list[float] = []
    recomputing: list[float] = []
    for _ in range(rounds):
        began = time.process_time_ns()
        items = [codec.decode_stored_binding(body) for body in bindings]
        decoding.append(time.process_time_ns() - began)
        observation = Observation()
        BindingMirror(observation).replace(items, 1)
        del items
        known = observation.view
        entries = [(place, name, entry) for place in known.namespaces() for name, entry in known.entries(place).items()]
        began = time.process_time_ns()
        view = View()
        view.replace(entries, 1)
        for account in accounts:
            karmadaquota.status(account, Books(account, view).used)
        recomputing.append(time.process_time_ns() - began)
    return {"decode": {len(bindings): decoding}, "recompute": {len(bindings): recomputing}}


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    role, *numbers = sys.argv[1:]
    namespaces, rounds, calls, *sizes = map(int, numbers)
    print(json.dumps(asyncio.run(measure(role, namespaces, rounds, calls, sizes))))
