"""Four ways to admit a binding, side by side on one federation: each has namespaces of its own, and its hooks see only
those.

Karmada's scheduler and controllers are ended while it is measured: what they do with a binding after it was admitted
takes the same cores, whoever admitted it.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from federation_quota import hooks, names
from localfed import ports
from localfed.authority import Authority
from localfed.directory import Shape
from localfed.federation import Federation
from localfed.guard import Guard

OURS: Final = "ours"
ALLOW: Final = "always allow"
NONE: Final = "no webhook"
KARMADA: Final = "Karmada's own"
ALL: Final = (OURS, ALLOW, NONE, KARMADA)
# In four rounds each comes once at every place, and once after every other: what one leaves behind, such as a store
# full of deletions, hits the next.
ORDERS: Final = (
    (OURS, ALLOW, KARMADA, NONE),
    (ALLOW, NONE, OURS, KARMADA),
    (NONE, KARMADA, ALLOW, OURS),
    (KARMADA, OURS, NONE, ALLOW),
)

_LABEL: Final = "bench.quota.karmada.io/setup"
_SLUGS: Final = {OURS: "ours", ALLOW: "allow", NONE: "none", KARMADA: "karmada"}
_KARMADA_HOOKS: Final = {
    "MutatingWebhookConfiguration": "mutating-config",
    "ValidatingWebhookConfiguration": "validating-config",
}
_QUOTA_WAIT_SECONDS: Final = 90.0

SHAPE: Final = Shape(
    members=0,
    quota=2,
    flags={
        "karmada-webhook": [
            "--feature-gates=FederatedQuotaEnforcement=true",
            "--kube-api-qps=10000",
            "--kube-api-burst=20000",
        ],
        # No queue of the server's is to be what is measured, nor the audit log, which is about our users alone.
        "federation-apiserver": [
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            "--delete-collection-workers=16",  # what is cleared away between turns
            "--audit-log-path=",
            "--audit-policy-file=",
        ],
    },
)


class Ground:
    """The federation that everything is measured on."""

    def __init__(self, federation: Federation, guard: Guard) -> None:
        self.federation = federation
        self._guard = guard
        self._allowing: list[psutil.Process] = []
        self._authority = Authority(federation.directory.pki / "bench", "bench-ca")
        self._port = ports.take(["bench-allow"], federation.directory.pki / "bench")["bench-allow"]

    def prepare(self) -> None:
        """Hooks of every set-up, each for its own namespaces; one replica of each webhook."""
        for name in ("karmada-scheduler", "karmada-controller-manager"):
            self.federation.kill(name)
        self._limit_ours()
        self._limit_karmadas()
        self.replicas(1)
        bundle = self._authority.certificate.read_bytes()
        for configuration in hooks.configurations(f"https://127.0.0.1:{self._port}", bundle):
            hook = next(
                (one for one in configuration["webhooks"] if "resourcebindings" in one["rules"][0]["resources"]), None
            )
            if hook:
                configuration["metadata"] = {"name": f"bench-allow-{configuration['kind'].lower()}"}
                configuration["webhooks"] = [{**hook, "name": "allow.bench.example.com", **_only(ALLOW)}]
                self.federation.kubectl.apply(configuration)

    def replicas(self, count: int) -> None:
        """So many replicas of our webhook, and of the one that decides nothing: one, then two."""
        self.allow_replicas(count)
        second = "quota-webhook-2"
        if count == 2 and not self._running(second):
            self.federation.start(second, self._guard)
        elif count == 1 and self._running(second):
            self.federation.terminate(second)

    def allow_replicas(self, count: int) -> None:
        """So many processes of the webhook that decides nothing."""
        certificate, key = self._authority.issue("server", common_name="allow")
        while len(self._allowing) < count:
            command = [sys.executable, "-m", "bench.admission.allow", str(self._port), str(certificate), str(key)]
            hack = str(Path(__file__).parents[2])
            log = self.federation.directory.log(f"allow-{len(self._allowing) + 1}")
            with log.open("ab") as output:
                process = self._guard.start(
                    command, environment={"PYTHONPATH": hack}, output=output, directory=Path(hack)
                )
            self._allowing.append(psutil.Process(process.pid))

    def processes(self) -> dict[str, dict[str, list[psutil.Process]]]:
        """By set-up, the processes of each part."""
        federation = self.federation
        ours = [one for number in (1, 2) if (one := self._running(f"quota-webhook-{number}"))]
        common = {
            "api server": [federation.process("federation-apiserver")],
            "etcd": [federation.process("etcd")],
            "controllers": [federation.process(f"quota-controllers-{number}") for number in (1, 2)],
        }
        webhooks = {OURS: ours, ALLOW: self._allowing, NONE: [], KARMADA: [federation.process("karmada-webhook")]}
        return {setup: {"webhook": found, **common} for setup, found in webhooks.items()}

    def _running(self, name: str) -> psutil.Process | None:
        try:
            found = self.federation.process(name)
            return found if found.is_running() and found.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def namespaces(self, setup: str, prefix: str, count: int, cpu: str) -> list[str]:
        """New namespaces of a set-up, each with a quota that its hook obeys and that is in force."""
        found = [f"{prefix}-{_SLUGS[setup]}-{number}" for number in range(count)]
        labels = labels_of(setup)
        self.federation.kubectl.apply(
            *(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
                for name in found
            ),
            *(quota for name in found for quota in _quotas(setup, name, cpu)),
        )
        if setup == OURS:
            self._await_quotas(set(found))
        return found

    def _await_quotas(self, namespaces: set[str]) -> None:
        deadline = time.monotonic() + _QUOTA_WAIT_SECONDS
        while True:
            items = self.federation.kubectl.json("get", "karmadaquotas", "-A")["items"]
            active = {one["metadata"]["namespace"] for one in items if (one.get("status") or {}).get("shape")}
            if namespaces <= active:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"not in force: the quotas of {', '.join(sorted(namespaces - active))}")
            time.sleep(0.2)

    def _limit_ours(self) -> None:
        for kind, name in (
            ("ValidatingWebhookConfiguration", names.VALIDATING),
            ("MutatingWebhookConfiguration", names.MUTATING),
        ):
            stored = self.federation.kubectl.json("get", kind.lower(), name)
            self._apply_beside(
                kind, name, [one["name"] for one in stored["webhooks"] if "bindings" in str(one["rules"])]
            )

    def _apply_beside(self, kind: str, name: str, webhooks: list[str]) -> None:
        """A selector of our own on hooks that somebody else keeps: server-side apply leaves the rest to them."""
        manifest = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [{"name": one, **_only(OURS)} for one in webhooks],
        }
        self.federation.kubectl(
            "apply",
            "--server-side",
            "--field-manager=bench",
            "--validate=false",
            "-f",
            "-",
            manifest=json.dumps(manifest),
        )

    def _limit_karmadas(self) -> None:
        for kind, name in _KARMADA_HOOKS.items():
            stored = self.federation.kubectl.json("get", kind.lower(), name)
            for index, hook in enumerate(stored["webhooks"]):
                if hook["name"] == "resourcebinding.karmada.io":
                    patch = [
                        {
                            "op": "add",
                            "path": f"/webhooks/{index}/namespaceSelector",
                            "value": _only(KARMADA)["namespaceSelector"],
                        }
                    ]
                    self.federation.kubectl("patch", kind.lower(), name, "--type=json", "-p", json.dumps(patch))


@contextmanager
def ground(folder: Path, shape: Shape = SHAPE) -> Iterator[Ground]:
    """A federation with everything in place, while the block lasts."""
    with Guard() as guard:
        federation = Federation(folder / "fed")
        try:
            federation.up(shape, guard)
            made = Ground(federation, guard)
            made.prepare()
            yield made
        finally:
            federation.down()


def labels_of(setup: str) -> dict[str, str]:
    """Of a namespace that a set-up's hooks see."""
    return {_LABEL: _SLUGS[setup], "namespace.karmada.io/skip-auto-propagation": "true"}


def _only(setup: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {_LABEL: _SLUGS[setup]}}}


def _quotas(setup: str, namespace: str, cpu: str) -> list[dict[str, Any]]:
    metadata = {"name": "quota", "namespace": namespace}
    hard = {"cpu": cpu, "memory": "1Pi"}
    if setup == OURS:
        return [
            {
                "apiVersion": "quota.karmada.io/v1alpha1",
                "kind": "KarmadaQuota",
                "metadata": metadata,
                "spec": {"hard": hard},
            }
        ]
    if setup == KARMADA:
        return [
            {
                "apiVersion": "policy.karmada.io/v1alpha1",
                "kind": "FederatedResourceQuota",
                "metadata": metadata,
                "spec": {"overall": hard},
            }
        ]
    return []
