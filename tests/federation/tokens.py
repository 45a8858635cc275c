"""Tokens of the host cluster, which in the local federation is the federation's own API server."""

from dataclasses import dataclass

from localfed.federation import Federation


@dataclass(frozen=True)
class Tokens:
    """Of two ServiceAccounts."""

    reader: str  # may read /metrics
    stranger: str  # is known, and may not


def issue(federation: Federation, namespace: str) -> Tokens:
    """Two ServiceAccounts in that namespace, one with the right, and a token for each."""
    kubectl = federation.kubectl
    for name in ("reader", "stranger"):
        kubectl("create", "serviceaccount", name, "-n", namespace)
    kubectl("create", "clusterrole", f"reader-{namespace}", "--verb=get", "--non-resource-url=/metrics")
    whose = [f"--clusterrole=reader-{namespace}", f"--serviceaccount={namespace}:reader"]
    kubectl("create", "clusterrolebinding", f"reader-{namespace}", *whose)
    return Tokens(*(kubectl("create", "token", name, "-n", namespace).strip() for name in ("reader", "stranger")))
