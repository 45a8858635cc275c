"""The programs of a federation: which there are, and where they come from.

They are built from the registries with the versions pinned in `hack/modules`, each set when first needed, into the
user's cache; or taken from the folder that FEDERATION_BIN_DIR names, after a look at their versions.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localfed import builder, cache
from localfed.errors import FederationError
from localfed.guard import Guard

MODULES = Path(__file__).resolve().parent.parent / "modules"


@dataclass(frozen=True, slots=True)
class ProgramSet:
    """Programs that are built together, from one pinned module."""

    name: str
    folder: str  # under hack/modules
    origin: str  # the module whose version names the set
    packages: dict[str, tuple[str, ...]]  # package to build -> the program names it goes by
    space_gib: float  # what a build from nothing takes, with all caches
    version_variable: str | None = None
    version_arguments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)  # name beside the programs -> path inside the origin
    left_out: dict[str, str] = field(default_factory=dict)  # module -> a file of it that is not compiled
    standard: tuple[str, ...] = ()  # packages of Go's own that can be compiled before any module is there

    @property
    def module(self) -> Path:
        """The folder with go.mod and go.sum."""
        return MODULES / self.folder

    @property
    def version(self) -> str:
        """The pinned version, as go.mod has it: `v1.36.4`."""
        match = re.search(rf"^\s*(?:require )?{re.escape(self.origin)} (v\S+)", self._go_mod(), re.MULTILINE)
        if not match:
            raise FederationError(f"{self.module / 'go.mod'} does not require {self.origin}")
        return match[1]

    @property
    def oldest_go(self) -> tuple[int, int]:
        """The oldest Go that can build it."""
        match = re.search(r"^go (\d+)\.(\d+)", self._go_mod(), re.MULTILINE)
        if not match:
            raise FederationError(f"{self.module / 'go.mod'} has no go line")
        return int(match[1]), int(match[2])

    @property
    def programs(self) -> list[str]:
        """The names the programs go by."""
        return [name for names in self.packages.values() for name in names]

    def executable(self, package: str) -> str:
        """What `go build` calls the program of that package."""
        match = re.search(r"^module (\S+)", self._go_mod(), re.MULTILINE)
        return Path(match[1] if match and package == "." else package).name

    @property
    def key(self) -> str:
        """The cache folder's name: another version or another source is another folder."""
        digest = hashlib.sha256(repr(self).encode())
        for path in sorted(self.module.iterdir()):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    def _go_mod(self) -> str:
        return (self.module / "go.mod").read_text()


KUBERNETES = ProgramSet(
    name="kubernetes",
    folder="kubernetes",
    origin="k8s.io/kubernetes",
    packages={
        ".": ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
        # A program of its own: it is started often, and starts faster without the servers' packages.
        "k8s.io/kubernetes/cmd/kubectl": ("kubectl",),
    },
    space_gib=6,
    version_variable="k8s.io/component-base/version.gitVersion",
    version_arguments={
        "kube-apiserver": ("--version",),
        "kube-controller-manager": ("--version",),
        "kube-scheduler": ("--version",),
        "kubectl": ("version", "--client"),
    },
    # Helpers for Kubernetes' own tests, which no server calls. They alone import the fake clients: 58 packages, and a
    # twentieth of the build.
    left_out={
        "k8s.io/apiserver": "pkg/admission/plugin/policy/generic/policy_test_context.go",
        "k8s.io/kubernetes": "pkg/scheduler/backend/queue/testing.go",
    },
    # With what they import, nearly all that the programs need of Go's own.
    standard=("archive/zip", "encoding/xml", "go/format", "html/template", "net/http/pprof", "net/rpc", "testing"),
)

KWOK = ProgramSet(
    name="kwok",
    folder="kubernetes",  # the same Kubernetes libraries, already compiled
    origin="sigs.k8s.io/kwok",
    packages={"sigs.k8s.io/kwok/cmd/kwok": ("kwok",)},
    space_gib=1,
    version_arguments={"kwok": ("--version",)},
    # How its nodes and pods behave: ready at once, leases renewed, Jobs' pods complete.
    manifests={
        f"kwok-{path.rpartition('/')[2]}": f"kustomize/stage/{path}"
        for path in (
            "node/fast/node-initialize.yaml",
            "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
            "pod/fast/pod-complete.yaml",
            "pod/fast/pod-delete.yaml",
            "pod/fast/pod-ready.yaml",
        )
    },
)

KARMADA = ProgramSet(
    name="karmada",
    folder="kubernetes",  # the same Kubernetes libraries, already compiled
    origin="github.com/karmada-io/karmada",
    packages={
        "github.com/karmada-io/karmada/cmd/controller-manager": ("karmada-controller-manager",),
        "github.com/karmada-io/karmada/cmd/scheduler": ("karmada-scheduler",),
        "github.com/karmada-io/karmada/cmd/webhook": ("karmada-webhook",),
    },
    space_gib=4,
    version_variable="github.com/karmada-io/karmada/pkg/version.gitVersion",
    version_arguments={
        "karmada-controller-manager": ("version",),
        "karmada-scheduler": ("version",),
        "karmada-webhook": ("version",),
    },
    manifests={
        "karmada-crds": "charts/karmada/_crds/bases",
        "karmada-webhook-configuration.yaml": "artifacts/deploy/webhook-configuration.yaml",
    },
)

# No part of a federation: it renders and lints our chart.
HELM = ProgramSet(
    name="helm",
    folder="kubernetes",  # the same Kubernetes libraries, already compiled
    origin="helm.sh/helm/v4",
    packages={"helm.sh/helm/v4/cmd/helm": ("helm",)},
    space_gib=1,
    version_variable="helm.sh/helm/v4/internal/version.version",
    version_arguments={"helm": ("version", "--short")},
)

# No part of a federation: what elastic trees are measured beside.
KOORDINATOR = ProgramSet(
    name="koordinator",
    folder="koordinator",
    origin="github.com/koordinator-sh/koordinator",
    packages={".": ("koordinator-quota",)},
    space_gib=3,
)

# Nothing to run: the real definitions of other people's kinds that the chart makes objects of.
CERT_MANAGER = ProgramSet(
    name="cert-manager",
    folder="crds",
    origin="github.com/cert-manager/cert-manager",
    packages={},
    space_gib=0.1,
    manifests={
        f"{kind}.yaml": f"deploy/crds/cert-manager.io_{kind}.yaml"
        for kind in ("certificates", "clusterissuers", "issuers")
    },
)
PROMETHEUS_OPERATOR = ProgramSet(
    name="prometheus-operator",
    folder="crds",
    origin="github.com/prometheus-operator/prometheus-operator",
    packages={},
    space_gib=0.1,
    manifests={
        f"{kind}.yaml": f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
        for kind in ("prometheusrules", "servicemonitors")
    },
)

# Kubernetes first: the next set compiles while Kubernetes links. Most of what the others need is compiled by then.
FEDERATION = (KUBERNETES, KARMADA, KWOK)
# The chart's, and no part of a federation.
CHART = (HELM, CERT_MANAGER, PROMETHEUS_OPERATOR)

GROUPS: dict[str, tuple[ProgramSet, ...]] = {
    "federation": FEDERATION,
    "chart": CHART,
    **{one.name: (one,) for one in (*FEDERATION, *CHART, KOORDINATOR)},
}
"""What `hack/federation build --only` names."""


def provide(wanted: ProgramSet, guard: Guard) -> Path:
    """The folder with the set's programs, built first if need be."""
    return provide_all([wanted], guard)[0]


def provide_all(wanted: Sequence[ProgramSet], guard: Guard) -> list[Path]:
    """The folders with the sets' programs, in the same order; what is missing is built in one go."""
    if given := os.environ.get("FEDERATION_BIN_DIR"):
        return [_given(one, Path(given).expanduser().resolve()) for one in wanted]
    folders = [cache.directory() / "bin" / one.key for one in wanted]
    builder.build(list(zip(wanted, folders, strict=True)), guard)
    return folders


def provide_helm(guard: Guard) -> Path:
    """The helm program: the machine's own where it is of the pinned major version, else built first if need be."""
    return _own_helm() or provide(HELM, guard) / "helm"


def provide_for_tests(guard: Guard) -> None:
    """Have everything built that the test suite starts."""
    provide_all([one for one in (*FEDERATION, *CHART) if one is not HELM or not _own_helm()], guard)


def _own_helm() -> Path | None:
    """The machine's helm, where it is of the pinned major version."""
    own = shutil.which("helm")
    if own and "FEDERATION_BIN_DIR" not in os.environ:
        said = _said_version(Path(own), HELM.version_arguments["helm"])
        if said.startswith(HELM.version.split(".")[0] + "."):
            return Path(own)
    return None


def _given(wanted: ProgramSet, folder: Path) -> Path:
    missing = [name for name in (*wanted.programs, *wanted.manifests) if not (folder / name).exists()]
    if missing:
        raise FederationError(
            f"FEDERATION_BIN_DIR={folder} lacks {', '.join(missing)}: unset it to have them built, "
            f"or fill a folder with `hack/federation build --into {folder}`."
        )
    major, minor, *_ = wanted.version.removeprefix("v").split(".")
    for name, arguments in wanted.version_arguments.items():
        said = _said_version(folder / name, arguments)
        if not re.search(rf"\b{major}\.{minor}\.", said.replace("v", " ")):
            raise FederationError(
                f"FEDERATION_BIN_DIR={folder}: {name} is not of {wanted.name} {major}.{minor}, "
                f"it says: {said or 'nothing'}"
            )
    return folder


def _said_version(program: Path, arguments: tuple[str, ...]) -> str:
    try:
        answer = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return " ".join((answer.stdout + answer.stderr).split())[:200]
