"""The federation that faults happen on: its processes, and a proxy on every road that the product uses.

It comes up as any local federation does. Then the product is started anew with its roads led through proxies that can
be made to fail: each replica's to the API server, the API server's to the webhook, and everybody's to a member.
"""

import asyncio
import contextlib
import dataclasses
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from faults import shifted
from localfed import kubeconfig, process, quota
from localfed.controlplane import FEDERATION
from localfed.directory import Shape, State
from localfed.errors import FederationError
from localfed.faultproxy import FaultProxy
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.topology import Topology

REPLICAS = (1, 2)
WEBHOOKS = tuple(quota.webhook_name(number) for number in REPLICAS)
CONTROLLERS = tuple(quota.controllers_name(number) for number in REPLICAS)
PRODUCT = (*CONTROLLERS, *WEBHOOKS)
API_SERVER = f"{FEDERATION}-apiserver"
ETCD = "etcd"
MEMBER = "m1"
SHAPE = Shape(members=2, nodes=1, quota=len(REPLICAS))
READY_SECONDS = 120.0
LEADER_LEASE = "federation-quota-controllers"


class Ground:
    """The federation, and the verbs of faults. `roads` are the proxies, by who goes there: a process, or a member."""

    def __init__(self, federation: Federation, guard: Guard, roads: dict[str, FaultProxy]) -> None:
        self.federation = federation
        self.roads = roads
        self.ended: list[str] = []  # replicas of the product that ended by themselves
        self._guard = guard
        self._killed: set[str] = set()  # and not started again yet

    async def kill(self, *names: str) -> None:
        """kill -9."""
        self._killed.update(names)
        for name in names:
            await asyncio.to_thread(self.federation.kill, name)

    async def start(self, *names: str) -> None:
        """Start what has ended; return when it is ready."""
        await self.launch(*names)
        for name in names:
            await self._ready(name)

    async def launch(self, *names: str) -> None:
        """Start what has ended, and wait for nothing."""
        for name in names:
            await asyncio.to_thread(self.federation.launch, name, self._guard)
        self._killed.difference_update(names)

    async def _ready(self, name: str) -> None:
        spec = self.federation.spec(name)
        deadline = time.monotonic() + READY_SECONDS
        while not await asyncio.to_thread(process.is_ready, spec):
            if time.monotonic() > deadline:
                raise FederationError(f"{name} is not ready {READY_SECONDS:.0f} s after its start")
            await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def supervised(self) -> AsyncIterator[None]:
        """While the block lasts, replicas of the product that end by themselves are started again, as pods are."""
        task = asyncio.create_task(self._supervise(), name="supervisor")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _supervise(self) -> None:
        while True:
            for name in PRODUCT:
                if not await asyncio.to_thread(self.federation.is_running, name) and name not in self._killed:
                    self.ended.append(name)
                    await asyncio.to_thread(self.federation.launch, name, self._guard)
            await asyncio.sleep(0.5)

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """SIGSTOP; SIGCONT when the block is left."""
        frozen = self.federation.process(name)
        frozen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            frozen.send_signal(signal.SIGCONT)

    def leader(self) -> str:
        """Which replica of the controllers leads; nothing where none does."""
        lease = self.federation.api.get("lease", LEADER_LEASE, quota.NAMESPACE)
        holder = lease["spec"].get("holderIdentity")
        for name in CONTROLLERS if holder else ():
            for line in self.federation.log(name).read_text().splitlines():
                if "elector.leading" in line and json.loads(line).get("identity") == holder:
                    return name
        return ""

    async def the_leader(self) -> str:
        """The same, waited for."""
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(FederationError):
                    if name := await asyncio.to_thread(self.leader):
                        return name
                await asyncio.sleep(0.2)

    def port(self, name: str) -> int:
        """Where a process listens."""
        return self.state.ports[name]

    @property
    def state(self) -> State:
        """What the federation's folder remembers."""
        state = self.federation.directory.load()
        if state is None:
            raise RuntimeError("there is no federation")
        return state

    def clock(self, name: str) -> Path:
        """The file that says how wrong a replica's clock is."""
        return self.federation.directory.path / f"{name}.clock"

    def reshape(self, *, flags: dict[str, list[str]], runners: dict[str, list[str]]) -> None:
        """What processes that are started from now on are started with."""
        state = self.state
        state.shape = dataclasses.replace(state.shape, flags=flags, runners=runners)
        self.federation.directory.save(state)

    def reflag(self, name: str, *flags: str) -> None:
        """The further arguments of one process, when it is started the next time."""
        shape = self.state.shape
        self.reshape(flags={**shape.flags, name: list(flags)}, runners=shape.runners)


@asynccontextmanager
async def prepared(folder: Path, guard: Guard) -> AsyncIterator[Ground]:
    """A federation of one's own, with its roads led through proxies."""
    federation = Federation(folder)
    try:
        await asyncio.to_thread(federation.up, SHAPE, guard)
        async with led_through_proxies(federation, guard) as ground:
            yield ground
    finally:
        await asyncio.to_thread(federation.down)


@asynccontextmanager
async def led_through_proxies(federation: Federation, guard: Guard) -> AsyncIterator[Ground]:
    """A federation that is up, with its roads led through proxies; `lead_back` undoes it."""
    async with AsyncExitStack() as stack:
        ground = Ground(federation, guard, {})
        targets = dict.fromkeys((*WEBHOOKS, *CONTROLLERS), API_SERVER)
        for name, target in {**targets, "webhook": "quota-webhook", MEMBER: f"{MEMBER}-apiserver"}.items():
            ground.roads[name] = await stack.enter_async_context(FaultProxy(ground.port(target)))
        before = ground.state.shape.flags
        ground.reshape(
            flags={**before, **{name: [*before.get(name, []), *_flags(ground, name)] for name in PRODUCT}},
            runners={name: [shifted.__file__, str(ground.clock(name))] for name in PRODUCT},
        )
        await _restart(ground, member=ground.roads[MEMBER].url)
        yield ground


async def lead_back(ground: Ground, shape: Shape) -> None:
    """As it was: the shape that it had before, and nothing on proxies any more."""
    ground.reshape(flags=shape.flags, runners=shape.runners)
    await _restart(ground, member=Topology(ground.federation.directory, ground.state).members[0].server)


async def _restart(ground: Ground, member: str) -> None:
    for name in PRODUCT:
        await asyncio.to_thread(ground.federation.terminate, name)
    await ground.start(*PRODUCT)
    endpoint = json.dumps({"spec": {"apiEndpoint": member}})
    await asyncio.to_thread(ground.federation.kubectl, "patch", "cluster", MEMBER, "--type=merge", "-p", endpoint)


def _flags(ground: Ground, name: str) -> list[str]:
    """A replica's arguments that lead it through its proxy; of two that say different things the last one counts."""
    identity = quota.WEBHOOK if name in WEBHOOKS else quota.CONTROLLERS
    cluster = Topology(ground.federation.directory, ground.state).federation
    folder = ground.federation.directory.pki / FEDERATION
    flags = []
    for flag, who, user in (
        ("--kubeconfig", identity, identity),
        ("--host-kubeconfig", f"{identity}-pod", quota.pod_user(identity)),
    ):
        access = dataclasses.replace(cluster.access(who, user), server=ground.roads[name].url)
        flags.append(f"{flag}={kubeconfig.write(folder / f'{who}-{name}.kubeconfig', [access])}")
    return flags if name in WEBHOOKS else [*flags, f"--webhook-url={ground.roads['webhook'].url}"]
