"""What a process has logged so far, while it goes on writing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def events(log: Path) -> Iterator[dict[str, Any]]:
    """Its lines of JSON. The last may be half written, and is left for later."""
    for line in log.read_text(errors="replace").splitlines(keepends=True):
        if line.startswith("{") and line.endswith("\n"):
            yield json.loads(line)
