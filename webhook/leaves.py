"""Elastic quotas as one replica knows them: which leaf a binding falls under, and the account of each leaf.

Fed by the watches of the quotas, and asking for the trees and namespaces as they are known. Where no quota is stored
there is nothing to know, and `exist` says so: then nothing in the path of a binding is any different.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from federation_quota.elastic import leaf
from federation_quota.elastic.association import Directory
from federation_quota.elastic.forest import Forest, Root
from federation_quota.elastic.quota import Quota
from federation_quota.ledger.account import Account

Labels = Mapping[str, str]


class Leaves:
    """All elastic quotas."""

    def __init__(
        self,
        *,
        roots: Callable[[], Mapping[str, Root]],  # the trees
        labels: Callable[[str], Labels | None],  # of a namespace; None where it is not known yet
        look: Callable[[str], Awaitable[Labels]],  # the same, read past all caches
        on_stored: Callable[[Account], None],
        on_deleted: Callable[[str, str, int], None],
    ) -> None:
        self._roots = roots
        self._labels = labels
        self._look = look
        self._on_stored = on_stored
        self._on_deleted = on_deleted
        self._accounts: dict[str, Account] = {}
        self._known: tuple[Mapping[str, Root], Directory] | None = None

    def quota_stored(self, account: Account) -> None:
        """An elastic quota as the watch saw it."""
        before = self._accounts.get(account.name)
        self._accounts[account.name] = account
        # Every admission changes a status; for whom a quota is changes hardly ever.
        if before is None or _association(before) != _association(account):
            self._known = None
        if self._is_charged(account):
            self._on_stored(account)

    def quota_deleted(self, place: str, name: str, version: int) -> None:
        """An elastic quota is gone."""
        self._accounts.pop(name, None)
        self._known = None
        self._on_deleted(place, name, version)

    @property
    def exist(self) -> bool:
        """Whether any binding could fall under a leaf."""
        return bool(self._accounts)

    def account(self, name: str) -> Account | None:
        """The account of a leaf, if there is one."""
        return self._accounts.get(name)

    async def leaf_of(self, namespace: str, quota_name: str = "", current: str | None = None) -> str:
        """The leaf that a workload of a namespace is charged to, empty for none.

        `current` is that of what runs, which stays where it is unless it comes to name another; None for all else.
        AssociationError where it names one that it cannot have; KubeError where its namespace cannot be read.
        """
        if current is not None and (not quota_name or current in (quota_name, f"{namespace}/{quota_name}")):
            return current
        labels = self._labels(namespace)
        if labels is None:
            # A tenant makes a namespace and something in it at once: it may be here before its namespace is.
            labels = await self._look(namespace)
        return self._directory().leaf_of(namespace, labels, quota_name or None) or ""

    def is_astray(self, namespace: str, name: str) -> bool:
        """Whether what is under that leaf, empty for none, falls under another now, or may."""
        labels = self._labels(namespace)
        return self._directory().is_astray(namespace, labels or {}, name)

    def _is_charged(self, account: Account) -> bool:
        """Whether bindings may be charged to it: to a parent none are, unless they were before it was one."""
        is_parent = leaf.kept(account).quota.is_parent and account.name not in _default_groups(self._roots())
        return not is_parent or bool(account.joined)

    def _directory(self) -> Directory:
        roots = self._roots()
        if self._known is None or self._known[0] != roots:
            defaults = _default_groups(roots)
            quotas = (leaf.kept(one).quota for one in self._accounts.values())
            found = [_no_parent(one) if one.name in defaults else one for one in quotas]
            self._known = roots, Forest.of(found, roots.values()).directory
        return self._known[1]


def _default_groups(roots: Mapping[str, Root]) -> set[str | None]:
    return {root.default_group for root in roots.values()}


def _no_parent(quota: Quota) -> Quota:
    return replace(quota, node=replace(quota.node, is_parent=False))


def _association(account: Account) -> object:
    quota = leaf.kept(account).quota
    return quota.is_parent, quota.own, quota.offered
