"""The Karmada half of a federation: its programs, its API, and how members join.

Clusters are a custom resource here instead of an aggregated API: Karmada's controllers see the same paths.
"""

import base64
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any

import yaml

from localfed.controlplane import MASTERS, Cluster
from localfed.errors import FederationError
from localfed.kubectl import Kubectl
from localfed.ports import LOOPBACK
from localfed.process import Spec

MANIFESTS = Path(__file__).parent / "manifests"
NAMESPACES = ["karmada-system", "karmada-cluster"]
READY_WITHIN_SECONDS = 120.0

# All that a workload needs on its way to the members and back, and no more: each watches on its own.
CONTROLLERS = [
    "applicationFailover",
    "binding",
    "bindingStatus",
    "cluster",
    "clusterStatus",
    "execution",
    "gracefulEviction",
    "namespace",
    "workStatus",
    "workloadRebalancer",
]

CONCURRENT = ["namespace", "propagation-policy", "resource-template", "resourcebinding", "work"]


def webhook(federation: Cluster, programs: Path, port: int, health_port: int) -> Spec:
    """karmada-webhook: its mutating hooks give policies, bindings and works the ids that everything matches on."""
    config = federation.kubeconfig("karmada-webhook")
    folder = federation.directory.pki / "karmada-webhook"
    folder.mkdir(exist_ok=True)
    # It looks for these two names in one folder.
    pair = federation.authority.issue("karmada-webhook-server", common_name="karmada-webhook")
    for name, source in zip(("tls.crt", "tls.key"), pair, strict=True):
        if not (folder / name).exists():
            (folder / name).symlink_to(source)
    return Spec(
        name="karmada-webhook",
        argv=[
            str(programs / "karmada-webhook"),
            f"--kubeconfig={config}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--cert-dir={folder}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={LOOPBACK}:{health_port}",
        ],
        port=port,
        health=f"https://{LOOPBACK}:{port}/readyz/",
        authority=federation.authority.certificate,
    )


def controller_manager(federation: Cluster, programs: Path, health_port: int) -> Spec:
    """karmada-controller-manager: from template and policy to binding, work and member."""
    return Spec(
        name="karmada-controller-manager",
        argv=[
            str(programs / "karmada-controller-manager"),
            f"--controllers={','.join(CONTROLLERS)}",
            "--cluster-status-update-frequency=5s",
            "--cluster-api-qps=500",
            "--cluster-api-burst=1000",
            *(f"--concurrent-{what}-syncs=10" for what in CONCURRENT),
            # Quotas are for the federation itself: nothing of them is propagated.
            "--skipped-propagating-apis=quota.karmada.io",
            *_component(federation, "karmada-controller-manager", health_port),
        ],
        port=health_port,
        health=f"http://{LOOPBACK}:{health_port}/healthz",
    )


def scheduler(federation: Cluster, programs: Path, health_port: int) -> Spec:
    """karmada-scheduler: which member gets how many replicas."""
    return Spec(
        name="karmada-scheduler",
        argv=[str(programs / "karmada-scheduler"), *_component(federation, "karmada-scheduler", health_port)],
        port=health_port,
        health=f"http://{LOOPBACK}:{health_port}/healthz",
    )


def _component(federation: Cluster, identity: str, health_port: int) -> list[str]:
    """The flags that karmada-controller-manager and karmada-scheduler share."""
    return [
        f"--kubeconfig={federation.kubeconfig(identity)}",
        "--leader-elect=false",
        # By default all that failed shares ten tries a second, whoever it belongs to: one user's refusals would make
        # all others wait. Here many tests are users at once.
        "--rate-limiter-qps=1000",
        "--rate-limiter-bucket-size=10000",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--metrics-bind-address=0",  # the default port is the same for all of them
        f"--health-probe-bind-address={LOOPBACK}:{health_port}",
    ]


def install_api(kubectl: Kubectl, programs: Path) -> None:
    """Karmada's kinds and namespaces, on the federation API server."""
    kubectl.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES))
    kubectl("apply", "--server-side", "--recursive", "-f", str(programs / "karmada-crds"))
    kubectl("apply", "--server-side", "-f", str(MANIFESTS / "cluster-crd.yaml"))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")


def install_webhooks(kubectl: Kubectl, programs: Path, federation: Cluster, port: int) -> None:
    """Karmada's own webhook configurations, pointed at the process on loopback."""
    bundle = base64.b64encode(federation.authority.certificate.read_bytes()).decode()
    text = (programs / "karmada-webhook-configuration.yaml").read_text().replace("{{caBundle}}", bundle)
    text = text.replace("https://karmada-webhook.karmada-system.svc:443", f"https://{LOOPBACK}:{port}")
    # Three seconds are too few where a machine does much else: a request would fail that Karmada has nothing against.
    text = re.sub(r"timeoutSeconds: \d+", "timeoutSeconds: 30", text)
    kubectl.apply(*yaml.safe_load_all(text))


def write_token(member: Cluster) -> None:
    """A bearer token with every right, before the member's API server starts: Karmada joins by token alone."""
    if not member.tokens.exists():
        with os.fdopen(os.open(member.tokens, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(f'{secrets.token_hex(16)},karmada,karmada,"{MASTERS}"\n')


def join(kubectl: Kubectl, members: list[Cluster]) -> None:
    """Make each member known to the federation, in push mode."""
    for member in members:
        kubectl.apply(*_joined(member))


def _joined(member: Cluster) -> list[dict[str, Any]]:
    token = member.tokens.read_text().split(",")[0]
    reference = {"namespace": "karmada-cluster", "name": member.name}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": reference,
        "stringData": {"token": token, "caBundle": member.authority.certificate.read_text()},
    }
    cluster = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": member.name},
        "spec": {"syncMode": "Push", "apiEndpoint": member.server, "secretRef": reference},
    }
    return [secret, cluster]


def wait_for_members(kubectl: Kubectl, members: list[Cluster]) -> None:
    """Return when Karmada calls every member Ready."""
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while missing := {member.name for member in members} - ready_members(kubectl):
        if time.monotonic() > deadline:
            raise FederationError(
                f"{', '.join(sorted(missing))} not Ready within {READY_WITHIN_SECONDS:.0f} s: "
                "see `hack/federation logs karmada-controller-manager`"
            )
        time.sleep(0.2)


def ready_members(kubectl: Kubectl) -> set[str]:
    """The members that Karmada calls Ready now."""
    clusters = kubectl.json("get", "clusters.cluster.karmada.io")["items"]
    return {
        cluster["metadata"]["name"]
        for cluster in clusters
        for condition in cluster.get("status", {}).get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "True"
    }
