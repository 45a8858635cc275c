"""federation-quota itself on a local federation: the code of this checkout, as two or more processes.

Webhook replicas share one port (the kernel deals the connections out), as a Service would share one address. Each
process has a port of its own for metrics and health.

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
VALIDATORS_ACCESS = ACCESS.with_name("validators.yaml")
"""The same, for what validators take."""


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


def grant_validators(kubectl: Kubectl) -> None:
    """Apply the roles that validators take."""
    kubectl.apply(*(one for one in yaml.safe_load_all(VALIDATORS_ACCESS.read_text()) if one))


def webhook_name(number: int) -> str:
    """What a replica of the webhook is called, and its port for metrics."""
    return f"quota-webhook-{number}"


def controllers_name(number: int) -> str:
    """What a replica of the controllers is called, and its port for metrics."""
    return f"quota-controllers-{number}"


def webhook(federation: Cluster, number: int, port: int, metrics_port: int) -> Spec:
    """One replica of the webhook."""
    return Spec(
        name=webhook_name(number),
        argv=[
            sys.executable,
            "-m",
            "webhook",
            *_common(federation, WEBHOOK, metrics_port),
            f"--listen={LOOPBACK}:{port}",
            f"--server-names={LOOPBACK}",
            "--share-port=true",
            "--drain-seconds=1",
        ],
        port=port,
        health=_health(metrics_port),
    )


def controllers(federation: Cluster, number: int, webhook_port: int, metrics_port: int) -> Spec:
    """One replica of the controllers; it is ready when it knows everything, and hooks trust the webhook."""
    return Spec(
        name=controllers_name(number),
        argv=[
            sys.executable,
            "-m",
            "controllers",
            *_common(federation, CONTROLLERS, metrics_port),
            f"--webhook-url=https://{LOOPBACK}:{webhook_port}",
        ],
        port=metrics_port,
        health=_health(metrics_port),
    )


def _health(port: int) -> str:
    return f"http://{LOOPBACK}:{port}/readyz"


def _common(federation: Cluster, identity: str, metrics_port: int) -> list[str]:
    return [
        f"--kubeconfig={federation.kubeconfig(identity, user=identity)}",
        f"--host-kubeconfig={federation.kubeconfig(f'{identity}-pod', user=pod_user(identity))}",
        f"--namespace={NAMESPACE}",
        f"--system-users={WEBHOOK},{CONTROLLERS}",
        f"--metrics-listen={LOOPBACK}:{metrics_port}",
    ]
