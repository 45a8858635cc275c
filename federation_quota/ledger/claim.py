"""What a binding claims, whichever accounts it falls under."""

from dataclasses import dataclass
from typing import Final

from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import Owner


@dataclass(frozen=True, slots=True)
class Claim:
    """The full charge of a binding, and what accounts select it by. Each account takes from it what it limits.

    Whose it is, and where in a tree, is part of it: so whatever limits are made later find in any claim, stored or
    just admitted, all that they need.
    """

    charge: Resources
    priority_class: str = ""
    leaf: str = ""
    """Where in a tree it stands, of what has an owner: for all else nobody asks."""
    owner: Owner | None = None

    def is_beside(self, other: "Claim") -> bool:
        """Whether accounts select both alike. One that goes elsewhere is an increase there, whatever it had before."""
        return (
            self.priority_class == other.priority_class
            and self.leaf == other.leaf
            and (self.owner is other.owner or self.owner == other.owner)
        )


NO_CLAIM: Final = Claim(NOTHING)
