"""The federation that faults happen on: its processes, and a proxy on every road that the product uses.

It comes up as any local federation does. Then the product is started anew with its roads led through proxies that can
be made to fail: each replica's to the API server, the API server's to the webhook, and everybody's to a member.
"""

import asyncio
import contextlib
import dataclasses
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from localfed import kubeconfig, quota
from localfed.controlplane import FEDERATION
from localfed.directory import Shape, State
from localfed.faultproxy import FaultProxy
from localfed.federation import Federation
from localfed.guard import Guard
from localfed.kubectl import KubectlError
from localfed.topology import Topology

REPLICAS = (1, 2)
WEBHOOKS = tuple(quota.webhook_name(number) for number in REPLICAS)
CONTROLLERS = tuple(quota.controllers_name(number) for number in REPLICAS)
API_SERVER = f"{FEDERATION}-apiserver"
ETCD = "etcd"
MEMBER = "m1"
SHAPE = Shape(members=2, nodes=1, quota=len(REPLICAS))
LEADER_LEASE = "federation-quota-controllers"


class Ground:
    """The federation, and the verbs of faults. `roads` are the proxies, by who goes there: a process, or a member."""

    def __init__(self, federation: Federation, guard: Guard, roads: dict[str, FaultProxy]) -> None:
        self.federation = federation
        self.roads = roads
        self._guard = guard

    async def kill(self, *names: str) -> None:
        """kill -9."""
        for name in names:
            await asyncio.to_thread(self.federation.kill, name)

    async def start(self, *names: str) -> None:
        """As a supervisor would: start what has ended; return when it is ready."""
        for name in names:
            await asyncio.to_thread(self.federation.start, name, self._guard)

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """SIGSTOP; SIGCONT when the block is left."""
        process = self.federation.process(name)
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def leader(self) -> str:
        """Which replica of the controllers leads; nothing where none does."""
        lease = self.federation.kubectl.json("get", "lease", LEADER_LEASE, "-n", quota.NAMESPACE)
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
                with contextlib.suppress(KubectlError):
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

    def reflag(self, flags: dict[str, list[str]]) -> None:
        """More arguments for processes that are started from now on."""
        state = self.state
        state.shape = dataclasses.replace(state.shape, flags={**state.shape.flags, **flags})
        self.federation.directory.save(state)


@asynccontextmanager
async def prepared(folder: Path, guard: Guard) -> AsyncIterator[Ground]:
    """A federation of one's own, with its roads led through proxies."""
    federation = Federation(folder)
    try:
        await asyncio.to_thread(federation.up, SHAPE, guard)
        async with _ground(federation, guard) as ground:
            yield ground
    finally:
        await asyncio.to_thread(federation.down)


@asynccontextmanager
async def _ground(federation: Federation, guard: Guard) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        ground = Ground(federation, guard, {})
        targets = dict.fromkeys((*WEBHOOKS, *CONTROLLERS), API_SERVER)
        for name, target in {**targets, "webhook": "quota-webhook", MEMBER: f"{MEMBER}-apiserver"}.items():
            ground.roads[name] = await stack.enter_async_context(FaultProxy(ground.port(target)))
        products = (*CONTROLLERS, *WEBHOOKS)
        ground.reflag({name: _flags(ground, name) for name in products})
        for name in products:
            await asyncio.to_thread(federation.terminate, name)
        await ground.start(*products)
        endpoint = {"spec": {"apiEndpoint": ground.roads[MEMBER].url}}
        await asyncio.to_thread(
            federation.kubectl, "patch", "cluster", MEMBER, "--type=merge", "-p", json.dumps(endpoint)
        )
        yield ground


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
