"""One federation: up, down, and what it is like now.

`up` converges: from nothing it builds everything, on a running federation it starts again what has died. Until it is
through, what it starts belongs to its `Guard`: a failure, Ctrl-C or kill -9 leaves nothing half-started.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import psutil

from localfed import karmada, kubeconfig, lock, marker, nodes, ports, process, programs, quota, topology
from localfed.api import Api
from localfed.console import Progress
from localfed.directory import STATE, Directory, Shape, State
from localfed.errors import FederationError
from localfed.guard import Guard
from localfed.kubectl import Kubectl
from localfed.process import Launcher, Spec
from localfed.topology import Topology

ADMINISTRATOR = "admin"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process as it is now."""

    name: str
    pid: int | None
    port: int
    state: str  # ready, not ready, dead
    log: Path


class Federation:
    """The federation in one folder."""

    def __init__(self, path: Path) -> None:
        self.directory = Directory(path)

    def up(self, shape: Shape, guard: Guard) -> None:
        """Have a federation of that shape running, under the guard; the caller releases it or not."""
        self.directory.claim()
        with lock.hold(self.directory.lock, f"the federation in {self.directory.path}"):
            self.directory.claim()
            state = self.directory.load()
            if state and state.is_up:
                if state.shape != shape:
                    raise FederationError(
                        f"{self.directory.path} has a federation of another shape ({state.shape}): "
                        "`down` it first, or choose another folder with --dir"
                    )
                self._converge(state, guard)
            else:
                self._found(shape, guard)

    def down(self) -> bool:
        """Stop every process of the folder's and remove it; False where there was none.

        What the folder remembers is not asked: a state file that cannot be read is no reason to leave processes behind.
        """
        if not (self.directory.path / STATE).exists():
            return False
        with lock.hold(self.directory.lock, f"the federation in {self.directory.path}"):
            self._stop()
            self.directory.remove()
        return True

    def status(self) -> list[ProcessStatus]:
        """Every process that should run, in starting order."""
        state = self._require()
        return [self._status(spec, state) for spec in Topology(self.directory, state).everything()]

    def spec(self, name: str) -> Spec:
        """The process of that name."""
        specs = {spec.name: spec for spec in Topology(self.directory, self._require()).everything()}
        if name not in specs:
            raise FederationError(f"no process {name!r} here; there are: {', '.join(specs)}")
        return specs[name]

    def log(self, name: str) -> Path:
        """The log of that process: of an `up` that failed too, of which nothing else is left."""
        log = self.directory.log(name)
        if not log.exists():
            names = sorted(path.stem for path in self.directory.logs.glob("*.log"))
            raise FederationError(
                f"no log of {name!r} in {self.directory.path}; there are: {', '.join(names) or 'none'}"
            )
        return log

    def environment(self) -> dict[str, str]:
        """What a shell needs: KUBECONFIG, and the folders to put before PATH."""
        path = Topology(self.directory, self._require()).path
        return {"KUBECONFIG": str(self.directory.kubeconfig), "PATH": ":".join(map(str, path))}

    @property
    def kubectl(self) -> Kubectl:
        """kubectl with the administrator's rights; `context` names a member."""
        program = Topology(self.directory, self._require()).kubernetes / "kubectl"
        return Kubectl(program, self.directory.kubeconfig, self.directory.path)

    @functools.cached_property
    def api(self) -> Api:
        """The API servers, with the administrator's rights; a context names a member."""
        return Api(self.directory.kubeconfig)

    def person(self, name: str, *groups: str) -> Kubectl:
        """kubectl with a client certificate of that user's own, in these groups, on the federation's API server."""
        plan = Topology(self.directory, self._require())
        path = plan.federation.kubeconfig(f"person-{'-'.join((name, *groups))}", name, groups)
        return Kubectl(plan.kubernetes / "kubectl", path, self.directory.path)

    @property
    def shape(self) -> Shape:
        """What it was asked to be: `up` with it starts again what has died."""
        return self._require().shape

    @property
    def members(self) -> list[str]:
        """The names of the member clusters."""
        return topology.member_names(self._require().shape)

    def kill(self, name: str) -> None:
        """kill -9 one process, by name: for tests and experiments."""
        self.spec(name)
        started = self._require().processes[name]
        if process.is_running(started):
            marker.end([psutil.Process(started.pid)])

    def terminate(self, name: str, within_seconds: float = 30) -> None:
        """Ask one process to end (SIGTERM), and return when it has."""
        doomed = self.process(name)
        doomed.terminate()
        if not marker.wait([doomed], within_seconds):
            raise FederationError(f"{name} has not ended {within_seconds:.0f} s after it was asked to")

    def start(self, name: str, guard: Guard) -> None:
        """Start one process again that has ended, and return when it is ready."""
        with lock.hold(self.directory.lock, f"the federation in {self.directory.path}"):
            Launcher(self.directory, self._require(), guard).start([self.spec(name)])

    def launch(self, name: str, guard: Guard) -> None:
        """Start one process again that has ended, and wait for nothing."""
        with lock.hold(self.directory.lock, f"the federation in {self.directory.path}"):
            Launcher(self.directory, self._require(), guard).launch([self.spec(name)])

    def is_running(self, name: str) -> bool:
        """Whether the process of that name runs."""
        return process.is_running(self._require().processes.get(name))

    def process(self, name: str) -> psutil.Process:
        """The process of that name, to be frozen and looked at."""
        self.spec(name)
        return psutil.Process(self._require().processes[name].pid)

    def _found(self, shape: Shape, guard: Guard) -> None:
        """From nothing. What an `up` that crashed here left behind is cleared away first."""
        self._stop()
        self.directory.clear()
        sets = topology.program_sets(shape)
        built = programs.provide_all(sets, guard)
        folders = {wanted.name: str(folder) for wanted, folder in zip(sets, built, strict=True)}
        state = State(shape, ports.take(topology.port_names(shape), self.directory.path), folders)
        self.directory.save(state)
        try:
            self._converge(state, guard)
            state.is_up = True
            self.directory.save(state)
        except BaseException:
            # Only the logs stay, to read; the state file says whose folder this is.
            self._stop()
            self.directory.save(State(shape, {}, {}))
            self.directory.clear(keep=frozenset({"logs", STATE}))
            raise

    def _converge(self, state: State, guard: Guard) -> None:
        plan = Topology(self.directory, state)
        launcher = Launcher(self.directory, state, guard)
        shape = state.shape
        progress = Progress(f"starting {shape} in {self.directory.path}")
        launcher.start(plan.storage())
        progress.update("etcd is ready")
        launcher.start(plan.api_servers())
        progress.update("API servers are ready")
        kubeconfig.write(self.directory.kubeconfig, [cluster.access(ADMINISTRATOR) for cluster in plan.clusters])
        if shape.karmada:
            karmada.install_api(self.kubectl, plan.karmada)
        for member in plan.members if shape.nodes else []:
            nodes.create(self.kubectl, member, shape.nodes, shape.capacity)
        launcher.start(plan.controllers())
        progress.update("controllers are ready")
        if shape.karmada:
            karmada.install_webhooks(self.kubectl, plan.karmada, plan.federation, state.ports["karmada-webhook"])
            karmada.join(self.kubectl, plan.members)
            launcher.start(plan.karmada_controllers())
            progress.update("Karmada is ready")
            karmada.wait_for_members(self.kubectl, plan.members)
        if shape.quota:
            quota.grant(self.kubectl)
        if any(flag.startswith("--validators=") for flags in shape.flags.values() for flag in flags):
            quota.grant_validators(self.kubectl)
        launcher.start(plan.quota_system())
        progress.done("up")

    def _stop(self) -> None:
        marker.end_all(marker.DIRECTORY, str(self.directory.path))
        ports.give_back(self.directory.path)

    def _status(self, spec: Spec, state: State) -> ProcessStatus:
        started = state.processes.get(spec.name)
        word = "dead"
        if process.is_running(started):
            word = "ready" if process.is_ready(spec) else "not ready"
        pid = started.pid if started else None
        return ProcessStatus(spec.name, pid, spec.port, word, self.directory.log(spec.name))

    def _require(self) -> State:
        state = self.directory.load() if self.directory.path.is_dir() else None
        if state is None or not state.ports:
            raise FederationError(f"no federation in {self.directory.path}: `hack/federation up` makes one")
        return state
