"""Writes what follows from the chart: `make chart`; `--check` fails where a file differs.

- `hack/localfed/manifests/access.yaml`: what federation-quota may do in a local federation, rendered as for an
  administrator. It stands in the checkout so that a federation needs no helm.
- `hack/localfed/manifests/validators.yaml`: what it may do beyond that where validators are on.
- The table of values in the chart's README, from `values.yaml` and its comments.
"""

import re
import subprocess
import sys
from pathlib import Path

from environment import ROOT, enter

enter()

import yaml  # noqa: E402 - only there once the environment is

from localfed import programs  # noqa: E402
from localfed.guard import Guard  # noqa: E402
from localfed.quota import ACCESS, CONTROLLERS, NAMESPACE, RELEASE, VALIDATORS_ACCESS, WEBHOOK  # noqa: E402

CHART = ROOT / "charts" / "federation-quota"
README = CHART / "README.md"
HEADER = "# Rendered by helm from charts/federation-quota: `make chart` writes it anew.\n"
KARMADA = ["target=karmada", f"karmada.webhook.user={WEBHOOK}", f"karmada.controllers.user={CONTROLLERS}"]
TABLE = re.compile(r"(<!-- values -->\n).*(<!-- end of values -->\n)", re.DOTALL)


def access(helm: Path) -> str:
    """The roles on either API server: here the federation is its own host."""
    host = _template(helm, "access.yaml", [f"fullnameOverride={RELEASE}", "metrics.authorization=token"])
    return HEADER + _template(helm, "karmada.yaml", KARMADA) + host


def validators(helm: Path) -> str:
    """The roles that validators take."""
    return HEADER + _template(helm, "validators.yaml", [*KARMADA, "validators.enabled={any}"])


def _template(helm: Path, name: str, values: list[str]) -> str:
    command = [str(helm), "template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--set", ",".join(values)]
    command += ["--show-only", f"templates/{name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def readme() -> str:
    """The README with its table as values.yaml has it."""
    rows = "".join(f"| `{path}` | `{default}` | {text} |\n" for path, default, text in _values())
    return TABLE.sub(
        lambda found: f"{found[1]}| value | default | |\n|---|---|---|\n{rows}{found[2]}", README.read_text()
    )


def _values() -> list[tuple[str, str, str]]:
    """Path, default and the comment above it, of each value that is not a group of others."""
    text = (CHART / "values.yaml").read_text()
    rows: list[tuple[str, str, str]] = []
    groups: list[str] = []
    words: list[str] = []
    document = yaml.safe_load(text)
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# "):
            words.append(stripped.removeprefix("# "))
            continue
        found = re.match(r"( *)(\w+):(?: (.*))?$", line)
        if found:
            depth = len(found[1]) // 2
            groups[depth:] = [found[2]]
            value = document
            for part in groups:
                value = value.get(part) if isinstance(value, dict) else None
            if value is None:
                pass  # inside a list
            elif found[3] is not None or not isinstance(value, dict):
                shown = yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
                rows.append((".".join(groups), shown, " ".join(words)))
            elif words:
                rows.append((".".join(groups), "", " ".join(words)))
        words = []
    return rows


def main() -> None:
    """Write them, or say whether they are up to date."""
    with Guard() as guard:
        helm = programs.provide_helm(guard)
    for path, text in ((ACCESS, access(helm)), (VALIDATORS_ACCESS, validators(helm)), (README, readme())):
        if "--check" not in sys.argv:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is not what the chart says: run `make chart`")


if __name__ == "__main__":
    main()
