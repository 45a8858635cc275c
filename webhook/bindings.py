"""Reviews of ResourceBindings: is there quota for what it asks, and is what protects the quota untouched?"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from federation_quota import bookkeeping, karmadaquota
from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.answer import Allowed, Answer, Denied, Exists, Later
from federation_quota.binding import Binding
from federation_quota.bounds import LONGEST_NAME, LONGEST_QUALIFIED
from federation_quota.elastic import leaf
from federation_quota.kube import codec
from federation_quota.kube.mirrors import claim
from federation_quota.ledger import domain
from federation_quota.ledger.claim import NO_CLAIM
from federation_quota.ledger.judging import Ask
from federation_quota.resource_name import ADMISSION
from webhook.holding import can_be_held, held_text
from webhook.pending import PendingList
from webhook.review import ALLOWED, QUOTA_EXCEEDED, Verdict, exceeded, later, refuse
from webhook.validation import Change, Objection, Validation


@dataclass(frozen=True, slots=True)
class BindingReview:
    """Validates what is about to be stored."""

    accountant: Accountant
    is_system: Callable[[str], bool]  # by user name: one of the system's own identities
    is_warning_only: bool = False  # the break-glass for the whole system
    would_hold: Callable[[Binding, Binding | None, str], bool] = lambda _new, _old, _quota: False
    # That a write was refused, by which domain's account and with what words.
    note: Callable[[str, str, Binding, Binding | None, str], None] = lambda _place, _name, _new, _old, _message: None
    note_ask: Callable[[str, Binding], None] = lambda _leaf, _new: None
    validation: Validation | None = None  # None: there are no validators
    pending: PendingList | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def __call__(self, request: codec.AdmissionRequest, deadline: float) -> Verdict:
        """Judge a CREATE or UPDATE."""
        new = codec.decode_binding(request.object)
        old = codec.decode_binding(request.old_object) if request.operation == "UPDATE" else None
        asks = asks_of(new, old, identifier=secrets.token_hex(8), time=_text(self.now().replace(microsecond=0)))
        if new.is_deleting and not asks:
            return ALLOWED  # finalizers go; what it has is counted until it is gone, and it gets no more
        is_system = self.is_system(request.user_info.username)
        tampering = _tampering(new, old, is_system=is_system)
        if tampering:
            return refuse(403, "Forbidden", tampering)
        fault = new.fault or new.stamp.fault or _unwritable(asks)
        if fault and self._is_accounted(new):
            return refuse(422, "Invalid", f"what {new.key} costs cannot be accounted for: {fault}")
        if not asks:
            return ALLOWED
        answer = await self._answer(request, new, asks, deadline)
        if isinstance(answer, Objection):
            answer = self._noted(answer, new, old, dry_run=bool(request.dry_run))
        if isinstance(answer, Denied):
            denial = answer.denial
            if domain.is_leaf(denial.namespace):
                # What was refused because too much is asked for already is no reason to ask for more.
                if not request.dry_run and any(not one.name.startswith(ADMISSION) for one in denial.exceeded):
                    self.note_ask(denial.quota, new)
            elif domain.is_namespace(denial.namespace) and self.would_hold(new, old, denial.quota):
                # The room went while the request was on its way: when it comes again, it is held.
                return later(f"{denial.message}: it is held when it is asked for again")
            elif not request.dry_run and not is_system:
                self.note(denial.namespace, denial.quota, new, old, denial.message)
        return _verdict(new, answer)

    async def _answer(
        self, request: codec.AdmissionRequest, new: Binding, asks: Mapping[str, Ask], deadline: float
    ) -> Answer | Objection:
        def quotas() -> Awaitable[Answer]:
            dry_run = bool(request.dry_run)
            return self.accountant.answer(asks, deadline=deadline, dry_run=dry_run, may_exceed=self._may_exceed)

        ask = asks.get(new.key.namespace)
        if self.validation is None or ask is None:
            return await quotas()
        answer = await self.validation.judge(Change(request, new, ask), deadline, quotas)
        if self.pending is not None and isinstance(answer, Allowed | Denied) and not request.dry_run:
            self.pending.clear(new)
        return answer

    def _noted(self, objection: Objection, new: Binding, old: Binding | None, *, dry_run: bool) -> Later | Objection:
        """What a validator refused waits: as it would be stored where that can be held, else as a note on what is."""
        if self.pending is None or dry_run:
            return objection
        self.pending.note(new, objection)
        return (
            Later(f"{objection.message}: it is held when it is asked for again") if can_be_held(new, old) else objection
        )

    def _is_accounted(self, binding: Binding) -> bool:
        """Whether there is anybody to account for it. A validator that is told too little would allow too much."""
        if self.validation is not None and self.validation.is_on:
            return True
        places = [binding.key.namespace]
        if binding.stamp.leaf:
            places.append(domain.of_leaf(binding.stamp.leaf))
        return any(self.accountant.accounts(place) for place in places)

    def _may_exceed(self, namespace: str, name: str) -> bool:
        if self.is_warning_only:
            return True
        if not domain.is_namespace(namespace):
            return False
        accounts = {account.name: account for account in self.accountant.accounts(namespace)}
        return name in accounts and karmadaquota.quota(accounts[name]).on_exceeded == karmadaquota.WARN


@lru_cache(maxsize=2)  # many are judged within one second
def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def asks_of(new: Binding, old: Binding | None, *, identifier: str, time: str = "") -> dict[str, Ask]:
    """What a change asks for in each domain in which something could have to grow for it.

    Of the leaf that it is under: what was under another counts as nothing there.
    """
    asks = {}
    uid, base = (new.uid, None) if old is None else (None, old.version)
    ask = Ask(identifier, new.key.name, claim(new), claim(old) if old else NO_CLAIM, uid, base, time)
    if ask.increases:
        asks[new.key.namespace] = ask
    if new.stamp.leaf:
        place = domain.of_leaf(new.stamp.leaf)
        before = leaf.claim(old) if old is not None and old.stamp.leaf == new.stamp.leaf else NO_CLAIM
        ask = Ask(identifier, domain.name_in(place, new.key), leaf.claim(new), before, uid, base, time)
        if ask.increases:
            asks[place] = ask
    return asks


def _unwritable(asks: Mapping[str, Ask]) -> str:
    for place, ask in asks.items():
        longest = LONGEST_QUALIFIED if domain.is_leaf(place) else LONGEST_NAME
        if fault := bookkeeping.unwritable(ask.reservation, longest):
            return fault
    return ""


def _verdict(binding: Binding, answer: Answer | Objection) -> Verdict:
    match answer:
        case Objection():
            return refuse(403, QUOTA_EXCEEDED, answer.message)
        case Allowed(warnings):
            return Verdict(warnings=tuple(f"{one.message} (let through: the quota only warns)" for one in warnings))
        case Denied(denial):
            return exceeded(denial)
        case Exists():
            return refuse(409, "AlreadyExists", f'resourcebindings.work.karmada.io "{binding.key.name}" already exists')
        case Later(reason, retry_after_seconds):
            return later(reason, retry_after_seconds)


def _tampering(new: Binding, old: Binding | None, *, is_system: bool) -> str:
    """What somebody does to a held binding that only the system may; empty where nothing.

    Who marks and who releases is seen by the mutating review, which has the request as the client sent it, and may
    itself have held the binding or let it go on as it was (`holding`). Here it is seen to that nothing grows by it.
    """
    if old is None or is_system:
        return ""
    if old.is_held and not new.is_held and any(new.charge[name] > old.charge[name] for name in new.charge):
        return held_text(new.key)
    if old.is_held and {share.name for share in new.clusters} - {share.name for share in old.clusters}:
        return f"{new.key} is held until its quota has room: it is given no clusters meanwhile"
    return ""
