"""Who a workload belongs to: whoever created it, as an API server knows them.

Limits per user and group are about the owner. The webhook writes it on the template when that is created, and the
binding's stamp takes it from there. Here is decided who is an owner at all, what of their groups is kept, and how it is
written. Never here: what an owner is limited to.

Groups are sorted and named once, so that equal owners have equal texts: which group a workload is charged to depends on
the limits, never on the order in which an API server lists groups. Nothing is cut short: an owner without one of their
groups could escape its limit. Who is in more groups than can be kept is told so.

The service accounts of a namespace are one owner, named after their group, unless an administrator wants each to be
one: whoever administers a namespace makes as many as they like, may act as each, and would have as many limits.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from federation_quota import stamp
from federation_quota.stamp import Owner

MOST_GROUPS: Final = 512
LONGEST_TEXT: Final = 32 * 1024
"""Of an owner, as it is written. Every binding of theirs carries it, too."""

EVERYBODY: Final = "system:authenticated"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_SERVICE_ACCOUNTS: Final = "system:serviceaccounts:"


class IdentityError(ValueError):
    """Somebody cannot be an owner, or what was written is none."""


@dataclass(frozen=True, slots=True)
class Identities:
    """Who is an owner, as an administrator has set it."""

    ownerless_users: frozenset[str] = frozenset()
    ownerless_groups: frozenset[str] = frozenset()
    ignored_groups: tuple[str, ...] = (EVERYBODY,)
    """Not kept. One that ends in `*` stands for all that begin so."""
    administrators: frozenset[str] = frozenset()
    """The users who may say themselves whose a workload is."""
    joins_service_accounts: bool = True
    """Whether those of one namespace are one owner."""

    def owner(self, user: str, groups: Iterable[str]) -> Owner | None:
        """The owner of what that user creates; None where it has none. IdentityError for who cannot be one."""
        found = set(groups)
        if user in self.ownerless_users or not found.isdisjoint(self.ownerless_groups):
            return None
        if not user:
            raise IdentityError("it is not known who asks")
        owner = Owner(self._called(user), tuple(sorted(group for group in found if not self._is_ignored(group))))
        _check(owner)
        return owner

    def _called(self, user: str) -> str:
        if not self.joins_service_accounts or not user.startswith(_SERVICE_ACCOUNT):
            return user
        return _SERVICE_ACCOUNTS + user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]

    def _is_ignored(self, group: str) -> bool:
        return any(
            group.startswith(one.removesuffix("*")) if one.endswith("*") else group == one
            for one in self.ignored_groups
        )


def encode(owner: Owner) -> str:
    """The annotation's text: equal owners have equal texts."""
    return json.dumps({"user": owner.user, "groups": list(owner.groups)}, separators=(",", ":"))


def decode(text: str) -> Owner:
    """The owner in an annotation's text; IdentityError where there is none."""
    if len(text) > LONGEST_TEXT:
        raise IdentityError(f"an owner of more than {LONGEST_TEXT} characters")
    try:
        owner = stamp.read_owner(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise IdentityError(f'not an owner, which reads {{"user": "ann", "groups": ["dev"]}}: {error}') from error
    if not owner.user:
        raise IdentityError("an owner without a name")
    _check(owner)
    return owner


def _check(owner: Owner) -> None:
    too_much = ""
    if len(owner.groups) > MOST_GROUPS:
        too_much = f"{len(owner.groups)} groups, of which {MOST_GROUPS} at most are kept with a workload"
    elif len(encode(owner)) > LONGEST_TEXT:
        too_much = f"names of groups that have more than {LONGEST_TEXT} characters together"
    if too_much:
        raise IdentityError(
            f"{owner.user[:80]} has {too_much}: "
            "have an administrator ignore those that no limit is about (--ignored-groups)"
        )
