"""federation-quota itself on a local federation: the code of this checkout, as two or more processes.

Webhook replicas share one port (the kernel deals the connections out), as a Service would share one address.

Each deployable may do what the chart's roles let it do, and no more. The federation is also the cluster that the system
runs in, where each has a second identity: the ServiceAccount of its pods.
"""

import sys
from pathlib import Path

import yaml

from localfed.controlplane import Cluster
from localfed.kubectl import Kubectl
from localfed.ports import LOOPBACK
from localfed.process import Spec

WEBHOOK = "federation-quota-webhook"
CONTROLLERS = "federation-quota-controllers"
NAMESPACE = "federation-quota-system"
RELEASE = "fq"  # short, as user names in certificates must be

ACCESS = Path(__file__).parent / "manifests" / "access.yaml"
"""The roles: rendered from the chart by hack/chart.py."""


def pod_user(identity: str) -> str:
    """The user that the pods of a deployable are in the cluster that they run in."""
    return f"system:serviceaccount:{NAMESPACE}:{identity.replace('federation-quota', RELEASE)}"


USERS = [user for identity in (WEBHOOK, CONTROLLERS) for user in (identity, pod_user(identity))]


def grant(kubectl: Kubectl) -> None:
    """Apply the roles."""
    labels = {"namespace.karmada.io/skip-auto-propagation": "true"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    kubectl.apply(namespace)
    kubectl.apply(*(one for one in yaml.safe_load_all(ACCESS.read_text()) if one))


def webhook(federation: Cluster, number: int, port: int) -> Spec:
    """One replica of the webhook."""
    return Spec(
        name=f"quota-webhook-{number}",
        argv=[
            sys.executable,
            "-m",
            "webhook",
            *_common(federation, WEBHOOK),
            f"--listen={LOOPBACK}:{port}",
            f"--server-names={LOOPBACK}",
            "--share-port=true",
            "--drain-seconds=1",
        ],
        port=port,
        health=f"https://{LOOPBACK}:{port}/readyz",
    )


def controllers(federation: Cluster, number: int, webhook_port: int) -> Spec:
    """One replica of the controllers; it is ready when the webhook is, which cannot be without it."""
    return Spec(
        name=f"quota-controllers-{number}",
        argv=[
            sys.executable,
            "-m",
            "controllers",
            *_common(federation, CONTROLLERS),
            f"--webhook-url=https://{LOOPBACK}:{webhook_port}",
        ],
        port=webhook_port,
        health=f"https://{LOOPBACK}:{webhook_port}/readyz",
    )


def _common(federation: Cluster, identity: str) -> list[str]:
    return [
        f"--kubeconfig={federation.kubeconfig(identity, user=identity)}",
        f"--host-kubeconfig={federation.kubeconfig(f'{identity}-pod', user=pod_user(identity))}",
        f"--namespace={NAMESPACE}",
        f"--system-users={WEBHOOK},{CONTROLLERS}",
    ]
