"""What a federation's processes logged while a test ran, for the report of a test that failed.

A run has gigabytes of it. Shown are the lines since the test began that name one of its own objects, and errors.
"""

import re
from pathlib import Path

LINES = 30  # of each process
WIDTH = 400
_ERROR = re.compile(r'"level": ?"(error|critical)"|^[EF]\d{4} |Traceback|panic:')


def marks(logs: Path) -> dict[Path, int]:
    """How far each log is now."""
    return {log: log.stat().st_size for log in logs.glob("*.log")}


def since(before: dict[Path, int], logs: Path, names: list[str]) -> list[tuple[str, str]]:
    """By process, what it logged since then about these names, or as an error."""
    found = []
    for log in sorted(logs.glob("*.log")):
        with log.open("rb") as file:
            file.seek(before.get(log, 0))
            lines = file.read().decode(errors="replace").splitlines()
        telling = [line[:WIDTH] for line in lines if _ERROR.search(line) or any(name in line for name in names)]
        if telling:
            left_out = [f"… {len(telling) - LINES} lines before"] if len(telling) > LINES else []
            found.append((f"log of {log.stem}", "\n".join([*left_out, *telling[-LINES:]])))
    return found
