"""The verdict: what was stored and what clients were told, held against each other. Pure, over values.

- **Over-admission**: a version that raised what a binding costs, and left an active quota of its namespace above its
  limit in what was raised. A limit that was lowered, or a store that was put back when it was over, is none.
- **Leak**: a quota that, with nothing under way, does not call used what is stored, or keeps reservations or advances.
- **False denial**: a client was told QuotaExceeded, and at no version while it waited would its ask have been too much
  beside what was stored.
- **Failure in health**: a request that was answered with an error, or not at all, while no fault was in force and the
  last one had been recovered from. A 429 is not one: clients try it again; they are counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from faults import charge
from faults.charge import Amounts
from faults.history import Epoch, Event, History, Key, State, limited

# A denial may stand on what was stored until the answer was read, and the recorder hears of that a little later.
HEARING_SECONDS = 3.0

EXCEEDED = "QuotaExceeded"
NO_ANSWER = 0
# What a healthy API server says to clients that race with each other.
ORDINARY = frozenset({200, 201, 202, 404, 409})


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a client, as the client saw it."""

    key: Key
    verb: str
    sent: float
    answered: float
    seen: int  # the version that the recorder had heard of when it was sent
    code: int  # 0: no answer
    reason: str = ""
    message: str = ""
    ask: Amounts | None = None  # what the binding was to cost; None where a denial cannot be judged

    @property
    def is_denied(self) -> bool:
        """Whether quota was the reason."""
        return self.code == 403 and self.reason == EXCEEDED

    @property
    def is_decided(self) -> bool:
        """Whether somebody decided: admitted, denied, or nothing to decide about."""
        return self.code in ORDINARY or self.is_denied


@dataclass(frozen=True, slots=True)
class Window:
    """A fault, from its begin until it was recovered from."""

    name: str
    began: float
    ended: float  # when the fault was over, by whoever made it
    recovered: float | None  # None: never within the time
    problem: str = ""

    def touches(self, request: Request) -> bool:
        """Whether the request was under way in it."""
        return request.answered >= self.began and (self.recovered is None or request.sent <= self.recovered)


@dataclass(slots=True)
class Verdict:
    """All that was found; every list is to be empty."""

    over_admissions: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    false_denials: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unrecovered: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    versions: int = 0
    requests: int = 0
    denials: int = 0
    busy: int = 0  # 429s

    @property
    def problems(self) -> list[str]:
        """Everything that makes it fail."""
        return [
            *self.over_admissions,
            *self.leaks,
            *self.false_denials,
            *self.failures,
            *self.unrecovered,
            *self.gaps,
        ]


def judge(history: History, requests: Sequence[Request], windows: Sequence[Window]) -> Verdict:
    """Everything but leaks, which are looked for when nothing is under way."""
    return Verdict(
        over_admissions=[
            f"{found} ({_during(windows, event.at)})"
            for epoch in history.epochs
            for event, found in over_admissions(epoch)
        ],
        false_denials=[
            f"{describe(one, 'false denial')} ({_during(windows, one.sent)})"
            for one in false_denials(history, requests)
        ],
        failures=[describe(one) for one in requests if is_failure(one) and not any(w.touches(one) for w in windows)],
        unrecovered=[f"{one.name}: {one.problem}" for one in windows if one.problem],
        gaps=[f"history is incomplete: {one.reason}" for one in history.epochs if not one.is_complete],
        versions=sum(len(epoch.events) for epoch in history.epochs),
        requests=len(requests),
        denials=sum(one.is_denied for one in requests),
        busy=sum(one.code == 429 for one in requests),
    )


def over_admissions(epoch: Epoch) -> list[tuple[Event, str]]:
    """Every version that should not have been stored."""
    found = []
    for before, event, after in epoch.replay():
        if event.is_quota or event.binding is None:
            continue
        old = before.bindings.get(event.key)
        was = old.charge if old else charge.NOTHING
        raised = [name for name, amount in event.binding.charge.items() if amount > was.get(name, Fraction(0))]
        for key, over in _over(after, event.key.namespace, raised):
            which = f"version {event.version} of {event.key.namespace}/{event.key.name}"
            found.append((event, f"over-admission: {which} left quota {key.name} at {over}"))
    return found


def _over(state: State, namespace: str, names: Iterable[str]) -> list[tuple[Key, str]]:
    quotas = [(key, one) for key, one in state.quotas.items() if key.namespace == namespace and one.is_active]
    if not quotas:
        return []
    charged = state.charged(namespace)
    found = []
    for key, quota in quotas:
        over = [name for name in names if name in quota.hard and charged[name] > quota.hard[name]]
        if over:
            found.append(
                (key, ", ".join(f"{name} {float(charged[name]):g}/{float(quota.hard[name]):g}" for name in over))
            )
    return found


def leaks(state: State) -> list[str]:
    """Where nothing is under way: quotas that do not say what is stored."""
    found = untruths(state)
    for key, quota in sorted(state.quotas.items()):
        if quota.reservations:
            bindings = ", ".join(sorted({binding for binding, _ in quota.reservations}))
            found.append(f"leak: quota {key.namespace}/{key.name} still has reservations for {bindings}")
        if quota.advanced:
            found.append(f"leak: quota {key.namespace}/{key.name} still advances {charge.shown(quota.advanced)}")
    return found


def untruths(state: State) -> list[str]:
    """Quotas that do not say what is stored and reserved; also while something is under way."""
    found = []
    for key, quota in sorted(state.quotas.items()):
        right = limited(state.accounted(key), quota.hard)
        if not quota.is_active:
            found.append(f"quota {key.namespace}/{key.name} is not active")
        elif quota.used != right:
            said = charge.shown(quota.used)
            found.append(f"leak: quota {key.namespace}/{key.name} says {said}, and it is {charge.shown(right)}")
    return found


def false_denials(history: History, requests: Iterable[Request]) -> list[Request]:
    """Denials that nothing stored was a reason for."""
    denied = [one for one in requests if one.is_denied and one.ask is not None]
    found: list[Request] = []
    for index, epoch in enumerate(history.epochs):
        ended = history.epochs[index + 1].began if index + 1 < len(history.epochs) else float("inf")
        # Who was under way when the store was put back was judged on either.
        inside = [one for one in denied if one.sent >= epoch.began and one.answered + HEARING_SECONDS < ended]
        found += _unreasonable(epoch, inside)
    return found


def _unreasonable(epoch: Epoch, denied: list[Request]) -> list[Request]:
    """Those whose ask would have fitted at every version in their time; one pass over the epoch."""
    waiting = sorted(denied, key=lambda one: one.seen)
    open_: list[Request] = []
    unreasonable = []

    def look(state: State, namespace: str | None) -> None:
        """Drop those whose denial the state explains."""
        open_[:] = [one for one in open_ if (namespace and one.key.namespace != namespace) or not _explains(state, one)]

    state = epoch.first
    for before, event, after in epoch.replay():
        # What was asked when this version was not yet known may have been judged on the one before it.
        while waiting and waiting[0].seen < event.version:
            one = waiting.pop(0)
            if not _explains(before, one):
                open_.append(one)
        over = [one for one in open_ if event.at > one.answered + HEARING_SECONDS]
        if over:
            unreasonable += over
            open_ = [one for one in open_ if one not in over]
        if open_:
            look(after, event.key.namespace)
        state = after
    return unreasonable + [one for one in (*open_, *waiting) if not _explains(state, one)]


def _explains(state: State, request: Request) -> bool:
    """Whether the ask would have been too much beside what is stored."""
    own = state.bindings.get(request.key)
    stored = own.charge if own else charge.NOTHING
    rest = state.charged(request.key.namespace)
    after = charge.larger(stored, request.ask or charge.NOTHING)
    zero = Fraction(0)
    return any(
        rest.get(name, zero) - stored.get(name, zero) + after.get(name, zero) > limit
        for key, quota in state.quotas.items()
        if key.namespace == request.key.namespace
        for name, limit in quota.hard.items()
    )


def _during(windows: Sequence[Window], at: float) -> str:
    """What was going on at that time."""
    names = [one.name for one in windows if one.began <= at and (one.recovered is None or at <= one.recovered)]
    return f"during: {', '.join(names)}" if names else "in health"


def is_failure(request: Request) -> bool:
    """Whether a client of a healthy federation should never see it."""
    return not request.is_decided and request.code != 429


def describe(request: Request, what: str = "failure in health") -> str:
    """For the report."""
    code = request.code or "no answer"
    took = request.answered - request.sent
    where = f"{request.verb} {request.key.namespace}/{request.key.name}"
    ask = f", asking for {charge.shown(request.ask)}" if request.ask is not None else ""
    return (
        f"{what}: {where}{ask} at {request.sent:.1f} s: {code} {request.reason} {request.message[:160]} ({took:.1f} s)"
    )
