"""How many examples the property tests try: few by default, and `FEDQUOTA_FUZZ=20` gives each twenty times as many."""

import os
from typing import Final

TIMES: Final = float(os.environ.get("FEDQUOTA_FUZZ", "1"))


def scaled(count: int) -> int:
    """So many examples, or as many more as the environment asks for."""
    return max(1, int(count * TIMES))
