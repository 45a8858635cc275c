"""`bench/results.json`: what was measured last, set by set, in a file that is committed.

Each run of a set replaces that set's own part and touches no other, so that a diff shows what moved. The machine is
described as far as figures depend on it; nothing here says which machine it is.
"""

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from bench.measure import Comparison, Findings
from localfed.programs import KARMADA, KUBERNETES

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results.json"

_DIGITS = 4  # significant ones: beyond these, every run differs


def write(name: str, findings: Findings, path: Path = RESULTS) -> None:
    """Put a set's findings in the place of its former ones."""
    known = json.loads(path.read_text()) if path.exists() else {}
    sets = {**known.get("sets", {}), name: _set(findings)}
    text = json.dumps({"machine": machine(), "sets": dict(sorted(sets.items()))}, indent=2, ensure_ascii=False)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n")


def machine() -> dict[str, str | int]:
    """What the figures depend on."""
    return {
        "cpu": _processor(),
        "cores": psutil.cpu_count() or 1,
        "memoryGiB": round(psutil.virtual_memory().total / 2**30),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "kubernetes": KUBERNETES.version,
        "karmada": KARMADA.version,
    }


def _set(findings: Findings) -> dict[str, object]:
    return {
        "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "figures": _rounded(findings.figures),
        "bars": [_bar(row) for row in findings.rows],
    }


def _bar(row: Comparison) -> object:
    return _rounded(
        {
            "what": row.what,
            "yardstick": row.yardstick,
            "unit": row.unit,
            "ours": row.ours,
            "theirs": row.theirs,
            "ratio": row.ratio,
            "bar": None if row.bar is None else f"{row.sign} {row.bar:g}",
            "is_missed": row.is_missed,
        }
    )


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return int(value) if abs(value) >= 10**_DIGITS else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(item) for item in value]
    return value


def _processor() -> str:
    """The processor's model, as Linux tells it; elsewhere its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def _commit() -> str:
    """The commit that was measured, if this is a checkout; with a + where it was changed since."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ).stdout.strip()
    except OSError:
        return ""
