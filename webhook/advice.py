"""The early word: what a workload's quotas will do about it, said to whoever applies or scales it.

Karmada binds a workload after it was accepted, so that a refusal comes too late for the terminal. This says it at once:
as a Warning, or as a denial in namespaces that ask for one (the API server reads their label and calls the one hook or
the other). It is about workloads only, whose requests their owner can change; and it fails open, whatever goes wrong:
the binding is judged in any case.

A denial is given only on stored bindings and a quota just read, like the binding's own, and only to who asks for more
than before: a workload that was refused may always be made smaller. What elastic quotas make of it is `prospects`'.
Under one, what its owner and their group may have is looked at like the quotas of its namespace.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from federation_quota import forecast, karmadaquota
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.answer import Allowed, Denied
from federation_quota.accounting.observation import Observation
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube import codec
from federation_quota.kube.client import Client
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.kube.resource import Resource
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Ask, Books, Exceeded, Refused, Unproven
from federation_quota.limits import usage
from federation_quota.workload import Manifest
from webhook.prospects import NO_PROSPECT, Prospects
from webhook.review import ALLOWED, QUOTA_EXCEEDED, Verdict, exceeded, refuse

log = structlog.get_logger()

SCALE: Final = "scale"
_READ_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Advice:
    """Looks ahead. One for each of the two hooks: where a namespace asks for it, `denies`."""

    accountant: Accountant
    observation: Observation
    mirror: BindingMirror
    client: Client
    denies: bool = False
    is_warning_only: bool = False  # the break-glass for the whole system
    prospects: Prospects | None = None  # None: there are no elastic quotas

    async def __call__(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        """What there is to say about a CREATE, an UPDATE or a scale; nothing where that cannot be told."""
        accounts = {account.name: account for account in self.accountant.accounts(request.namespace)}
        if not accounts and (self.prospects is None or not self.prospects.leaves.exist):
            return ALLOWED
        try:
            async with asyncio.timeout_at(deadline):
                return await self._advise(request, accounts, deadline)
        except Exception as problem:  # nobody is kept from anything because this fails
            log.warning(
                "advice.failed",
                namespace=request.namespace,
                name=request.name,
                kind=type(problem).__name__,
                problem=str(problem),
            )
            return ALLOWED

    async def _advise(
        self, request: codec.AdmissionRequest, accounts: Mapping[str, Account], deadline: float
    ) -> Verdict:
        manifest, before = await self._manifests(request)
        plural = request.resource.resource
        name = forecast.binding_name(manifest["kind"], manifest["metadata"]["name"])
        existing = self.mirror.bindings.get(ObjectKey(request.namespace, name))
        denies = self.denies and not self.is_warning_only and forecast.asks_more(manifest, before, plural)
        prospect = NO_PROSPECT
        if self.prospects is not None:
            prospect = await self.prospects.of(request.namespace, manifest, plural, existing)
        if prospect.is_final and denies:
            return refuse(403, QUOTA_EXCEEDED, prospect.text)
        ask = forecast.ask(manifest, plural, existing, prospect.leaf)
        own = {request.namespace: ask} if ask.increases else {}
        verdict = ALLOWED
        if denies:
            verdict = await self._denial({**own, **prospect.asks}, ask, existing, accounts, deadline)
        elif own:
            verdict = self._warning(request.namespace, ask, existing, accounts.values())
        return replace(verdict, warnings=(*verdict.warnings, prospect.text)) if prospect.text else verdict

    def _warning(self, namespace: str, ask: Ask, existing: Binding | None, accounts: Iterable[Account]) -> Verdict:
        """By this replica's own view: what is under way elsewhere counts, too."""
        view = self.observation.view
        told = []
        for account in (*accounts, *self.accountant.charged(ask.new)):
            # A user's or group's account is taken up when it is first asked, and its bindings are counted before.
            if not (account.is_active or usage.is_usage(account)) or view.version < account.observed:
                continue  # too little is known to say anything
            name = domain.name_in(account.namespace, ObjectKey(namespace, ask.binding))
            verdict = Books(account, view).judge(replace(ask, binding=name))
            if isinstance(verdict, Refused) or (isinstance(verdict, Unproven) and not verdict.is_advanced):
                told.append(self._word(account, ask, existing, verdict.exceeded))
        return Verdict(warnings=tuple(told))

    async def _denial(
        self,
        asks: Mapping[str, Ask],
        ask: Ask,
        existing: Binding | None,
        accounts: Mapping[str, Account],
        deadline: float,
    ) -> Verdict:
        """As the binding would be judged, without reserving anything."""
        answer = await self.accountant.answer(
            asks,
            deadline=deadline,
            dry_run=True,
            may_exceed=lambda place, name: domain.is_namespace(place) and not _denies(accounts.get(name)),
        )
        match answer:
            case Denied(denial):
                return exceeded(denial)
            case Allowed(warnings):
                told = [
                    self._word(accounts[one.quota], ask, existing, one.exceeded)
                    for one in warnings
                    if one.quota in accounts
                ]
                return Verdict(warnings=tuple(told))
            case _:
                return ALLOWED

    def _word(self, account: Account, ask: Ask, existing: Binding | None, exceeded: Sequence[Exceeded]) -> str:
        return forecast.word(
            account,
            ask,
            exceeded,
            is_running=existing is not None and bool(existing.clusters),
            only_warns=self.is_warning_only,
        )

    async def _manifests(self, request: codec.AdmissionRequest) -> tuple[Manifest, Manifest | None]:
        """The workload as it would be, and as it is; None where it is new."""
        new = codec.decode_object(request.object)
        old = codec.decode_object(request.old_object) if request.operation == "UPDATE" else None
        if request.sub_resource != SCALE:
            return new, old
        found = request.resource
        resource = Resource(found.group, found.version, found.resource, "")
        body = await self.client.get(resource, request.name, request.namespace, timeout_seconds=_READ_SECONDS)
        stored = codec.decode_object(body)
        return _scaled(stored, new), _scaled(stored, old) if old else None


def _scaled(workload: dict[str, Any], scale: dict[str, Any]) -> Manifest:
    return {**workload, "spec": {**workload["spec"], "replicas": (scale.get("spec") or {}).get("replicas", 0)}}


def _denies(account: Account | None) -> bool:
    return account is not None and karmadaquota.quota(account).on_exceeded == karmadaquota.DENY
