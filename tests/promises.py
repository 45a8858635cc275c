"""How soon things are promised to happen, and how long tests wait for them."""

import os

PROMPT = "FEDQUOTA_PROMPT"
AT_MOST_SECONDS = 120.0


def promised(seconds: float, at_most: float = AT_MOST_SECONDS) -> float:
    """The promise where this run holds the product to it (`make soak`), else a bound for a machine that is busy."""
    return seconds if os.environ.get(PROMPT) else at_most
