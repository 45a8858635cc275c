"""Command line: `python -m faults [--seed N] [--only NAME …] [--list]`; non-zero when the checker found anything."""

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from environment import ROOT
from faults import api, certificates, clocks, etcd, freezes, kills, report, roads, storage, streams
from faults.course import Course
from faults.fault import Fault, Scene
from faults.ground import prepared
from faults.load import PLACES, Load, Place, policy
from faults.recorder import recording
from localfed.console import say
from localfed.errors import FederationError
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.interruption import interruptible

LIMIT_SECONDS = 20 * 60.0
# What comes after the last fault: settling, judging, taking down.
RESERVE_SECONDS = 3.5 * 60.0


def catalogue() -> list[Fault]:
    """Every fault there is."""
    return [
        *kills.faults(),
        *freezes.faults(),
        *roads.faults(),
        *streams.faults(),
        *clocks.faults(),
        *storage.faults(),
        *certificates.faults(),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run them all, in the seed's order, and print the report."""
    parser = argparse.ArgumentParser(prog="faults", description="Faults on a real federation under load, and a check.")
    parser.add_argument("--seed", type=int, default=None, help="of the order, of the load's and the faults' choices")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="faults with this in their name")
    parser.add_argument("--list", action="store_true", help="name the faults, and do nothing")
    parser.add_argument("--dir", type=Path, default=ROOT / ".faults", help="for the federation and the report")
    options = parser.parse_args(arguments)
    chosen = [one for one in catalogue() if not options.only or any(name in one.name for name in options.only)]
    if options.list:
        print("\n".join(one.name for one in chosen))
        return 0
    if not chosen:
        parser.error(f"no fault has {' or '.join(options.only)} in its name: see --list")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    deadline = time.monotonic() + LIMIT_SECONDS - RESERVE_SECONDS
    say(f"faults: seed {seed}, {len(chosen)} faults, {LIMIT_SECONDS / 60:.0f} minutes at most")
    folder = options.dir.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with interruptible(), Guard() as guard:
            return asyncio.run(run(folder, guard, chosen, seed, deadline))
    except FederationError as problem:
        say(f"faults: {problem}")
        return 1


async def run(folder: Path, guard: Guard, chosen: list[Fault], seed: int, deadline: float) -> int:
    """One run from nothing; its exit code."""
    rng = random.Random(seed)  # noqa: S311 - to be repeatable
    order = rng.sample(chosen, len(chosen))
    async with prepared(folder / "fed", guard) as ground:
        await asyncio.to_thread(furnish, ground.federation, PLACES)
        async with (
            api.connected(ground.federation) as server,
            etcd.connected(ground.federation) as store,
            recording(store, "faults-") as recorder,
        ):
            load = Load(server, recorder, PLACES, seed)
            course = Course(Scene(ground, recorder, store, rng), load)
            async with ground.supervised(), load.running():
                await course.run(order, deadline)
                leaks = await course.settle()
        verdict = course.verdict(leaks)
        text = report.page(seed, course.outcomes, course.skipped, verdict, load.log.requests)
        keep(folder, text, ground.federation.directory.logs if verdict.problems else None)
    return int(not report.passed(verdict, course.skipped))


def keep(folder: Path, text: str, logs: Path | None) -> None:
    """Print the report, write it beside the federation, and with it, where something was found, everybody's logs."""
    (folder / "report.md").write_text(text)
    print(text)
    if logs:
        shutil.rmtree(folder / "logs", ignore_errors=True)
        shutil.copytree(logs, folder / "logs")
        say(f"faults: the logs are kept in {folder / 'logs'}")


def furnish(federation: Federation, places: Sequence[Place]) -> None:
    """Namespaces, policies and quotas, active."""
    kubectl = federation.kubectl
    kubectl.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace}} for one in places))
    kubectl.apply(*(one.quota() for one in places), *(policy(one.namespace) for one in places if one.is_real))
    for one in places:
        shape = "--for=jsonpath={.status.shape}"
        kubectl("wait", shape, "--timeout=120s", "karmadaquota", "limit", "-n", one.namespace, timeout=150)


if __name__ == "__main__":
    sys.exit(main())
