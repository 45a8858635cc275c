"""What has been said already: a refusal explains itself once, however often the same is tried again.

Karmada tries what was refused again and again, and every try is refused with the same words or nearly so.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

# Of that many objects the last refusal is remembered; one that is forgotten is told of again.
MOST: Final = 10_000


class Refusals:
    """The last refusal of each object, as one replica gave them."""

    def __init__(self) -> None:
        self._said: OrderedDict[Hashable, Hashable] = OrderedDict()

    def is_news(self, about: Hashable, said: Hashable) -> bool:
        """Whether it was not the last thing said about that object."""
        is_known = self._said.get(about) == said
        self._said[about] = said
        self._said.move_to_end(about)
        if len(self._said) > MOST:
            self._said.popitem(last=False)
        return not is_known

    def forget(self, about: Hashable) -> None:
        """It was let through: the next refusal is another one."""
        self._said.pop(about, None)
