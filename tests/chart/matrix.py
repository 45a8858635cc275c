"""Values that people install the chart with: every choice, and their combinations where one could break another."""

import itertools
from collections.abc import Iterator

from tests.chart.helm import Values

CERTIFICATES: dict[str, Values] = {
    "internal": {},
    "cert-manager": {"certificates": {"mode": "certManager"}},
    "issuer": {
        "certificates": {"mode": "certManager", "certManager": {"issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}}
    },
    "provided": {"certificates": {"mode": "provided", "provided": {"secretName": "webhook-tls"}}},
}
ACCESS: dict[str, Values] = {
    "kubeconfig": {"karmada": {"access": "kubeconfig"}},
    "token": {"karmada": {"access": "token", "server": "https://karmada-apiserver.karmada-system.svc:5443"}},
}
MONITORED: Values = {
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
}
METRICS: dict[str, Values] = {
    "open": {},
    "monitored": {"metrics": MONITORED},
    "guarded": {"metrics": {**MONITORED, "authorization": "token"}},
}
NETWORK: dict[str, Values] = {
    "policies": {},
    "closed": {
        "networkPolicy": {
            "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        }
    },
    "free": {"networkPolicy": {"enabled": False}},
}
# One at a time: these touch nothing that the others do.
SINGLE: dict[str, Values] = {
    "outside": {
        "webhook": {
            "url": "https://203.0.113.7:8443/",
            "serverNames": ["quota.example.com", "2001:db8::7"],
            "service": {"type": "LoadBalancer", "port": 8443, "annotations": {"example.com/internal": "true"}},
        },
        "certificates": {"mode": "certManager"},
    },
    "bare": {
        "podDisruptionBudget": {"enabled": False},
        "serviceAccounts": {"create": False},
        "rbac": {"create": False},
        "uninstall": {"enabled": False},
        "topologySpreadConstraints": [],
        "webhook": {"replicas": 1, "priorityClassName": ""},
        "controllers": {"replicas": 1, "priorityClassName": ""},
    },
    "adorned": {
        "fullnameOverride": "quota",
        "commonLabels": {"team": "platform"},
        "image": {"repository": "mirror.example/federation-quota", "digest": "sha256:" + "0" * 64},
        "imagePullSecrets": [{"name": "pull"}],
        "log": {"level": "debug", "format": "console"},
        "warnOnly": True,
        **{
            one: {
                "replicas": 3,
                "podLabels": {"a": "b"},
                "podAnnotations": {"c": "d"},
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "tolerations": [{"key": "control-plane", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "extraArgs": ["--log-level=error"],
            }
            for one in ("webhook", "controllers")
        },
    },
    "karmada": {"target": "karmada"},
    "karmada-users": {
        "target": "karmada",
        "karmada": {"webhook": {"user": "quota:webhook"}, "controllers": {"user": "quota:controllers"}},
        "members": {"observe": False},
    },
}


def permutations() -> Iterator[tuple[str, Values]]:
    """A name and the values of each. Network policies go round: each meets each choice of everything else."""
    kinds = list(itertools.product(enumerate(CERTIFICATES), enumerate(ACCESS), enumerate(METRICS)))
    for (i, certificates), (j, access), (k, metrics) in kinds:
        network = list(NETWORK)[(i + j + k) % len(NETWORK)]
        values = CERTIFICATES[certificates] | ACCESS[access] | METRICS[metrics] | NETWORK[network]
        yield "-".join((certificates, access, metrics, network)), values
    yield from SINGLE.items()
