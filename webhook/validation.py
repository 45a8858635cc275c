"""Asking validators about increases, beside quotas.

In the tenant's turn, validators first and quotas after them: what a validator refuses leaves no reservation behind. The
turn lasts until the quotas have answered as well, and only what they admitted counts as used: what a validator allowed
and a quota refused was never counted, so the next request is judged on what is true.

No answer is an answer that lets anything through: where a validator fails or hangs, where the turn does not come in
time, or where this replica is no longer sure to be the one that judges, the client is told to come again.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog

from federation_quota import stamp
from federation_quota.accounting.answer import Allowed, Answer, Later
from federation_quota.binding import Binding
from federation_quota.kube import codec, error
from federation_quota.ledger.judging import Ask
from federation_quota.ledger.view import View
from federation_quota.tenants import tenant as tenants
from federation_quota.validators import Decision, Request, Tenant, Validator
from webhook.calls import Calls, UnheardError
from webhook.tenancy import Tenancy
from webhook.turn import BusyError, Turn

log = structlog.get_logger()

# Of a review's time: for the quotas that are asked after the validators.
QUOTA_SECONDS = 0.5

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Objection:
    """A validator's refusal."""

    validator: str
    decision: Decision

    @property
    def message(self) -> str:
        """For people."""
        return f"validator {self.validator}: {self.decision.message}"


@dataclass(frozen=True, slots=True)
class Change:
    """An increase that is about to be admitted."""

    review: codec.AdmissionRequest
    new: Binding
    ask: Ask
    """Of the quotas of its namespace."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The validators that are on."""

    validators: Sequence[Validator]
    calls: Calls
    tenancy: Tenancy
    view: View
    labels: Callable[[str], Labels | None]  # of a namespace; None where it is not known yet
    look: Callable[[str], Awaitable[Labels]]  # the same, read past all caches
    namespaces: Callable[[str], Collection[str]]  # of a tenant
    is_warning_only: bool = False  # the break-glass for the whole system: then nobody is asked

    async def judge(
        self, change: Change, deadline: float, quotas: Callable[[], Awaitable[Answer]]
    ) -> Answer | Objection:
        """The validators' answer, or else the quotas'."""
        asked = self._asked()
        if not asked:
            return await quotas()
        try:
            tenant = await self.tenant(change.new.key.namespace)
            async with self.tenancy.turn(tenant, deadline - QUOTA_SECONDS) as turn:
                return await self._in_turn(asked, change, tenant, turn, deadline, quotas)
        except error.KubeError as problem:
            return Later(f"whose namespace {change.new.key.namespace} is could not be read: {problem}")
        except (BusyError, UnheardError) as problem:
            return Later(str(problem))

    @property
    def is_on(self) -> bool:
        """Whether anybody is to be asked."""
        return bool(self._asked())

    def _asked(self) -> list[Validator]:
        return [] if self.is_warning_only else [one for one in self.validators if is_enabled(one)]

    async def tenant(self, namespace: str) -> str:
        """Whose a namespace is."""
        known = self.labels(namespace)
        return tenants.of(namespace, known if known is not None else await self.look(namespace))

    async def _in_turn(
        self,
        asked: Sequence[Validator],
        change: Change,
        tenant: str,
        turn: Turn,
        deadline: float,
        quotas: Callable[[], Awaitable[Answer]],
    ) -> Answer | Objection:
        namespace = change.new.key.namespace
        places = tuple(sorted({*self.namespaces(tenant), namespace}))
        if fault := _fault(self.view, places, change.new):
            return Later(fault)
        request = _request(change, turn)
        standing = Tenant(tenant, places, turn.used(places))
        for one in asked:
            decision = await self.calls.ask(
                one, request, standing, deadline=deadline - QUOTA_SECONDS, abandon=turn.abandon
            )
            if not decision.allowed:
                return Objection(one.name, decision)
        if not turn.is_valid():
            return Later(f"tenant {tenant} is judged by another replica by now")
        answer = await quotas()
        if isinstance(answer, Allowed) and not change.review.dry_run:
            if not turn.is_valid():
                return Later(f"tenant {tenant} is judged by another replica by now")
            turn.grant(namespace, change.ask.reservation)
        return answer


def is_enabled(validator: Validator) -> bool:
    """Whether it wants to be asked. Who does not clearly say no is asked: no rule is left out because it is broken."""
    try:
        return validator.enabled is not False
    except Exception as problem:
        log.error("validator.unclear", validator=validator.name, problem=repr(problem), exc_info=problem)
        return True


def _fault(view: View, namespaces: Sequence[str], own: Binding) -> str:
    """Why it is not known what the tenant uses: a stored binding whose cost nobody knows. Its own repair is judged."""
    for namespace in namespaces:
        for binding, reason in view.faults(namespace).items():
            if (namespace, binding) != own.key:
                return f"what binding {namespace}/{binding} costs cannot be told ({reason}): mend or delete it"
    return ""


def _request(change: Change, turn: Turn) -> Request:
    new, review = change.new, change.review
    counted = turn.accounted(*new.key)
    charge = change.ask.new.charge
    return Request(
        namespace=new.key.namespace,
        name=new.key.name,
        api_version=new.template.api_version,
        kind=new.template.kind,
        workload=new.template.name,
        owner=new.stamp.owner if new.stamp is not stamp.NO_STAMP else None,
        priority_class=new.stamp.priority_class,
        charge=charge,
        increase=counted.maximum(charge) - counted,
        is_new=review.operation == "CREATE",
        is_dry_run=bool(review.dry_run),
        binding=codec.decode_object(review.object),
    )
