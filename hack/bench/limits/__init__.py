"""Limits of users and groups: 1,000 users in 200 groups, five levels, 32 clients at once, two replicas of the webhook.

Three trees of one shape stand side by side, with the same people: one without limits, one whose limits nobody reaches,
and one in which they are reached all the time. In the first two the clients create bindings of people drawn at random,
in turns, and what is compared is how many are admitted in a second. In the third they create and delete, and most of
what they ask for is too much for somebody.

Every version that is stored meanwhile is held against all limits, by a watch and a checker of their own. As in
`admission`, Karmada's scheduler and controllers are ended.
"""

import asyncio
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.admission import setups
from bench.admission.gauges import Gauges, Reading
from bench.admission.load import Clients, Request, Told
from bench.admission.setups import OURS, Ground, labels_of
from bench.limits.estate import ROOMY, TIGHT, Estate, ask_all, estate
from bench.limits.witness import Witness, witnessing
from bench.measure import QUICK, Comparison, Effort, Findings
from faults.allowances import ROOT, Allowances, Subject
from federation_quota.kube import config
from federation_quota.kube.client import Client

USERS: Final = 1000
GROUPS: Final = 200
CLIENTS: Final = 32
BAR: Final = 0.7
FREE: Final = "without limits"
LIMITED: Final = "with limits"
PRESSED: Final = "at the limits"

_BASE: Final = "base"
_KEPT: Final = 24
"""So many of its own a client keeps at the limits, and deletes the oldest then."""
_CROWDED: Final = 8
"""At the limits everybody who asks is of these few groups: they meet each other."""
_READY_SECONDS: Final = 120.0
_REST_SECONDS: Final = 90.0
_QUIET_WRITES: Final = 3


@dataclass(slots=True)
class Side:
    """What was seen of one tree."""

    estate: Estate
    allowances: Allowances
    turns: list[Told] = field(default_factory=list)
    costs: list[Reading] = field(default_factory=list)
    writes: float = 0.0  # of statuses, for each admission

    @property
    def rate(self) -> float:
        """Admissions in a second."""
        return statistics.median(one.rate for one in self.turns)

    @property
    def others(self) -> Counter[str]:
        """How requests ended that were not stored."""
        return sum((one.others for one in self.turns), Counter())

    @property
    def asked(self) -> int:
        """All requests, however they ended."""
        return sum(len(one.latencies) for one in self.turns) + self.others.total()

    def cpu(self, part: str) -> float:
        """Processor time for each request, in milliseconds."""
        pairs = zip(self.costs, self.turns, strict=True)
        return statistics.median(
            1000 * cost.seconds.get(part, 0.0) / max(1, len(told.latencies) + told.others.total())
            for cost, told in pairs
        )


def run(effort: Effort) -> Findings:
    """All three trees."""
    is_quick = effort is QUICK
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, setups.ground(Path(folder)) as ground:
        ground.replicas(2)
        size = (40, 8) if is_quick else (USERS, GROUPS)
        return asyncio.run(measure(ground, *size, *((1, 1.0) if is_quick else (6, 3.0))))


async def measure(ground: Ground, users: int, groups: int, rounds: int, seconds: float) -> Findings:
    """So many people, and so many rounds."""
    connection = await config.load(kubeconfig=str(ground.federation.directory.kubeconfig))
    terms = {FREE: None, LIMITED: ROOMY, PRESSED: TIGHT}
    sides = {
        name: side(estate(ground.federation, f"tree{number}", users, groups, found))
        for number, (name, found) in enumerate(terms.items())
    }
    async with (
        Clients(connection, most=2 * CLIENTS) as clients,
        Client(connection, connections=4) as client,
        witnessing(client, (one.allowances for one in sides.values())) as witness,
    ):
        gauges = Gauges(clients, ground.processes()[OURS])
        for name, one in sides.items():
            began = time.perf_counter()
            await settle(one, clients, labels_of(OURS))
            _say(f"{name}: {users} users have settled in {time.perf_counter() - began:.1f} s")
        for one in (sides[FREE], sides[LIMITED]):
            await _count(one, clients, gauges, witness, seconds)
        for number in range(rounds):
            names = (FREE, LIMITED) if number % 2 else (LIMITED, FREE)
            for name in names:
                await turn(sides[name], clients, gauges, witness, f"r{number}", seconds)
                _say(f"{name}: {sides[name].turns[-1].rate:.0f}/s")
        for number in range(max(1, rounds // 2)):
            await turn(sides[PRESSED], clients, gauges, witness, f"r{number}", seconds)
            _say(f"{PRESSED}: {_told(sides[PRESSED])}")
    _check_pressed(sides[PRESSED])
    figures = list(_figures(sides))
    for figure in figures:
        _say(", ".join(f"{name} {_short(value)}" for name, value in figure.items()))
    return Findings(list(_rows(sides)), figures)


def side(where: Estate) -> Side:
    """A tree that nobody has used yet."""
    found = Allowances(where.tree)
    for one in where.nodes():
        found.take("ADDED", one)
    return Side(where, found)


async def settle(one: Side, clients: Clients, labels: dict[str, str]) -> None:
    """The tree, everybody's Deployments in it, and a binding for everybody that stays."""
    where = one.estate
    where.prepare(labels)
    deadline = time.monotonic() + _READY_SECONDS
    while not where.is_ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the quotas of {where.tree} are not in force")
        await asyncio.sleep(0.5)
    await ask_all(clients, where.templates(), CLIENTS)
    people = where.people
    await ask_all(clients, (where.creation(who, who.leaves[0], f"b-{who.name}", _BASE) for who in people), CLIENTS)


async def turn(one: Side, clients: Clients, gauges: Gauges, witness: Witness, name: str, seconds: float) -> None:
    """One turn; at the end everything is as it was, and all has been looked at."""
    plans = [plan(one.estate, f"{name}-{number}", name) for number in range(CLIENTS)]
    is_pressed = one.estate.terms is TIGHT
    if not is_pressed:
        # What is measured is a load that lasts: how everybody gets into it after a pause is not.
        await clients.turn(plans, seconds / 3)
    before = gauges.processors()
    one.turns.append(await clients.turn(plans, seconds, is_created))
    one.costs.append(gauges.processors().since(before))
    await _clear(one, clients, gauges, witness, name)


async def _count(one: Side, clients: Clients, gauges: Gauges, witness: Witness, seconds: float) -> None:
    """How many statuses are written for each admission: in a turn of its own, because counting disturbs."""
    plans = [plan(one.estate, f"count-{number}", "count") for number in range(CLIENTS)]
    await clients.turn(plans, seconds / 3)
    before = await gauges.read()
    told = await clients.turn(plans, seconds)
    one.writes = (await gauges.read()).since(before).writes / max(1, len(told.latencies))
    await _clear(one, clients, gauges, witness, "count")


async def _clear(one: Side, clients: Clients, gauges: Gauges, witness: Witness, name: str) -> None:
    """Away with what was created, until nobody writes any more of it: the next turn is another's."""
    await asyncio.gather(*(clients.ask(request) for request in one.estate.clearings(name)))
    await witness.judge()
    deadline = time.monotonic() + _REST_SECONDS
    before = await gauges.read()
    while time.monotonic() < deadline:
        await asyncio.sleep(1.0)
        now = await gauges.read()
        if now.since(before).writes <= _QUIET_WRITES:
            return
        before = now
    _say(f"{one.estate.tree}: statuses are still written {_REST_SECONDS:.0f} s after the turn")


def is_created(status: int, _body: bytes) -> bool:
    """Whether something was admitted: at the limits, deletions are between."""
    return status == 201


def plan(where: Estate, prefix: str, turn_name: str) -> Iterator[Request]:
    """One client's: people and their leaves drawn at random, from the same seed wherever they are all drawn from."""
    chance = random.Random(prefix)  # noqa: S311 # the same people for everybody, not a secret
    kept: deque[tuple[int, str]] = deque()
    people = where.people
    if where.terms is TIGHT:
        people = tuple(one for one in people if one.number % where.groups < _CROWDED)
    for number in itertools.count():
        who = chance.choice(people)
        leaf = chance.choice(who.leaves)
        name = f"{prefix}-{number}"
        yield where.creation(who, leaf, name, turn_name)
        if where.terms is TIGHT:
            kept.append((leaf, name))
            if len(kept) > _KEPT:
                yield where.deletion(*kept.popleft())


def _check_pressed(one: Side) -> None:
    """Where nobody came to a limit, nothing was shown."""
    reached = {(subject.kind, subject.node == ROOT) for subject in one.allowances.reached}
    if len(reached) < 4:
        raise RuntimeError(f"limits were reached by {reached} alone: nothing was tried of the others")


def _rows(sides: dict[str, Side]) -> Iterator[Comparison]:
    free, limited = sides[FREE], sides[LIMITED]
    size = f"{len(free.estate.people)} users, {free.estate.groups} groups, 5 levels, {CLIENTS} clients"
    ratios = [ours.rate / theirs.rate for ours, theirs in zip(limited.turns, free.turns, strict=True)]
    ratio = statistics.median(ratios)
    yield Comparison(f"{size}: per second", FREE, limited.rate, free.rate, ratio, BAR, unit="/s", at_least=True)
    ours, theirs = limited.cpu("webhook"), free.cpu("webhook")
    yield Comparison(f"{size}: webhook's CPU", FREE, ours, theirs, ours / max(theirs, 1e-9), None, unit="ms")
    failed, asked = limited.others.total() + free.others.total(), limited.asked + free.asked
    yield Comparison(f"{size}: errors", "requests", failed, asked, failed / max(1, asked), 0.0, unit="")
    breaches = sum(len(one.allowances.breaches) for one in sides.values())
    versions = sum(one.allowances.versions for one in sides.values())
    yield Comparison(
        f"{size}: limits exceeded", "versions stored", breaches, versions, breaches / versions, 0.0, unit=""
    )


def _figures(sides: dict[str, Side]) -> Iterator[dict[str, object]]:
    for name, one in sides.items():
        yield {
            "setup": name,
            "perSecond": one.rate,
            "p50ms": statistics.median(told.percentile(0.5) for told in one.turns),
            "p99ms": statistics.median(told.percentile(0.99) for told in one.turns),
            "others": dict(one.others),
            "statusWritesPerAdmission": one.writes,
            "cpuMillisecondsPerRequest": {part: one.cpu(part) for part in one.costs[0].seconds},
            "versions": one.allowances.versions,
            "limitsReached": _reached(one.allowances.reached),
        }


def _reached(found: Counter[Subject]) -> dict[str, int]:
    """How often somebody came to a limit, on the tree and below it."""
    told: Counter[str] = Counter()
    for subject, count in found.items():
        told[f"{subject.kind}, {'the tree' if subject.node == ROOT else 'below it'}"] += count
    return dict(told)


def _told(one: Side) -> str:
    reached = _reached(one.allowances.reached)
    return f"{one.turns[-1].rate:.0f}/s, {dict(one.turns[-1].others)}, reached {reached}"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_short(one)}" for name, one in value.items()) + "}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _say(text: str) -> None:
    print(f"limits: {text}", file=sys.stderr, flush=True)
