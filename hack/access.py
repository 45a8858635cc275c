"""Writes what federation-quota may do in a local federation: rendered from the chart, as an administrator would.

`hack/localfed/manifests/access.yaml` is what the processes run with on the federation API server. It stands in
the checkout so that a federation needs no helm; `--check` fails where it differs from what the chart renders.
"""

import subprocess
import sys
from pathlib import Path

from environment import ROOT, enter

enter()

from localfed import programs  # noqa: E402 - needs the environment
from localfed.guard import Guard  # noqa: E402
from localfed.quota import ACCESS, CONTROLLERS, NAMESPACE, RELEASE, WEBHOOK  # noqa: E402

CHART = ROOT / "charts" / "federation-quota"
HEADER = "# Rendered by helm from charts/federation-quota: `make access` writes it anew.\n"


def render(helm: Path) -> str:
    """The roles on either API server: here the federation is its own host."""
    karmada = ["target=karmada", f"karmada.webhook.user={WEBHOOK}", f"karmada.controllers.user={CONTROLLERS}"]
    host = _template(helm, "access.yaml", [f"fullnameOverride={RELEASE}", "metrics.authorization=token"])
    return HEADER + _template(helm, "karmada.yaml", karmada) + host


def _template(helm: Path, name: str, values: list[str]) -> str:
    command = [str(helm), "template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--set", ",".join(values)]
    command += ["--show-only", f"templates/{name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Write it, or say whether it is up to date."""
    with Guard() as guard:
        helm = programs.provide(programs.HELM, guard) / "helm"
    text = render(helm)
    if "--check" not in sys.argv:
        ACCESS.write_text(text)
    elif ACCESS.read_text() != text:
        sys.exit(f"{ACCESS.relative_to(ROOT)} is not what the chart renders: run `make access`")


if __name__ == "__main__":
    main()
