"""What an account sees of a claim: only what it selects, only what it limits."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from federation_quota.ledger.claim import Claim
from federation_quota.resource_name import COUNT
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import Selector


@dataclass(frozen=True, slots=True)
class Lens:
    """A selector and the canonical names that are limited.

    Two accounts with equal lenses see the same; an account whose lens changes is a new account in all but name, because
    what was admitted while it did not look is not in its books.
    """

    selector: Selector
    names: frozenset[str]

    def cost(self, claim: Claim) -> Resources:
        """What the claim costs here: nothing where it is not selected."""
        if not self.selector.matches(claim.priority_class):
            return NOTHING
        seen = [
            (name, amount)
            for name, amount in claim.charge.items()
            # As in Kubernetes: a quota with scopes is about pods, and never counts objects.
            if name in self.names and (self.selector.counts_objects or not name.startswith(COUNT))
        ]
        return claim.charge if len(seen) == len(claim.charge) else Resources(seen)

    @property
    def shape(self) -> str:
        """A short text that is equal exactly when the lens is, for an account's status."""
        return _shape(self)


class _Everything(Lens):
    """Sees all of every claim."""

    __slots__ = ()

    def cost(self, claim: Claim) -> Resources:
        """All that it costs."""
        return claim.charge


EVERYTHING: Final = _Everything(Selector(), frozenset())
"""For who wants to know what there is, whoever limits it."""


@lru_cache(maxsize=4096)  # asked for at every admission, of the same few
def _shape(lens: Lens) -> str:
    described = f"{lens.selector}|{'|'.join(sorted(lens.names))}"
    return hashlib.sha256(described.encode()).hexdigest()[:16]
