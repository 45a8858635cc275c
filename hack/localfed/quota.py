"""federation-quota itself on a local federation: the code of this checkout, as two or more processes.

Webhook replicas share one port (the kernel deals the connections out), as a Service would share one address.
"""

import sys

from localfed.controlplane import Cluster
from localfed.ports import LOOPBACK
from localfed.process import Spec

WEBHOOK = "federation-quota-webhook"
CONTROLLERS = "federation-quota-controllers"


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
    return [f"--kubeconfig={federation.kubeconfig(identity)}", f"--system-users={WEBHOOK},{CONTROLLERS}"]
