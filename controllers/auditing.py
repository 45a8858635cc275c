"""The alarm bell: a stored increase that no quota has reserved (`federation_quota.ledger.audit`) is counted and told.

Quotas come by one watch for each kind, and each kind is audited by itself: how far one watch has come says nothing of
the others. Every replica of the controllers listens for itself, the standbys too. Nothing is decided here.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import structlog

from controllers.elastic.watching import LeafMirror
from federation_quota import metrics
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding
from federation_quota.elastic import leaf
from federation_quota.kube.mirrors import BindingMirror, QuotaMirror, claim
from federation_quota.kube.reflector import Reflector
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.audit import Audit, Increase
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.judging import Ask

log = structlog.get_logger()

LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Audits:
    """The audit of each kind of quota."""

    quotas: Audit = field(default_factory=Audit)
    elastic: Audit = field(default_factory=Audit)
    composites: Audit = field(default_factory=Audit)
    usage: Audit = field(default_factory=Audit)

    def of(self, place: str) -> Audit:
        """The audit of the accounts in a domain."""
        if domain.is_usage(place):
            return self.usage
        if not domain.is_leaf(place):
            return self.quotas
        return self.elastic if "/" in domain.leaf(place) else self.composites


class AuditedBindings(BindingMirror):
    """The bindings' mirror, heard by the audit. What a list brings is not: versions in between are missing."""

    def __init__(
        self, observation: Observation, on_change: Callable[[Binding | None, Binding | None], None], audits: Audits
    ) -> None:
        super().__init__(observation, on_change)
        self._audits = audits

    def upsert(self, item: Binding) -> None:
        """A binding was stored."""
        before = self.bindings.get(item.key)
        super().upsert(item)
        after = self.bindings[item.key]
        if after.fault or after.stamp.fault or (before is not None and after.template.kind == "Job"):
            return  # what it costs is not known; or depends on a Job's status, which nobody reviews
        was = before if before is not None and before.uid == after.uid else None
        before_claim, after_claim = claim(was) if was else NO_CLAIM, claim(after)
        self._increased(*after.key, after.version, before_claim, after_claim)
        for place in self._observation.view.domains_of(after_claim):
            self._increased(place, domain.name_in(place, after.key), after.version, before_claim, after_claim)
        if after.stamp.leaf:
            place = domain.of_leaf(after.stamp.leaf)
            old = leaf.claim(was) if was and was.stamp.leaf == after.stamp.leaf else NO_CLAIM
            self._increased(place, domain.name_in(place, after.key), after.version, old, leaf.claim(after))

    def _increased(self, place: str, name: str, version: int, old: Claim, new: Claim) -> None:
        if Ask("", name, new, old).increases:
            self._audits.of(place).increased(Increase(place, name, version, old, new))


class AuditedQuotas(QuotaMirror):
    """The quotas' mirror, heard by the audit."""

    def __init__(
        self, on_stored: Callable[[Account], None], on_deleted: Callable[[str, str, int], None], audit: Audit
    ) -> None:
        super().__init__(on_stored, on_deleted)
        self._audit = audit

    def replace(self, items: Sequence[Account], version: int) -> None:
        """Everything was listed anew."""
        self._audit.restart()
        super().replace(items, version)

    def upsert(self, item: Account) -> None:
        """A quota was stored."""
        super().upsert(item)
        self._audit.account_stored(item)

    def delete(self, item: Account) -> None:
        """A quota was deleted."""
        super().delete(item)
        self._audit.account_deleted(item.namespace, item.name)


class AuditedLeaves(LeafMirror):
    """The mirror of elastic quotas of one kind, heard by their audit."""

    def __init__(self, accounts: dict[str, Account], on_change: Callable[[str], None], audit: Audit) -> None:
        super().__init__(accounts, on_change)
        self._audit = audit

    def replace(self, items: Sequence[Account], version: int) -> None:
        """Everything was listed anew."""
        self._audit.restart()
        super().replace(items, version)
        for item in items:
            self._audit.account_stored(item)

    def upsert(self, item: Account) -> None:
        """A quota was stored."""
        super().upsert(item)
        self._audit.account_stored(item)

    def delete(self, item: Account) -> None:
        """A quota was deleted."""
        super().delete(item)
        self._audit.account_deleted(item.namespace, item.name)


Watched = Iterable[tuple[Audit, Sequence[Reflector[Any]]]]
"""Audits, each with what reads its accounts, and whatever else says what they limit."""


async def listen(audited: Watched, observation: Observation) -> NoReturn:
    """Say what was found, until cancelled."""
    pairs = list(audited)
    while True:
        for audit, watches in pairs:
            seen = min(one.version for one in watches)
            for found in audit.reached(accounts=seen, bindings=observation.view.version):
                metrics.increases_without_reservation.inc()
                increase = found.increase
                binding = domain.binding_in(increase.namespace, increase.binding)
                log.error(
                    "audit.unreserved",
                    namespace=binding.namespace,
                    binding=binding.name,
                    quota=found.quota,
                    version=increase.version,
                    before=increase.before.charge.to_json(),
                    after=increase.after.charge.to_json(),
                )
        await asyncio.sleep(LOOK_SECONDS)
