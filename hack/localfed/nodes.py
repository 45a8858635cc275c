"""Nodes and running pods in a member, without machines: kwok plays the kubelets, everything else is real.

kube-controller-manager makes the pods, kube-scheduler places them against the nodes' capacity, and kwok reports nodes
Ready and pods Running or Succeeded, as a kubelet would.
"""

from pathlib import Path
from typing import Any

from localfed.controlplane import Cluster
from localfed.kubectl import Kubectl
from localfed.ports import LOOPBACK
from localfed.process import Spec
from localfed.programs import KWOK


def kubelets(cluster: Cluster, programs: Path, port: int) -> Spec:
    """The kwok process of one member."""
    return Spec(
        name=f"{cluster.name}-kwok",
        argv=[
            str(programs / "kwok"),
            f"--kubeconfig={cluster.kubeconfig('kwok')}",
            "--manage-all-nodes",
            f"--node-ip={LOOPBACK}",
            "--node-lease-duration-seconds=40",
            f"--server-address={LOOPBACK}:{port}",
            *(f"--config={programs / stage}" for stage in KWOK.manifests),
        ],
        port=port,
        health=f"http://{LOOPBACK}:{port}/healthz",
    )


def create(kubectl: Kubectl, cluster: Cluster, count: int, capacity: dict[str, str]) -> None:
    """Nodes of that capacity, ready for kwok to take over."""
    nodes = [_node(f"{cluster.name}-node{number}", capacity) for number in range(1, count + 1)]
    kubectl.apply(*nodes, context=cluster.name)
    # The status is a subresource: it takes a write of its own.
    for node in nodes:
        kubectl.apply_status(node, context=cluster.name)


def _node(name: str, capacity: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"type": "kwok", "kubernetes.io/hostname": name}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
