"""Reviews of Works: nothing goes to a member that its binding was not admitted with.

Karmada pushes the current template, not the admitted one, whenever anything touches the binding, and applies overrides
last. So a change that was refused at the binding, and an override that raises what was admitted, are stopped here.

- What cannot matter is let through without reading anything: Works of no binding, and of namespaces where no quota
  limits anything that pods have.
- All else is held against the binding as it is stored now. This replica's own view would do for neither answer. Not for
  a refusal: it may have yet to see the increase that this Work brings. And not to let it pass: Karmada writes a Work
  again only when something touches its binding, so that what passed on account of an older and larger binding stays.
- A Work above what was admitted (an override that is older than the quota) may come closer to it. It may not change
  otherwise: as with Kubernetes' own quota, what runs goes on, and is not replaced by something else above the limit.
- Of a binding that is gone nothing is admitted. Its Works are being deleted; Karmada, which writes one because it has
  not seen that yet, finds out by itself.
- Quotas that only warn stand in nobody's way here either.
- Under which elastic leaf a binding is, and whose, is known once it was read: where there are leaves, it is read in any
  case. Limits of its user and its group count whether or not anybody has needed their accounts yet.

What is beyond this hook: a Work that nobody writes. Where an override fixes the replicas and the binding is lowered
afterwards, the Work stays as it is, and there is nothing to review: what members use beyond their bindings is watched
over in the members.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from federation_quota import dispatch, karmadaquota
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.store import ConflictError, Store, UnreachableError
from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.dispatch import Overreach
from federation_quota.elastic import leaf
from federation_quota.kube import codec, error
from federation_quota.kube.client import Client
from federation_quota.kube.mirrors import claim
from federation_quota.kube.quotas import RESOURCE_BINDINGS
from federation_quota.ledger import domain
from federation_quota.ledger.account import Account
from federation_quota.limits import usage
from federation_quota.workload import WorkloadError
from webhook.review import ALLOWED, QUOTA_EXCEEDED, Verdict, later, refuse

_LONGEST_READ_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class WorkReview:
    """Validates what is about to be sent to a member."""

    accountant: Accountant
    client: Client
    store: Store
    is_present: Callable[[], bool]  # whether this replica knows every account that is active
    is_warning_only: bool = False  # the break-glass for the whole system
    has_leaves: Callable[[], bool] = lambda: False  # whether there are elastic quotas

    async def __call__(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        """Judge a CREATE, or an UPDATE of the manifests."""
        work = codec.decode_work(request.object)
        if work.binding is None or work.is_deleting:
            return ALLOWED
        if not self.is_present():
            return later("this replica has lost touch with the API server")
        accounts = self._minding(work.binding.namespace)
        if not accounts and not self.has_leaves():
            return ALLOWED
        old = codec.decode_work(request.old_object) if request.operation == "UPDATE" else None
        try:
            binding = await self._read(work.binding, deadline)
            if binding is not None and binding.stamp.leaf:
                accounts += self._minding(domain.of_leaf(binding.stamp.leaf))
                accounts += (one for one in self.accountant.charged(claim(binding)) if dispatch.minds_pods(one.lens))
            return await self._judge(work, old, binding or _nothing(work.binding), accounts)
        except WorkloadError as problem:
            return refuse(422, "Invalid", f"what Work {work.key} brings to {work.cluster} cannot be told: {problem}")
        except (error.KubeError, ConflictError, UnreachableError) as problem:
            return later(f"what {work.binding} was admitted with could not be read: {problem}")

    async def _judge(
        self, work: codec.Work, old: codec.Work | None, binding: Binding, accounts: list[Account]
    ) -> Verdict:
        warnings: dict[str, None] = {}
        for known in accounts:
            found = _beyond(work, old, binding, known)
            if not found:
                continue
            account = await self._stored(known)
            found = _beyond(work, old, binding, account) if account else []
            if account and found and not self._only_warns(account):
                return _refusal(work, binding, account, found)
            for one in found:
                warnings[f"{work.binding} in {work.cluster}: {one} (let through: the quota only warns)"] = None
        return Verdict(warnings=tuple(warnings))

    async def _stored(self, known: Account) -> Account | None:
        """Nobody is refused on what a cache says of the account. What a user or group may have stands elsewhere."""
        if not usage.is_usage(known):
            return await self.store.read(known.namespace, known.name)
        if not await self.store.limits_stand(known, known.limits):
            raise ConflictError(f"the {known.title} has just been changed")
        return known

    def _minding(self, place: str) -> list[Account]:
        """The accounts of a domain that a Work could bring too much for."""
        return [one for one in self.accountant.accounts(place) if dispatch.minds_pods(one.lens)]

    async def _read(self, key: ObjectKey, deadline: float) -> Binding | None:
        """The binding as it is stored now, if it is."""
        left = deadline - asyncio.get_running_loop().time()
        timeout_seconds = max(0.1, min(left, _LONGEST_READ_SECONDS))
        try:
            body = await self.client.get(RESOURCE_BINDINGS, key.name, key.namespace, timeout_seconds=timeout_seconds)
        except error.NotFoundError:
            return None
        return codec.decode_stored_binding(body)

    def _only_warns(self, account: Account) -> bool:
        if self.is_warning_only or leaf.is_leaf(account) or usage.is_usage(account):
            return self.is_warning_only
        return karmadaquota.quota(account).on_exceeded == karmadaquota.WARN


def _beyond(work: codec.Work, old: codec.Work | None, binding: Binding, account: Account) -> list[Overreach]:
    """What that account minds in the Work; nothing where the Work is getting better."""
    found = _overreach(work, binding, account)
    is_better = old is not None and found and dispatch.comes_closer(_overreach(old, binding, account), found)
    return [] if is_better else found


def _overreach(work: codec.Work, binding: Binding, account: Account) -> list[Overreach]:
    # Karmada puts one manifest into each Work of a binding.
    return [
        one for manifest in work.manifests for one in dispatch.overreach(manifest, binding, work.cluster, account.lens)
    ]


def _refusal(work: codec.Work, binding: Binding, account: Account, found: list[Overreach]) -> Verdict:
    told = "; ".join(str(one) for one in found)
    why = f"more than {account.title} admitted {binding.key} with"
    if not binding.uid:
        why = f"and {binding.key}, which {account.title} would admit it with, is gone"
    return Verdict(
        is_allowed=False,
        code=403,
        reason=QUOTA_EXCEEDED,
        message=f"cluster {work.cluster} would get {told}: {why}. Free or raise it, lower what the workload asks for, "
        "or change the OverridePolicy that raises it.",
        causes=tuple(
            {"reason": QUOTA_EXCEEDED, "field": "spec.workload.manifests", "message": str(one)} for one in found
        ),
    )


def _nothing(key: ObjectKey) -> Binding:
    """A binding that nothing was admitted with."""
    return Binding(key, uid="", version=0, template=TemplateRef("", "", key.namespace, ""))
