"""Where what was built is kept for next time: one folder per user, safe to delete at any time."""

import os
from pathlib import Path


def directory() -> Path:
    """The project's folder under the user's cache directory, made if need be."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "federation-quota"
    path.mkdir(parents=True, exist_ok=True)
    return path
