"""The Kubernetes half of a federation: one etcd, and per cluster an API server and the controllers it needs.

Pure description: paths, ports and flags become `Spec`s. Certificates and kubeconfigs are written on the way, because
the flags name them; nothing is started here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localfed import kubeconfig
from localfed.authority import Authority
from localfed.directory import Directory
from localfed.ports import LOOPBACK
from localfed.process import Spec

FEDERATION = "federation"
MASTERS = "system:masters"

# Deletion needs these wherever objects live: namespaces end, and what an owner leaves behind goes with it.
HOUSEKEEPING = ["namespace-controller", "garbage-collector-controller"]
# On the federation also: roles that gather others (our view roles aggregate to `view`), finished Jobs that go.
FEDERATION_CONTROLLERS = [*HOUSEKEEPING, "clusterrole-aggregation-controller", "ttl-after-finished-controller"]
# On a member with nodes: what turns workloads into pods, and keeps nodes and pods tidy.
WORKLOAD_CONTROLLERS = [
    *HOUSEKEEPING,
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "job-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
]


@dataclass(frozen=True, slots=True)
class Cluster:
    """One API server and what is needed to speak to it; each has a CA of its own, as clusters do."""

    name: str
    port: int
    authority: Authority
    directory: Directory

    @property
    def server(self) -> str:
        """Its address."""
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def tokens(self) -> Path:
        """The file of its static bearer tokens."""
        return self.directory.pki / self.name / "tokens.csv"

    def access(self, identity: str, user: str | None = None, groups: Sequence[str] = ()) -> kubeconfig.Access:
        """An identity of its own for each program. All may do everything, but for a named user, whom roles are for."""
        groups = groups if user else [MASTERS]
        certificate, key = self.authority.issue(identity, common_name=user or identity, organizations=groups)
        return kubeconfig.Access(self.name, self.server, self.authority.certificate, certificate, key)

    def kubeconfig(self, identity: str, user: str | None = None, groups: Sequence[str] = ()) -> Path:
        """The kubeconfig file of a program, or of a person."""
        path = self.directory.pki / self.name / f"{identity}.kubeconfig"
        return path if path.exists() else kubeconfig.write(path, [self.access(identity, user, groups)])


def cluster(directory: Directory, name: str, port: int) -> Cluster:
    """The cluster of that name in the folder."""
    return Cluster(name, port, Authority(directory.pki / name, f"{name}-ca"), directory)


def etcd(directory: Directory, programs: Path, ports: dict[str, int]) -> Spec:
    """One etcd for all clusters: each API server keeps to a prefix of its own."""
    authority = Authority(directory.pki / "etcd", "etcd-ca")
    certificate, key = authority.issue("server", common_name="etcd")
    client, peer = (f"https://{LOOPBACK}:{ports[name]}" for name in ("etcd", "etcd-peer"))
    health = f"http://{LOOPBACK}:{ports['etcd-health']}"
    return Spec(
        name="etcd",
        argv=[
            str(programs / "etcd"),
            f"--data-dir={directory.etcd}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--listen-metrics-urls={health}",
            f"--cert-file={certificate}",
            f"--key-file={key}",
            f"--trusted-ca-file={authority.certificate}",
            "--client-cert-auth",
            f"--peer-cert-file={certificate}",
            f"--peer-key-file={key}",
            f"--peer-trusted-ca-file={authority.certificate}",
            "--peer-client-cert-auth",
            "--unsafe-no-fsync",  # what a power cut would lose here is a test federation
            "--log-level=warn",
        ],
        port=ports["etcd"],
        health=f"{health}/health?exclude=NOSPACE",  # one that is full has started all the same
    )


def api_server(cluster: Cluster, programs: Path, etcd_port: int) -> Spec:
    """The API server of one cluster."""
    etcd_authority = Authority(cluster.directory.pki / "etcd", "etcd-ca")
    etcd_certificate, etcd_key = etcd_authority.issue(cluster.name, common_name=cluster.name)
    certificate, key = cluster.authority.issue("apiserver", common_name="kube-apiserver")
    public, private = cluster.authority.signing_key("service-account")
    tokens = [f"--token-auth-file={cluster.tokens}"] if cluster.tokens.exists() else []
    return Spec(
        name=f"{cluster.name}-apiserver",
        argv=[
            str(programs / "kube-apiserver"),
            f"--etcd-servers=https://{LOOPBACK}:{etcd_port}",
            f"--etcd-prefix=/{cluster.name}",
            f"--etcd-cafile={etcd_authority.certificate}",
            f"--etcd-certfile={etcd_certificate}",
            f"--etcd-keyfile={etcd_key}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={cluster.port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={cluster.authority.certificate}",
            *tokens,
            "--authorization-mode=RBAC",
            f"--service-account-issuer={cluster.server}",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={private}",
            "--service-cluster-ip-range=10.96.0.0/24",
            # No controllers make service accounts and no kubelet mounts their tokens here.
            "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
            "--endpoint-reconciler-type=none",  # nobody reaches a loopback API server through its Service
            "--profiling=false",
        ],
        port=cluster.port,
        health=f"{cluster.server}/readyz",
        authority=cluster.authority.certificate,
    )


def controller_manager(cluster: Cluster, programs: Path, port: int, controllers: list[str]) -> Spec:
    """kube-controller-manager with just the controllers that this cluster needs."""
    config = cluster.kubeconfig("kube-controller-manager")
    return Spec(
        name=f"{cluster.name}-controller-manager",
        argv=[
            str(programs / "kube-controller-manager"),
            f"--controllers={','.join(controllers)}",
            "--use-service-account-credentials=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            *_kube_component(cluster, config, "kube-controller-manager", port),
        ],
        port=port,
        health=f"https://{LOOPBACK}:{port}/healthz",
        authority=cluster.authority.certificate,
    )


def scheduler(cluster: Cluster, programs: Path, port: int) -> Spec:
    """kube-scheduler, for members that have nodes."""
    config = cluster.kubeconfig("kube-scheduler")
    return Spec(
        name=f"{cluster.name}-scheduler",
        argv=[str(programs / "kube-scheduler"), *_kube_component(cluster, config, "kube-scheduler", port)],
        port=port,
        health=f"https://{LOOPBACK}:{port}/healthz",
        authority=cluster.authority.certificate,
    )


def _kube_component(cluster: Cluster, config: Path, identity: str, port: int) -> list[str]:
    """The flags that kube-controller-manager and kube-scheduler share."""
    certificate, key = cluster.authority.issue(identity, common_name=identity, organizations=[MASTERS])
    return [
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        "--profiling=false",
    ]
