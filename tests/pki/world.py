"""A small world for the rotation to live in: a store, API servers that lag, leaders that sleep and die, replicas.

Time is simulated; the certificates, the Secret's encoding, the patches and the state machine are the real ones. Every
actor is a generator that yields how many seconds it is busy or away; it can be abandoned at each of those points.
"""

import base64
import heapq
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

from cryptography import x509
from cryptography.x509 import verification

from federation_quota.pki import publishing, secret
from federation_quota.pki.authority import CertificateError, KeyPair, create_authority
from federation_quota.pki.publishing import ConfigurationPatch, Hook
from federation_quota.pki.rotation import Policy, Publish, Rest, RotationState, Store, next_step
from federation_quota.pki.source import InternalSource, SignerView
from tests.pki.json_patch import apply_json_patch

START = datetime(2030, 1, 1, tzinfo=UTC)
NAME = "webhook.example"
SECOND, MINUTE, HOUR, DAY = 1.0, 60.0, 3600.0, 86400.0

Actor = Generator[float, None, None]
Trusted = frozenset[x509.Certificate]


class RefusedError(AssertionError):
    """An API server would have refused to call a webhook."""


class ExpiredError(AssertionError):
    """A replica let its leaf expire although it could have signed a new one."""


@dataclass
class Faults:
    """What the world may do to the actors."""

    leaders: int = 2  # that all believe in their leadership, all the time
    stalls: float = 0.1  # of the pauses between two steps of a leader
    stall_seconds: float = 6 * HOUR  # the longest of them
    watch_lag_seconds: float = 2 * MINUTE  # until an API server acts on what is stored
    cut_off_seconds: float = 10 * DAY  # a replica's longest time without the Secret
    skew_seconds: float = 3 * MINUTE
    losses: float = 0.15  # of writes that are lost, or whose answer is
    crashes: float = 0.02
    secret_deletions_per_year: float = 1.0


class Replica:
    """A webhook process: signs for itself from what it last saw in the Secret."""

    def __init__(self, skew: timedelta) -> None:
        self.skew = skew
        self.pair: KeyPair | None = None
        self.view: SignerView | None = None
        self.source: InternalSource | None = None  # None until the process has started
        self.seen_at = START  # somebody who signs, by true time
        self.cut_off_until = START


class World:
    """Everything at one instant."""

    def __init__(self, seed: int, policy: Policy, faults: Faults, replica_policy: Policy | None = None) -> None:
        self.random = random.Random(seed)
        self.policy, self.replica_policy, self.faults = policy, replica_policy or policy, faults
        self.now = START
        self.version = 1
        self.secret: tuple[int, dict[str, str]] | None = None
        self.configurations = [
            _configuration("ValidatingWebhookConfiguration", "quota", ["bindings.example", "works.example"]),
            _configuration("MutatingWebhookConfiguration", "stamp", ["stamp.example"]),
        ]
        self.expected = list(publishing.trust_of(self.configurations))
        self.in_use: list[dict[Hook, Trusted]] = [dict.fromkeys(self.expected, frozenset()) for _ in range(2)]
        self.replicas = [Replica(self._skew()) for _ in range(3)]
        self.promotions: set[x509.Certificate] = set()
        self.published: set[str] = set()
        self.leaves = 0
        self.signerless_since: datetime | None = START
        self.longest_without_signer = timedelta()
        self._events: list[tuple[datetime, int, Actor, Callable[[], Actor] | None]] = []
        self._sequence = 0
        self._latest: dict[tuple[int, str], int] = {}
        self._states: dict[int, RotationState] = {}  # the version that was decoded last

    def run(self, days: float) -> "World":
        """Let it all happen, checking after everything that happens."""
        for _ in range(self.faults.leaders):
            self._start(partial(self._leader, self._skew()))
        for replica in self.replicas:
            self._start(partial(self._replica, replica))
        self._start(self._administrator)
        end = START + timedelta(days=days)
        while self._events and self._events[0][0] <= end:
            self.now, _, actor, again = heapq.heappop(self._events)
            if again is not None and self.random.random() < self.faults.crashes:
                actor.close()
                self._start(again)
                continue
            try:
                delay = next(actor)
            except StopIteration:
                continue
            self._push(actor, delay, again)
        return self

    def check(self) -> None:
        """Every leaf that is served and has not expired verifies with every bundle that an API server uses."""
        for replica in self.replicas:
            if replica.pair is None or replica.pair.leaf.not_valid_after_utc <= self.now:
                continue
            for number, hooks in enumerate(self.in_use):
                for hook, trusted in hooks.items():
                    # Empty is the time before the first publication: nothing was promised yet.
                    if trusted and not verifies(replica.pair.leaf, trusted, self.now):
                        raise RefusedError(f"{self.now}: API server {number} refuses a leaf at {hook.name}")

    def _start(self, actor: Callable[[], Actor]) -> None:
        self._push(actor(), self.random.uniform(0, MINUTE), actor)

    def _push(self, actor: Actor, seconds: float, again: Callable[[], Actor] | None = None) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now + timedelta(seconds=seconds), self._sequence, actor, again))

    def _decoded(self, version: int, data: dict[str, str]) -> RotationState:
        """The state in one version of the Secret; decoded once, since leaders and replicas read it all the time."""
        if version not in self._states:
            self._states = {version: secret.decode(data)}
        return self._states[version]

    def _skew(self) -> timedelta:
        return timedelta(seconds=self.random.uniform(-self.faults.skew_seconds, self.faults.skew_seconds))

    def _pause(self) -> float:
        """Mostly short, now and then long enough for anything to happen meanwhile."""
        longest = self.faults.stall_seconds if self.random.random() < self.faults.stalls else 5 * SECOND
        return self.random.uniform(0, longest)

    def _leader(self, skew: timedelta) -> Actor:
        mint = partial(create_authority, lifetime=self.policy.authority_lifetime)
        while True:
            # Caches in no particular order: what is looked at first may be old when the second is read.
            is_secret_first = self.random.random() < 0.5
            stored = self.secret
            looked = list(self.configurations)
            yield self._pause()
            if is_secret_first:
                looked = list(self.configurations)
            else:
                stored = self.secret
            yield self._pause()
            state = self._decoded(*stored) if stored else None
            published = list(publishing.trust_of(looked, self.expected).values())
            step = next_step(state, published, self.now + skew, mint, self.policy)
            yield self._pause()
            if isinstance(step, Rest):
                wait = (step.until - self.now - skew).total_seconds()
                yield min(max(wait, SECOND), self.random.uniform(HOUR, DAY))
            elif self.random.random() < self.faults.losses:
                yield self._pause()
            elif isinstance(step, Store):
                self._store(step.state, stored[0] if stored else None)
            elif isinstance(step, Publish):
                for patch in publishing.patches(looked, step.bundle):
                    self._patch(patch)
                    yield self._pause()

    def _store(self, state: RotationState, version: int | None) -> None:
        current = self.secret[0] if self.secret else None
        if current != version:
            return
        self.version += 1
        self.secret = (self.version, secret.encode(state))
        if state.signing:
            self.promotions.add(state.signing.certificate)
            if self.signerless_since:
                self.longest_without_signer = max(self.longest_without_signer, self.now - self.signerless_since)
                self.signerless_since = None
        for replica in self.replicas:
            self._push(self._look_at_secret(replica), self.random.uniform(SECOND, 10 * SECOND))

    def _patch(self, patch: ConfigurationPatch) -> None:
        index = next(i for i, found in enumerate(self.configurations) if found["metadata"]["name"] == patch.name)
        changed = apply_json_patch(self.configurations[index], patch.operations)
        if changed is None:
            return
        self.version += 1
        changed["metadata"]["resourceVersion"] = str(self.version)
        self.configurations[index] = changed
        self.published |= {webhook["clientConfig"].get("caBundle", "") for webhook in changed["webhooks"]}
        for number in range(len(self.in_use)):
            lag = self.faults.watch_lag_seconds if self.random.random() < 0.3 else SECOND
            self._push(self._watch(number, changed), self.random.uniform(0, lag))

    def _watch(self, number: int, configuration: dict[str, Any]) -> Actor:
        """An API server's own watch arrives; in order, as watches do."""
        version = int(configuration["metadata"]["resourceVersion"])
        watched = (number, configuration["metadata"]["name"])
        if version > self._latest.get(watched, 0):
            self._latest[watched] = version
            self.in_use[number].update(publishing.trust_of([configuration]))
            self.check()
        yield from ()

    def _replica(self, replica: Replica) -> Actor:
        """A fresh process, without leaf or view, that polls; more seldom than in truth, which is worse for it."""
        replica.pair = replica.view = None
        replica.source = InternalSource([NAME], lambda: replica.view, self.replica_policy)
        replica.seen_at = self.now
        while True:
            yield from self._look_at_secret(replica)
            if self.random.random() < 0.005:
                longest = self.faults.cut_off_seconds
                replica.cut_off_until = self.now + timedelta(seconds=self.random.uniform(0, longest))
            yield self.random.uniform(MINUTE, 4 * HOUR)

    def _look_at_secret(self, replica: Replica) -> Actor:
        """What a poll does, and what the watch of the Secret does within seconds of each change."""
        if replica.source is None:
            return
        self._check_age(replica)
        if self.secret and self.now >= replica.cut_off_until:
            replica.view = SignerView(self._decoded(*self.secret).signing, self.now + replica.skew)
            replica.seen_at = self.now if replica.view.signing else replica.seen_at
        try:
            pair = replica.source.current(self.now + replica.skew)
        except CertificateError:
            return
        if pair is not replica.pair:
            replica.pair = pair
            self.leaves += 1
            self.check()
        yield from ()

    def _check_age(self, replica: Replica) -> None:
        has_expired = replica.pair is not None and replica.pair.leaf.not_valid_after_utc <= self.now
        if has_expired and self.now - replica.seen_at < self.replica_policy.leaf_lifetime * 0.2:
            raise ExpiredError(f"{self.now}")

    def _administrator(self) -> Actor:
        """Somebody deletes the Secret, a few times a year."""
        rate = self.faults.secret_deletions_per_year
        while rate:
            yield self.random.expovariate(rate) * 365 * DAY
            self.secret = None
            self.signerless_since = self.signerless_since or self.now


def _configuration(kind: str, name: str, hooks: list[str]) -> dict[str, Any]:
    webhooks = [{"name": hook, "clientConfig": {"url": "https://webhook.example/"}} for hook in hooks]
    return {"kind": kind, "metadata": {"name": name, "resourceVersion": "1"}, "webhooks": webhooks}


def verifies(leaf: x509.Certificate, trusted: Trusted, now: datetime) -> bool:
    """What a strict TLS client would say at that time."""
    begins, ends = chain_lifetime(leaf, trusted)
    return begins <= now <= ends


@cache
def chain_lifetime(leaf: x509.Certificate, trusted: Trusted) -> tuple[datetime, datetime]:
    """When the chain verifies; found once for each pair, since the same two meet again and again."""
    never = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    for anchor in trusted:
        begins = max(leaf.not_valid_before_utc, anchor.not_valid_before_utc)
        ends = min(leaf.not_valid_after_utc, anchor.not_valid_after_utc)
        builder = verification.PolicyBuilder().store(verification.Store([anchor])).time(begins)
        try:
            builder.build_server_verifier(x509.DNSName(NAME)).verify(leaf, [])
        except verification.VerificationError:
            continue
        return begins, ends
    return never


def bundles_of(world: World) -> Iterator[str]:
    """Whatever was ever published, decoded."""
    for bundle in world.published:
        yield base64.b64decode(bundle).decode()
