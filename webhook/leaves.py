"""Elastic quotas as one replica knows them: which leaf a binding falls under, and the account of each leaf.

Fed by the watches of the quotas, the trees and the namespaces. Where no quota is stored there is nothing to know, and
`exist` says so: then nothing in the path of a binding is any different.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cached_property

import structlog

from federation_quota.elastic import leaf
from federation_quota.elastic.association import Directory
from federation_quota.elastic.forest import Forest, Root, read_root
from federation_quota.elastic.quota import Quota
from federation_quota.ledger.account import Account

log = structlog.get_logger()

Labels = Mapping[str, str]


class Leaves:
    """All elastic quotas. `labels` are those of the namespaces that are known; `look` reads one that is not yet."""

    def __init__(
        self,
        labels: Mapping[str, Labels],
        look: Callable[[str], Awaitable[Labels]],
        on_stored: Callable[[Account], None],
        on_deleted: Callable[[str, str, int], None],
    ) -> None:
        self._labels = labels
        self._look = look
        self._on_stored = on_stored
        self._on_deleted = on_deleted
        self._accounts: dict[str, Account] = {}
        self._quotas: dict[str, Quota] = {}
        self._roots: dict[str, Root] = {}

    # What is stored

    def quota_stored(self, account: Account) -> None:
        """An elastic quota as the watch saw it."""
        name, quota = account.name, leaf.kept(account).quota
        before = self._quotas.get(name)
        self._accounts[name], self._quotas[name] = account, quota
        if before is None or (before.node, before.own, before.offered) != (quota.node, quota.own, quota.offered):
            self._forget_directory()
        if self._is_account(account):
            self._on_stored(account)

    def quota_deleted(self, place: str, name: str, version: int) -> None:
        """An elastic quota is gone."""
        self._accounts.pop(name, None)
        self._quotas.pop(name, None)
        self._forget_directory()
        self._on_deleted(place, name, version)

    def trees_changed(self, stored: Mapping[str, Mapping[str, object]]) -> None:
        """All trees, as they are stored."""
        roots = {}
        for name, tree in stored.items():
            try:
                roots[name] = read_root(tree)
            except (KeyError, TypeError, ValueError, AttributeError) as problem:
                log.warning("elastic.tree_unreadable", tree=name, problem=str(problem))
        defaults = self._default_groups
        self._roots = roots
        self._forget_directory()
        for name in self._default_groups - defaults:
            if name in self._accounts:
                self._on_stored(self._accounts[name])

    # What follows

    @property
    def exist(self) -> bool:
        """Whether any binding could fall under a leaf."""
        return bool(self._quotas)

    def account(self, name: str) -> Account | None:
        """The account of a leaf, if there is one."""
        return self._accounts.get(name)

    async def leaf_of(self, namespace: str, quota_name: str = "") -> str:
        """The leaf that a workload of a namespace is charged to, empty for none.

        AssociationError where it names one that it cannot have; KubeError where its namespace cannot be read.
        """
        labels = self._labels.get(namespace)
        if labels is None:
            # A tenant makes a namespace and something in it at once: it may be here before its namespace is.
            labels = await self._look(namespace)
        return self._directory.leaf_of(namespace, labels, quota_name or None) or ""

    def is_astray(self, namespace: str, name: str) -> bool:
        """Whether what is under that leaf, empty for none, falls under another by its namespace alone."""
        if name:
            return name not in self._directory.leaves
        return self._directory.leaf_of(namespace, self._labels.get(namespace, {})) is not None

    @property
    def _default_groups(self) -> set[str]:
        return {root.default_group for root in self._roots.values() if root.default_group}

    def _is_account(self, account: Account) -> bool:
        """Whether bindings may be charged to it. Where somebody has joined it, they may have been."""
        is_parent = leaf.kept(account).quota.is_parent and account.name not in self._default_groups
        return not is_parent or bool(account.joined)

    @cached_property
    def _directory(self) -> Directory:
        defaults = self._default_groups
        quotas = (
            replace(one, node=replace(one.node, is_parent=False)) if name in defaults else one
            for name, one in self._quotas.items()
        )
        return Forest.of(quotas, self._roots.values()).directory

    def _forget_directory(self) -> None:
        self.__dict__.pop("_directory", None)
