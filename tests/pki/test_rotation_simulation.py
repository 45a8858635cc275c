"""Years of rotation under crashes, stalls, lost writes, lagging watches and a Secret that is deleted now and then.

At every instant every leaf that is served verifies with every bundle that an API server uses, and none expires. Each
precaution is also taken away once: the simulation must notice, or it proves nothing.
"""

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cryptography import x509

from federation_quota.pki import rotation
from federation_quota.pki.rotation import Policy, RotationState, Step
from tests.pki.world import Faults, RefusedError, World, bundles_of

# A year of these holds some fifteen rotations.
SHORT = Policy(
    authority_lifetime=timedelta(days=40),
    leaf_lifetime=timedelta(days=4),
    settle=timedelta(minutes=10),
    view_limit=timedelta(hours=4),
)


class Forgetful(Policy):
    """A mutation: authorities are dropped while their leaves are still served."""

    @property
    def retention(self) -> timedelta:
        return self.leaf_lifetime / 4


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """Make a run repeatable: serial numbers, which the jitter comes from, are the only chance in certificates."""

    def seed(number: int) -> int:
        chance = random.Random(number)
        monkeypatch.setattr(x509, "random_serial_number", lambda: chance.getrandbits(150) + 1)
        return number

    return seed


@pytest.mark.parametrize("number", range(6))
def test_every_leaf_verifies_everywhere_at_every_instant(number: int, seeded: Callable[[int], int]) -> None:
    world = World(seeded(number), SHORT, Faults(secret_deletions_per_year=2)).run(days=365)
    assert len(world.promotions) >= 12  # it did rotate
    assert world.leaves >= 300
    assert world.longest_without_signer < SHORT.leaf_lifetime / 3
    assert all("PRIVATE KEY" not in bundle for bundle in bundles_of(world))


def test_five_years_with_the_lifetimes_of_the_product(seeded: Callable[[int], int]) -> None:
    world = World(seeded(1), Policy(), Faults(stall_seconds=86400, secret_deletions_per_year=0.2)).run(days=5 * 365)
    assert len(world.promotions) >= 7
    assert world.leaves >= 3 * 5 * 365 / 7


def test_a_secret_deleted_every_week_by_four_leaders_that_sleep(seeded: Callable[[int], int]) -> None:
    faults = Faults(leaders=4, stalls=0.4, secret_deletions_per_year=52)
    world = World(seeded(1), SHORT, faults).run(days=180)
    assert len(world.promotions) >= 12


def refused(seeded: Callable[[int], int], policy: Policy, replica_policy: Policy | None = None) -> bool:
    """Whether a few short runs find an API server that refuses a leaf."""
    for number in range(8):
        try:
            World(seeded(number), policy, Faults(secret_deletions_per_year=2), replica_policy).run(days=365)
        except RefusedError:
            return True
    return False


def test_without_settling_it_fails(seeded: Callable[[int], int]) -> None:
    assert refused(seeded, replace(SHORT, settle=timedelta()))


def test_without_keeping_the_old_authority_it_fails(seeded: Callable[[int], int]) -> None:
    forgetful = Forgetful(SHORT.authority_lifetime, SHORT.leaf_lifetime, SHORT.settle, SHORT.view_limit)
    assert refused(seeded, forgetful)


def test_when_replicas_sign_with_what_they_saw_long_ago_it_fails(seeded: Callable[[int], int]) -> None:
    assert refused(seeded, SHORT, replace(SHORT, view_limit=timedelta(days=999)))


def test_when_the_new_authority_signs_before_it_is_trusted_it_fails(
    seeded: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = rotation._overlapping

    def hasty(
        state: RotationState, published: Collection[frozenset[x509.Certificate]], now: datetime, policy: Policy
    ) -> Step:
        if state.next is None:
            return careful(state, published, now, policy)
        return rotation._promoting(
            replace(state, next_published_at=now), state.next, now, replace(policy, settle=timedelta())
        )

    monkeypatch.setattr(rotation, "_overlapping", hasty)
    assert refused(seeded, SHORT)


def test_without_adopting_what_hooks_trust_it_fails(
    seeded: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "_adopting", lambda state, *_: state)
    assert refused(seeded, SHORT)
