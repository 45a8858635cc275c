"""federation-quota itself on a local federation: the code of this checkout, as two or more processes.

Webhook replicas share one port (the kernel deals the connections out), as a Service would share one address. Each
process has a port of its own for metrics and health.
"""

import sys

from localfed.controlplane import Cluster
from localfed.ports import LOOPBACK
from localfed.process import Spec

WEBHOOK = "federation-quota-webhook"
CONTROLLERS = "federation-quota-controllers"


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
        f"--kubeconfig={federation.kubeconfig(identity)}",
        f"--system-users={WEBHOOK},{CONTROLLERS}",
        f"--metrics-listen={LOOPBACK}:{metrics_port}",
    ]
