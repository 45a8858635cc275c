"""What queues and partitions are called here.

There a queue has its name among its siblings, here among all; there it may have capitals and signs that no name of an
object has. A queue keeps its own name where that is possible, and has that of its whole path where two would be the
same.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

_OTHERS: Final = re.compile(r"[^a-z0-9]+")
_LONGEST: Final = 63  # as the value of a label, by which workloads choose a quota


class Names:
    """Names that are given once each."""

    def __init__(self, paths: Iterable[str], *taken: str) -> None:
        self._short = Counter(plain(_last(path)) for path in paths)
        self._given = set(taken)

    def give(self, path: str) -> str:
        """The name of what is at a path, written with dots."""
        short = plain(_last(path))
        wanted = short if self._short[short] <= 1 else plain(path)
        name, number = wanted, 1
        while name in self._given:
            number += 1
            name = f"{wanted[: _LONGEST - 1 - len(str(number))]}-{number}"
        self._given.add(name)
        return name


def plain(text: str) -> str:
    """As a name of an object may be, as much like the text as that goes."""
    return _OTHERS.sub("-", text.lower()).strip("-")[:_LONGEST].strip("-") or "queue"


def _last(path: str) -> str:
    return path.rpartition(".")[2]
