"""What the accountant needs of the world: a store that can be read past all caches, and written under a version."""

from collections.abc import Collection, Mapping
from typing import Protocol

from federation_quota.ledger.account import Account
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.settling import LiveLook
from federation_quota.limits.subject import Subject


class ConflictError(Exception):
    """The account is not what it was when it was read: read it again and judge again."""


class UnreachableError(Exception):
    """The store did not answer in time, or answered that it could not: whether a write was taken is not known."""


class Store(Protocol):
    """Accounts and bindings, as the API server has them now; by domain (`ledger.domain`)."""

    async def read(self, namespace: str, name: str) -> Account | None:
        """The account as it is stored now, or None where there is none."""

    async def open(self, subject: Subject) -> Account:
        """The account of a user or group as it is stored now; made, with nothing in it, where there was none."""

    async def is_stored(self, account: Account) -> bool:
        """Whether that very version of the account is what is stored now: cheaper than reading it."""

    async def limits_stand(self, account: Account, names: Collection[str]) -> bool:
        """Whether a user's or group's limits of these names are stored as they are known here.

        They stand on the nodes of a tree, not in the account: no version of that proves anything of them.
        """

    async def write(self, account: Account) -> Account:
        """Replace what the ledger keeps in the account, if it still has `account.version`; ConflictError if not."""

    async def look(self, namespace: str, binding: str) -> LiveLook:
        """What is stored of a binding now."""

    async def versions(self, namespace: str, among: Collection[str] | None = None) -> Mapping[str, int]:
        """The bindings of a domain and their versions, as they are stored now; there may be others beside.

        `among`: only these matter, which spares a look at every namespace where a domain could be of any.
        """

    async def version(self) -> int:
        """The version that the store has reached by now."""

    async def replicas(self) -> Mapping[str, Legacy | None]:
        """Every replica whose admissions may still be on their way, as of now, and what those who left have left."""
