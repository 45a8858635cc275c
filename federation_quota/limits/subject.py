"""A user or a group of a tree: what has an account of its own."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from federation_quota.ledger import domain
from federation_quota.limits.limit import WILDCARD
from federation_quota.stamp import Owner

USER: Final = "User"
GROUP: Final = "Group"

_OTHERS: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_SHOWN: Final = 63
_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class Subject:
    """Somebody whose use of a tree is limited: a user, a group, or by the name `*` all groups that are not named."""

    tree: str
    kind: str
    """User or Group."""
    name: str

    @property
    def account(self) -> str:
        """The name of its account: the same wherever it is made up, one for each, and readable as far as that goes."""
        return _account(self)

    @property
    def domain(self) -> str:
        """The part of the ledger that its account is alone in."""
        return domain.of_usage(self.account)

    def __str__(self) -> str:
        if self.name == WILDCARD:
            return "all groups that are not named"
        return f"{self.kind.lower()} {self.name}"


def counting_for(tree: str, owner: Owner) -> Iterator[Subject]:
    """All whom what somebody has in a tree could be charged to, whatever the limits."""
    yield Subject(tree, USER, owner.user)
    for group in (*owner.groups, WILDCARD):
        yield Subject(tree, GROUP, group)


@lru_cache(maxsize=8192)  # asked for at every admission, of the same ones
def _account(subject: Subject) -> str:
    described = "\0".join((subject.tree, subject.kind, subject.name))
    digits = hashlib.sha256(described.encode()).hexdigest()[:_DIGITS]
    shown = "others" if subject.name == WILDCARD else _OTHERS.sub("-", subject.name.lower()).strip("-")
    readable = shown[:_LONGEST_SHOWN].strip("-")
    return ".".join((subject.tree, subject.kind.lower(), f"{readable}-{digits}" if readable else digits))
