"""What an API server does with our JSON patches, for tests without one."""

import copy
from typing import Any


def apply_json_patch(target: dict[str, Any], operations: tuple[dict[str, Any], ...]) -> dict[str, Any] | None:
    """`test` and `add` of RFC 6902, as far as paths of ours go; None where a test fails."""
    result = copy.deepcopy(target)
    for operation in operations:
        *parents, last = operation["path"].lstrip("/").split("/")
        holder: Any = result
        for step in parents:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        if operation["op"] == "test":
            if holder[last] != operation["value"]:
                return None
        else:
            holder[last] = operation["value"]
    return result
