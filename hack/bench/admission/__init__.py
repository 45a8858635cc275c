"""Admissions on a real federation: ours beside no webhook, one that decides nothing, and Karmada's own.

All four stand side by side on one federation and take short turns, in another order each round, so that noise, and what
others leave behind, hits all alike. What is judged are the medians of the rounds' ratios. Bindings are
as Karmada writes them with its gate ResourceQuotaEstimate on, which says their priority class; one scene shows what
reading it from the template costs.
"""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench.admission import load, setups
from bench.admission.gauges import Gauges, Reading
from bench.admission.load import Clients, Request, Told
from bench.admission.setups import ALL, ALLOW, KARMADA, NONE, ORDERS, OURS, Ground
from bench.measure import Comparison, Effort, Findings
from federation_quota.kube import config

CREATE: Final = "create"
SCALE: Final = "scale"
DENY: Final = "deny"

_PLENTY: Final = "1000000"
_FULL: Final = "1"
_FILLING: Final = 10
"""So many replicas take all of a full quota: what is refused then is refused beside something, as in life."""
_MOST_TRIES: Final = 1000
_PAUSE_SECONDS: Final = 0.7
_AFTERMATH_SECONDS: Final = 7.0


@dataclass(frozen=True, slots=True)
class Scene:
    """One kind of load, and what is expected of us under it."""

    name: str
    clients: int
    quotas: int = 1
    kind: str = CREATE
    replicas: int = 1
    says_class: bool = True  # whether the bindings say their priority class
    of_allow: float | None = None  # the least ratio of our rate to that of the webhook that decides nothing
    of_karmada: float | None = None

    @property
    def is_judged(self) -> bool:
        """Whether a bar is to be met in it: others are played half as often, to be done in 20 minutes."""
        return self.of_allow is not None or self.of_karmada is not None


HOT: Final = Scene("hot quota, 32 clients", 32, of_allow=0.9, of_karmada=10)
SCENES: Final = (
    # Ten times what Karmada's own does for 8 clients would be more than an API server does without any webhook.
    Scene("hot quota, 8 clients", 8, of_allow=0.9),
    HOT,
    Scene("hot quota, 128 clients", 128, of_allow=0.9, of_karmada=10),
    Scene("50 quotas, 64 clients", 64, quotas=50, of_allow=0.8, of_karmada=1.5),
    Scene("updates, 32 clients", 32, kind=SCALE),
    Scene("denials, 32 clients", 32, kind=DENY, of_allow=1.0),
    Scene("hot quota, 32 clients, class not said", 32, says_class=False),
    Scene("hot quota, 32 clients, 2 replicas", 32, replicas=2),
)
CPU_BAR: Final = 2.5
"""The most that our webhook may spend on an admission, of what the one that decides nothing does."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one set-up did in one turn."""

    told: Told
    cost: Reading

    @property
    def asked(self) -> int:
        """All requests, however they ended."""
        return len(self.told.latencies) + self.told.others.total()

    def cpu(self, part: str) -> float:
        """Processor time per request, in milliseconds."""
        return 1000 * self.cost.seconds.get(part, 0.0) / max(1, self.asked)


@dataclass(slots=True)
class Measured:
    """A scene, as it went."""

    scene: Scene
    turns: dict[str, list[Turn]] = field(default_factory=lambda: {setup: [] for setup in ALL})
    writes: dict[str, float] = field(default_factory=dict)  # of statuses, for each admission; others make none

    def median(self, setup: str, of: Callable[[Turn], float]) -> float:
        """Of all its turns."""
        return statistics.median(of(turn) for turn in self.turns[setup])

    def errors(self, setup: str) -> dict[str, int]:
        """How requests ended that did not end as wanted."""
        found: dict[str, int] = {}
        for turn in self.turns[setup]:
            for words, count in turn.told.others.items():
                found[words] = found.get(words, 0) + count
        return found

    def compare(
        self, what: str, other: str, of: Callable[[Turn], float], bar: float | None, **more: object
    ) -> Comparison:
        """Ours and another's, and the median of the rounds' ratios."""
        pairs = zip(self.turns[OURS], self.turns[other], strict=True)
        ratios = [of(ours) / max(of(theirs), 1e-9) for ours, theirs in pairs]
        row = Comparison(
            f"{self.scene.name}: {what}",
            other,
            self.median(OURS, of),
            self.median(other, of),
            statistics.median(ratios),
            bar,
        )
        return replace(row, **more)  # type: ignore[arg-type]


def run(effort: Effort) -> Findings:
    """Every scene."""
    is_thorough = effort.rounds > 10
    measured = asyncio.run(measure(SCENES, 8, 1.5) if is_thorough else measure([HOT], 1, 1.0))
    return Findings(list(_rows(measured)), list(_figures(measured)))


async def measure(scenes: Sequence[Scene], rounds: int, seconds: float) -> list[Measured]:
    """Play these scenes on a federation that is made for it."""
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, setups.ground(Path(folder)) as ground:
        connection = await config.load(kubeconfig=str(ground.federation.directory.kubeconfig))
        async with Clients(connection, most=256) as clients:
            for number, scene in enumerate(scenes):
                theatre = Theatre(ground, clients, scene, f"n{number}")
                found.append(await theatre.play(rounds if scene.is_judged else rounds // 2, seconds))
                _print(found[-1])
    return found


class Theatre:
    """One scene, on the federation that is there."""

    def __init__(self, ground: Ground, clients: Clients, scene: Scene, prefix: str) -> None:
        self._ground = ground
        self._clients = clients
        self._scene = scene
        ground.replicas(scene.replicas)
        cpu = _FULL if scene.kind == DENY else _PLENTY
        self._namespaces = {setup: ground.namespaces(setup, prefix, scene.quotas, cpu) for setup in ALL}

    async def play(self, rounds: int, seconds: float) -> Measured:
        """So many rounds, each with a turn for everybody."""
        measured = Measured(self._scene)
        await self._prepare()
        for setup in (OURS, KARMADA):
            measured.writes[setup] = await self._writes(setup, seconds)
        for number in range(rounds):
            for setup in ORDERS[number % len(ORDERS)]:
                measured.turns[setup].append(await self._turn(setup, f"r{number}", seconds))
        return measured

    async def _turn(self, setup: str, prefix: str, seconds: float) -> Turn:
        gauges = Gauges(self._clients, self._ground.processes()[setup])
        is_denied = self._scene.kind == DENY and setup in (OURS, KARMADA)
        wanted = load.is_denied if is_denied else load.is_stored
        plans = list(self._plans(setup, prefix))
        # What is measured is a load that lasts: how everybody gets into it after a pause is not.
        await self._clients.turn(plans, seconds / 2, wanted)
        before = gauges.processors()
        told = await self._clients.turn(plans, seconds, wanted)
        cost = gauges.processors().since(before)
        await self._clear(setup)
        return Turn(told, cost)

    async def _writes(self, setup: str, seconds: float) -> float:
        """How many statuses are written for each admission: in a turn of its own, because counting disturbs."""
        gauges = Gauges(self._clients, {})
        plans = list(self._plans(setup, "count"))
        await self._clients.turn(plans, seconds / 2)
        before = await gauges.read()
        told = await self._clients.turn(plans, seconds)
        writes = (await gauges.read()).since(before).writes
        await self._clear(setup)
        return writes / max(1, len(told.latencies))

    def _plans(self, setup: str, prefix: str) -> Iterator[Iterator[Request]]:
        for number, namespace in self._seats(setup):
            if self._scene.kind == SCALE:
                yield load.scalings(namespace, f"s-{number}")
            else:
                yield load.creations(namespace, f"{prefix}-{number}", says_class=self._scene.says_class)

    def _seats(self, setup: str) -> Iterator[tuple[int, str]]:
        """Each client's number and namespace."""
        namespaces = self._namespaces[setup]
        for number in range(self._scene.clients):
            yield number, namespaces[number % len(namespaces)]

    async def _prepare(self) -> None:
        """The bindings that are scaled, or that fill a quota."""
        if self._scene.kind == SCALE:
            for setup in ALL:
                for number, namespace in self._seats(setup):
                    await self._create(load.creation(namespace, f"s-{number}"))
        elif self._scene.kind == DENY:
            for setup in (OURS, KARMADA):
                for namespace in self._namespaces[setup]:
                    await self._create(load.creation(namespace, "full", _FILLING))

    async def _create(self, request: Request) -> None:
        for _ in range(_MOST_TRIES):  # Karmada's own fails most of them
            status, _ = await self._clients.ask(request)
            if status in (201, 409):
                return
        raise RuntimeError(f"{request.path}: not created, {status}")

    async def _clear(self, setup: str) -> None:
        """Away with what was created, and a moment for everybody to see it go: the next turn is another's."""
        is_kept = self._scene.kind == SCALE or (self._scene.kind == DENY and setup in (OURS, KARMADA))
        if not is_kept:
            await asyncio.gather(*(self._clients.ask(load.deletion(one)) for one in self._namespaces[setup]))
        # Ours gives back what it took in advance once it has rested: of many quotas, that is a load of its own.
        await asyncio.sleep(_AFTERMATH_SECONDS if setup == OURS and self._scene.quotas > 1 else _PAUSE_SECONDS)


def _rows(measured: Sequence[Measured]) -> Iterator[Comparison]:
    for one in measured:
        scene = one.scene
        for other, bar in ((ALLOW, scene.of_allow), (KARMADA, scene.of_karmada), (NONE, None)):
            yield one.compare("per second", other, lambda turn: turn.told.rate, bar, unit="/s", at_least=True)
        cpu_bar = CPU_BAR if scene.of_allow is not None else None
        yield one.compare("webhook's CPU", ALLOW, lambda turn: turn.cpu("webhook"), cpu_bar, unit="ms")
        failed, asked = sum(one.errors(OURS).values()), sum(turn.asked for turn in one.turns[OURS])
        yield Comparison(f"{scene.name}: errors", "requests", failed, asked, failed / asked, 0.0, unit="")


def _figures(measured: Sequence[Measured]) -> Iterator[dict[str, object]]:
    for one in measured:
        for setup in ALL:
            yield {
                "scene": one.scene.name,
                "setup": setup,
                "perSecond": one.median(setup, lambda turn: turn.told.rate),
                "p50ms": one.median(setup, lambda turn: turn.told.percentile(0.5)),
                "p99ms": one.median(setup, lambda turn: turn.told.percentile(0.99)),
                "errors": one.errors(setup),
                "statusWritesPerAdmission": one.writes.get(setup, 0.0),
                "cpuMillisecondsPerRequest": {
                    part: one.median(setup, lambda turn, part=part: turn.cpu(part))  # type: ignore[misc]
                    for part in one.turns[setup][0].cost.seconds
                },
            }


def _print(measured: Measured) -> None:
    """Progress, and the figures behind the rows."""
    for figures in _figures([measured]):
        cpu = figures["cpuMillisecondsPerRequest"]
        assert isinstance(cpu, dict)  # noqa: S101 - as built above
        told = ", ".join(f"{part} {spent:.2f}" for part, spent in cpu.items())
        print(
            f"{figures['scene']:38} {figures['setup']:14} {figures['perSecond']:6.0f}/s  "
            f"p50 {figures['p50ms']:6.1f} ms  p99 {figures['p99ms']:7.1f} ms  "
            f"{figures['statusWritesPerAdmission']:6.3f} writes  CPU ms: {told}  {figures['errors'] or ''}",
            file=sys.stderr,
            flush=True,
        )
