"""A year of rotation under crashes, stalls, lost writes, lagging watches and a Secret that is deleted now and then.

At every instant every leaf that is served verifies with every bundle that an API server uses, and none expires. Each
precaution can also be taken out: the simulation must notice, or it proves nothing.
"""

import random
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cryptography import x509

from federation_quota.pki import rotation
from federation_quota.pki.rotation import Policy, RotationState, Step
from tests.pki import world as worlds
from tests.pki.world import ExpiredError, Faults, RefusedError, World, bundles_of
from tests.simulation.simulation import Outcome

# A year of these holds some fifteen rotations.
SHORT = Policy(
    authority_lifetime=timedelta(days=40),
    leaf_lifetime=timedelta(days=4),
    settle=timedelta(minutes=10),
    view_limit=timedelta(hours=4),
)
LEADER_POLICY = SHORT
REPLICA_POLICY = SHORT


def run(seed: int) -> Outcome:
    """One seed: a year with short lifetimes."""
    try:
        world = lived(seed, LEADER_POLICY, Faults(secret_deletions_per_year=2), REPLICA_POLICY, days=365)
    except (RefusedError, ExpiredError) as problem:
        return Outcome(f"{type(problem).__name__}: {problem}")
    counts = {"promotion": len(world.promotions), "leaf": world.leaves}
    if len(world.promotions) < 12 or world.leaves < 300:
        return Outcome(f"it hardly rotated: {counts}", counts)
    if world.longest_without_signer >= SHORT.leaf_lifetime / 3:
        return Outcome(f"nobody could sign for {world.longest_without_signer}", counts)
    if any("PRIVATE KEY" in bundle for bundle in bundles_of(world)):
        return Outcome("a private key was published", counts)
    return Outcome("", counts)


def lived(seed: int, policy: Policy, faults: Faults, replica_policy: Policy | None = None, *, days: float) -> World:
    """A world after so many days, the same for a seed every time.

    Serial numbers, which the jitter comes from, are the only chance in certificates.
    """
    chance = random.Random(seed)
    worlds.chain_lifetime.cache_clear()  # no two seeds have a certificate in common
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(x509, "random_serial_number", lambda: chance.getrandbits(150) + 1)
        return World(seed, policy, faults, replica_policy).run(days)


class Forgetful(Policy):
    """Authorities are dropped while their leaves are still served."""

    @property
    def retention(self) -> timedelta:
        """Much shorter than a leaf's life."""
        return self.leaf_lifetime / 4


def _everywhere(patch: pytest.MonkeyPatch, policy: Policy) -> None:
    patch.setattr(f"{__name__}.LEADER_POLICY", policy)
    patch.setattr(f"{__name__}.REPLICA_POLICY", policy)


def no_settling(patch: pytest.MonkeyPatch) -> None:
    """An authority signs as soon as it is published, whatever API servers have seen."""
    _everywhere(patch, replace(SHORT, settle=timedelta()))


def old_authorities_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    """See `Forgetful`."""
    _everywhere(patch, Forgetful(SHORT.authority_lifetime, SHORT.leaf_lifetime, SHORT.settle, SHORT.view_limit))


def replicas_sign_with_what_they_saw_long_ago(patch: pytest.MonkeyPatch) -> None:
    """A replica that is cut off from the Secret goes on signing."""
    patch.setattr(f"{__name__}.REPLICA_POLICY", replace(SHORT, view_limit=timedelta(days=999)))


def the_new_authority_signs_before_it_is_trusted(patch: pytest.MonkeyPatch) -> None:
    """The next authority is promoted as soon as there is one."""
    careful = rotation._overlapping

    def hasty(
        state: RotationState, published: Collection[frozenset[x509.Certificate]], now: datetime, policy: Policy
    ) -> Step:
        if state.next is None:
            return careful(state, published, now, policy)
        return rotation._promoting(
            replace(state, next_published_at=now), state.next, now, replace(policy, settle=timedelta())
        )

    patch.setattr(rotation, "_overlapping", hasty)


def what_hooks_trust_is_not_adopted(patch: pytest.MonkeyPatch) -> None:
    """A leader that finds no Secret forgets the authorities that hooks still trust."""
    patch.setattr(rotation, "_adopting", lambda state, *_: state)


MUTATIONS = (
    no_settling,
    old_authorities_are_not_kept,
    replicas_sign_with_what_they_saw_long_ago,
    the_new_authority_signs_before_it_is_trusted,
    what_hooks_trust_is_not_adopted,
)
