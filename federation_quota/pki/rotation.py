"""Rotation of our own authority, with overlap: a pure state machine that says what to do next.

A new authority first stands beside the old one in what every hook trusts; once it has been seen there for a while it
signs; the old one is trusted until nothing that it signed can still be served. `next_step` looks at the state (what
the Secret holds) and at what the hooks trust now, and names one step. Whoever carries it out keeps two rules, and then
crashes, lost writes, lagging caches and several leaders at once do no harm:

1. write the Secret only under the resourceVersion that was read (or as a creation where there was none);
2. publish only under the resourceVersions of the configurations that were looked at (`publishing.patches` does).

For a leader that slept cannot take back what another has published since: either the configuration has changed under
it, or it sees in it a certificate that the Secret it read does not have. Such a certificate is adopted first, which
needs a write of the Secret, and that fails.

No clock, no I/O, no randomness of its own: `now` and `mint` are given. Leaves are signed elsewhere (`source`).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from federation_quota.pki.authority import (
    AUTHORITY_LIFETIME,
    LEAF_LIFETIME,
    Authority,
    is_valid,
    renewal_time,
    to_pem,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things last."""

    authority_lifetime: timedelta = AUTHORITY_LIFETIME
    leaf_lifetime: timedelta = LEAF_LIFETIME
    # An API server acts on a stored configuration only when its own watch has brought it.
    settle: timedelta = timedelta(minutes=10)
    # A replica does not sign with what it last read from the Secret longer ago than this.
    view_limit: timedelta = timedelta(hours=12)

    @property
    def retention(self) -> timedelta:
        """How long after its last day of signing an authority may still be needed; once more the limit for clocks."""
        return self.leaf_lifetime + 2 * self.view_limit


@dataclass(frozen=True, slots=True)
class Retired:
    """An authority that signs no more: its certificate alone, trusted until then."""

    certificate: x509.Certificate
    until: datetime


@dataclass(frozen=True, slots=True)
class RotationState:
    """What the Secret holds."""

    signing: Authority | None = None  # None until the first one has been published
    next: Authority | None = None
    next_published_at: datetime | None = None  # since when every hook is known to trust `next`
    retired: tuple[Retired, ...] = ()

    def trusted(self, now: datetime) -> tuple[x509.Certificate, ...]:
        """Every certificate that hooks should trust now, in the order in which they are published."""
        active = [authority.certificate for authority in (self.signing, self.next) if authority is not None]
        return (*active, *(retired.certificate for retired in self.retired if now < retired.until))

    def bundle(self, now: datetime) -> bytes:
        """The same as the text of a caBundle."""
        return to_pem(self.trusted(now))


@dataclass(frozen=True, slots=True)
class Store:
    """Write this state to the Secret."""

    state: RotationState


@dataclass(frozen=True, slots=True)
class Publish:
    """Have every hook trust exactly this."""

    bundle: bytes


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do before then, unless something changes."""

    until: datetime


Step = Store | Publish | Rest

# What hooks trust and the state does not know is kept only up to this many: a Secret has a largest size.
MAX_RETIRED: Final = 16
Mint = Callable[[datetime], Authority]


def next_step(
    state: RotationState | None,  # None where there is no Secret
    published: Collection[frozenset[x509.Certificate]],  # what each of our hooks trusts; empty for one that is missing
    now: datetime,
    mint: Mint,
    policy: Policy,
) -> Step:
    """The one thing to do now; look, read and ask again after it, whether or not it worked."""
    renewed = _renewed(_adopting(state or RotationState(), published, now, policy), now, mint, policy)
    if renewed != state:
        return Store(renewed)
    if not published:
        return Rest(now + policy.settle)
    return _overlapping(renewed, published, now, policy)


def _overlapping(
    state: RotationState, published: Collection[frozenset[x509.Certificate]], now: datetime, policy: Policy
) -> Step:
    """The state has all that is needed: bring what hooks trust in line with it, and go on from there."""
    is_next_trusted = state.next is not None and all(state.next.certificate in trusted for trusted in published)
    if state.next_published_at is not None and not is_next_trusted:
        return Store(replace(state, next_published_at=None))
    wanted = frozenset(state.trusted(now))
    if any(trusted != wanted for trusted in published):
        return Publish(state.bundle(now))
    needed = tuple(retired for retired in state.retired if now < retired.until)
    if needed != state.retired:  # forgotten only once no hook trusts them: before that, they would be adopted again
        return Store(replace(state, retired=needed))
    if state.next is not None:
        return _promoting(state, state.next, now, policy)
    return Rest(_next_event(state, policy))


def _adopting(
    state: RotationState, published: Collection[frozenset[x509.Certificate]], now: datetime, policy: Policy
) -> RotationState:
    """The state with what hooks trust and it does not know.

    That is there after the Secret was lost or restored from a backup, and after certificates came from elsewhere:
    leaves of theirs are still being served.
    """
    known = {*_in_use(state), *([state.next.certificate] if state.next else [])}
    found = {
        certificate
        for trusted in published
        for certificate in trusted
        if certificate not in known and now < certificate.not_valid_after_utc
    }
    ordered = sorted(found, key=lambda certificate: (certificate.not_valid_after_utc, certificate.serial_number))
    room = max(0, MAX_RETIRED - len(state.retired))
    adopted = tuple(_retire(certificate, now, policy) for certificate in ordered[:room])
    return replace(state, retired=(*state.retired, *adopted))


def _renewed(state: RotationState, now: datetime, mint: Mint, policy: Policy) -> RotationState:
    """The state with a new `next` where one is due."""
    if state.next is not None and _is_due(state.next, now, policy):
        # It waited so long that it is old itself. It has signed nothing, but hooks may trust it.
        state = replace(state, next=None, next_published_at=None)
    if state.next is None and (state.signing is None or _is_due(state.signing, now, policy)):
        state = replace(state, next=mint(now), next_published_at=None)
    return state


def _promoting(state: RotationState, promoted: Authority, now: datetime, policy: Policy) -> Step:
    """Every hook trusts `next`: let it settle, unless there is nothing that a hasty change could break.

    Nor where the one that signs has ended: replicas that start have nothing to serve until another does. Those that
    serve what a retired one signed are not hurried: they show a new pair when it has been trusted for a while.
    """
    has_ended = state.signing is not None and now >= state.signing.certificate.not_valid_after_utc
    if not has_ended and any(now < certificate.not_valid_after_utc for certificate in _in_use(state)):
        since = state.next_published_at
        if since is None or since > now:  # the latter where a clock was wrong
            return Store(replace(state, next_published_at=now))
        if now < since + policy.settle:
            return Rest(since + policy.settle)
    outgoing = [_retire(state.signing.certificate, now, policy)] if state.signing else []
    return Store(RotationState(signing=promoted, retired=(*state.retired, *outgoing)))


def _is_due(authority: Authority, now: datetime, policy: Policy) -> bool:
    certificate = authority.certificate
    return not is_valid(certificate, now) or now >= renewal_time(certificate, policy.authority_lifetime)


def _in_use(state: RotationState) -> list[x509.Certificate]:
    """What leaves that are served now may have been signed by."""
    signing = [state.signing.certificate] if state.signing else []
    return [*signing, *(retired.certificate for retired in state.retired)]


def _retire(certificate: x509.Certificate, now: datetime, policy: Policy) -> Retired:
    return Retired(certificate, min(now + policy.retention, certificate.not_valid_after_utc))


def _next_event(state: RotationState, policy: Policy) -> datetime:
    events = [retired.until for retired in state.retired]
    if state.signing is not None:
        events.append(renewal_time(state.signing.certificate, policy.authority_lifetime))
    return min(events)
