"""What a binding claims, whichever accounts it falls under."""

from dataclasses import dataclass
from typing import Final

from federation_quota.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Claim:
    """The full charge of a binding, and what accounts select it by. Each account takes from it what it limits."""

    charge: Resources
    priority_class: str = ""


NO_CLAIM: Final = Claim(NOTHING)
