"""Which processes a federation consists of, in the order in which they can start.

A function of what the folder remembers (shape, ports, programs): starting for the first time and starting again what
died read the same plan.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from localfed import audit, controlplane, karmada, nodes, programs, quota
from localfed.controlplane import FEDERATION, Cluster
from localfed.directory import Directory, Shape, State
from localfed.process import Spec


class Topology:
    """The processes and clusters of one federation."""

    def __init__(self, directory: Directory, state: State) -> None:
        self._directory = directory
        self._shape = state.shape
        self._ports = state.ports
        self._programs = {name: Path(folder) for name, folder in state.programs.items()}
        self.federation = controlplane.cluster(directory, FEDERATION, self._ports[f"{FEDERATION}-apiserver"])
        self.members = [
            controlplane.cluster(directory, name, self._ports[f"{name}-apiserver"])
            for name in member_names(state.shape)
        ]

    @property
    def clusters(self) -> list[Cluster]:
        """The federation first, then the members."""
        return [self.federation, *self.members]

    @property
    def path(self) -> list[Path]:
        """The folders with the programs, for PATH."""
        return list(self._programs.values())

    @property
    def kubernetes(self) -> Path:
        """The folder with Kubernetes' programs."""
        return self._programs[programs.KUBERNETES.name]

    @property
    def karmada(self) -> Path:
        """The folder with Karmada's programs and manifests."""
        return self._programs[programs.KARMADA.name]

    def storage(self) -> list[Spec]:
        """What everything stands on."""
        return self._flagged([controlplane.etcd(self._directory, self.kubernetes, self._ports)])

    def api_servers(self) -> list[Spec]:
        """One per cluster."""
        for member in self.members:
            karmada.write_token(member)
        etcd_port = self._ports["etcd"]
        specs = [controlplane.api_server(cluster, self.kubernetes, etcd_port) for cluster in self.clusters]
        if self._shape.quota:
            specs[0] = replace(specs[0], argv=[*specs[0].argv, *audit.flags(self._directory, quota.USERS)])
        return self._flagged(specs)

    def controllers(self) -> list[Spec]:
        """Kubernetes' own controllers, and the webhook that Karmada's kinds need before their first object."""
        return self._flagged(list(self._controllers()))

    def karmada_controllers(self) -> list[Spec]:
        """Karmada's controllers; none where the federation goes without."""
        if not self._shape.karmada:
            return []
        ports = self._ports
        return self._flagged(
            [
                karmada.controller_manager(self.federation, self.karmada, ports["karmada-controller-manager"]),
                karmada.scheduler(self.federation, self.karmada, ports["karmada-scheduler"]),
            ]
        )

    def quota_system(self) -> list[Spec]:
        """The product; none where the federation goes without."""
        ports, specs = self._ports, []
        for number in range(1, self._shape.quota + 1):
            shared, own = ports["quota-webhook"], ports[quota.controllers_name(number)]
            specs.append(quota.controllers(self.federation, number, shared, own))
        for number in range(1, self._shape.quota + 1):
            shared, own = ports["quota-webhook"], ports[quota.webhook_name(number)]
            specs.append(quota.webhook(self.federation, number, shared, own))
        return self._flagged(specs)

    def everything(self) -> list[Spec]:
        """All of it, in starting order."""
        kubernetes = [*self.storage(), *self.api_servers(), *self.controllers()]
        return [*kubernetes, *self.karmada_controllers(), *self.quota_system()]

    def _controllers(self) -> Iterator[Spec]:
        ports = self._ports
        has_nodes = self._shape.nodes > 0
        for cluster in self.clusters:
            wanted = controlplane.WORKLOAD_CONTROLLERS if has_nodes else controlplane.HOUSEKEEPING
            if cluster is self.federation:
                wanted = controlplane.FEDERATION_CONTROLLERS
            port = ports[f"{cluster.name}-controller-manager"]
            yield controlplane.controller_manager(cluster, self.kubernetes, port, wanted)
        for member in self.members if has_nodes else []:
            yield controlplane.scheduler(member, self.kubernetes, ports[f"{member.name}-scheduler"])
            yield nodes.kubelets(member, self._programs[programs.KWOK.name], ports[f"{member.name}-kwok"])
        if self._shape.karmada:
            webhook, health = ports["karmada-webhook"], ports["karmada-webhook-health"]
            yield karmada.webhook(self.federation, self.karmada, webhook, health)

    def _flagged(self, specs: list[Spec]) -> list[Spec]:
        """With the flags that the shape adds; a later flag overrules an earlier one."""
        return [replace(spec, argv=self._arguments(spec)) for spec in specs]

    def _arguments(self, spec: Spec) -> list[str]:
        argv = [*spec.argv, *self._shape.flags.get(spec.name, [])]
        runner = self._shape.runners.get(spec.name)
        return [argv[0], *runner, *argv[2:]] if runner else argv


def member_names(shape: Shape) -> list[str]:
    """m1, m2, …"""
    return [f"m{number}" for number in range(1, shape.members + 1)]


def port_names(shape: Shape) -> list[str]:
    """Every port that a federation of that shape listens on."""
    names = ["etcd", "etcd-peer", "etcd-health"]
    for cluster in (FEDERATION, *member_names(shape)):
        names += [f"{cluster}-apiserver", f"{cluster}-controller-manager"]
    if shape.nodes:
        names += [f"{member}-{what}" for member in member_names(shape) for what in ("scheduler", "kwok")]
    if shape.karmada:
        names += ["karmada-webhook", "karmada-webhook-health", "karmada-controller-manager", "karmada-scheduler"]
    if shape.quota:
        names.append("quota-webhook")
        numbers = range(1, shape.quota + 1)
        names += [name(number) for number in numbers for name in (quota.webhook_name, quota.controllers_name)]
    return names


def program_sets(shape: Shape) -> list[programs.ProgramSet]:
    """The programs that a federation of that shape runs, in the order in which they are best built."""
    sets = [programs.KUBERNETES]
    if shape.karmada:
        sets.append(programs.KARMADA)
    if shape.nodes:
        sets.append(programs.KWOK)  # most of it is compiled with Kubernetes
    return sets
