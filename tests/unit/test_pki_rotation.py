"""The rotation, step by step: what is done next in which state."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import example, given, settings
from hypothesis import strategies as st

from federation_quota.pki.authority import Authority, create_authority, parse_certificates
from federation_quota.pki.rotation import (
    MAX_RETIRED,
    Policy,
    Publish,
    Rest,
    Retired,
    RotationState,
    Step,
    Store,
    next_step,
)
from tests.budget import scaled

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = Policy()
HOOKS = 2
OLD, NEW, THIRD = (
    create_authority(NOW - POLICY.authority_lifetime * 0.7),
    create_authority(NOW),
    create_authority(NOW),
)

Trusted = frozenset[x509.Certificate]


def trusting(*authorities: Authority) -> list[Trusted]:
    return [frozenset(authority.certificate for authority in authorities)] * HOOKS


def step(state: RotationState | None, published: Collection[Trusted], now: datetime = NOW) -> Step:
    return next_step(state, published, now, lambda _: NEW, POLICY)


def test_the_whole_story_from_nothing_to_the_second_authority() -> None:
    minted: list[Authority] = []

    def mint(now: datetime) -> Authority:
        minted.append(create_authority(now))
        return minted[-1]

    now, published = NOW, trusting()
    state: RotationState | None = None
    story: list[tuple[str, datetime]] = []
    while now < NOW + POLICY.authority_lifetime:
        decided = next_step(state, published, now, mint, POLICY)
        story.append((type(decided).__name__, now))
        match decided:
            case Store(stored):
                state = stored
            case Publish(bundle):
                published = [frozenset(parse_certificates(bundle))] * HOOKS
            case Rest(until):
                if len(story) == 13:
                    break
                now = until
    rotated = NOW + POLICY.authority_lifetime * 2 / 3
    settled = rotated + POLICY.settle
    assert story == [
        ("Store", NOW),  # the first, not signing yet
        ("Publish", NOW),
        ("Store", NOW),  # nothing was served before: it signs at once
        ("Rest", NOW),
        ("Store", rotated),  # the second
        ("Publish", rotated),
        ("Store", rotated),  # seen everywhere
        ("Rest", rotated),
        ("Store", settled),  # it signs, the first is retired
        ("Rest", settled),
        ("Publish", settled + POLICY.retention),  # without the first
        ("Store", settled + POLICY.retention),  # forgotten
        ("Rest", settled + POLICY.retention),
    ]
    assert state == RotationState(signing=minted[1])
    assert published == trusting(minted[1])
    assert len(minted) == 2


def test_an_authority_that_is_due_gets_a_successor_beside_it() -> None:
    assert step(RotationState(signing=OLD), trusting(OLD)) == Store(RotationState(signing=OLD, next=NEW))


def test_the_successor_waits_for_every_hook() -> None:
    state = RotationState(signing=OLD, next=NEW)
    behind = [*trusting(OLD, NEW)[:1], *trusting(OLD)[:1]]
    assert step(state, behind) == Publish(state.bundle(NOW))
    assert step(state, trusting(OLD, NEW)) == Store(replace(state, next_published_at=NOW))


def test_the_successor_settles_and_then_signs() -> None:
    state = RotationState(signing=OLD, next=NEW, next_published_at=NOW)
    before, after = NOW + POLICY.settle - timedelta(seconds=1), NOW + POLICY.settle
    assert step(state, trusting(OLD, NEW), before) == Rest(after)
    retired = Retired(OLD.certificate, after + POLICY.retention)
    assert step(state, trusting(OLD, NEW), after) == Store(RotationState(signing=NEW, retired=(retired,)))


def test_a_hook_that_was_reset_starts_the_settling_again() -> None:
    state = RotationState(signing=OLD, next=NEW, next_published_at=NOW - DAY)
    reset = [*trusting(OLD, NEW)[:1], *trusting(OLD)[:1]]
    assert step(state, reset) == Store(replace(state, next_published_at=None))


def test_a_time_of_publication_in_the_future_is_not_believed() -> None:
    state = RotationState(signing=OLD, next=NEW, next_published_at=NOW + DAY)
    assert step(state, trusting(OLD, NEW)) == Store(replace(state, next_published_at=NOW))


def test_a_retired_authority_is_trusted_until_its_time_and_forgotten_when_no_hook_has_it() -> None:
    state = RotationState(signing=NEW, retired=(Retired(OLD.certificate, NOW + DAY),))
    assert step(state, trusting(NEW, OLD)) == Rest(NOW + DAY)
    assert step(state, trusting(NEW, OLD), NOW + DAY) == Publish(RotationState(signing=NEW).bundle(NOW))
    assert step(state, trusting(NEW), NOW + DAY) == Store(RotationState(signing=NEW))


def test_an_authority_is_never_retired_beyond_its_own_end() -> None:
    late = OLD.certificate.not_valid_after_utc - DAY
    state = RotationState(signing=OLD, next=create_authority(late), next_published_at=late - DAY)
    assert state.next
    decided = step(state, trusting(OLD, state.next), late)
    assert isinstance(decided, Store)
    assert decided.state.retired == (Retired(OLD.certificate, OLD.certificate.not_valid_after_utc),)


def test_where_the_secret_was_lost_what_is_trusted_stays_so() -> None:
    decided = step(None, trusting(OLD))
    assert decided == Store(RotationState(next=NEW, retired=(Retired(OLD.certificate, NOW + POLICY.retention),)))


def test_where_the_secret_came_from_a_backup_what_is_trusted_stays_so() -> None:
    decided = step(RotationState(signing=THIRD), trusting(NEW))
    assert decided == Store(RotationState(signing=THIRD, retired=(Retired(NEW.certificate, NOW + POLICY.retention),)))


def test_of_a_thousand_strangers_only_so_many_are_adopted() -> None:
    crowd = frozenset(create_authority(NOW).certificate for _ in range(MAX_RETIRED + 5))
    decided = step(RotationState(signing=NEW), [crowd])
    assert isinstance(decided, Store)
    assert len(decided.state.retired) == MAX_RETIRED
    assert decided.state.retired[0].certificate in crowd
    assert step(decided.state, [crowd]) == Publish(decided.state.bundle(NOW))


def test_expired_strangers_are_not_adopted() -> None:
    late = OLD.certificate.not_valid_after_utc
    fresh = RotationState(signing=create_authority(late))
    assert step(fresh, trusting(OLD), late) == Publish(fresh.bundle(late))


def test_after_a_long_sleep_everything_begins_anew_without_waiting() -> None:
    late = NOW + POLICY.authority_lifetime * 3
    fresh = create_authority(late)
    state = RotationState(signing=OLD, next=NEW, next_published_at=NOW)
    decided = next_step(state, trusting(OLD, NEW), late, lambda _: fresh, POLICY)
    assert decided == Store(RotationState(signing=OLD, next=fresh))
    assert isinstance(step(decided.state, trusting(), late), Publish)
    promoted = step(decided.state, trusting(OLD, fresh), late)
    assert isinstance(promoted, Store)
    assert promoted.state.signing == fresh


def test_an_authority_that_has_ended_is_replaced_without_waiting_whatever_else_is_trusted() -> None:
    """Replicas that start have nothing to serve: a Secret from an old backup, or controllers that were long away."""
    late = OLD.certificate.not_valid_after_utc
    fresh = create_authority(late)
    kept = Retired(create_authority(late - DAY).certificate, late + DAY)
    state = RotationState(signing=OLD, next=fresh, retired=(kept,))
    promoted = next_step(state, [frozenset(state.trusted(late))], late, lambda _: fresh, POLICY)
    assert isinstance(promoted, Store)
    assert promoted.state.signing == fresh
    assert kept in promoted.state.retired


def test_a_clock_that_is_behind_makes_nothing_hasty() -> None:
    """Not valid yet is not the same as expired: leaves of it may well be served."""
    early = NOW - DAY
    earlier = create_authority(early)
    state = RotationState(signing=NEW, next=earlier)
    assert step(state, trusting(NEW, earlier), early) == Store(replace(state, next_published_at=early))


def test_without_a_hook_nothing_is_ever_promoted() -> None:
    state = RotationState(signing=OLD, next=NEW, next_published_at=NOW - DAY)
    assert step(state, []) == Rest(NOW + POLICY.settle)


AUTHORITIES = [OLD, NEW, THIRD]
SOME = st.lists(st.sampled_from(AUTHORITIES), unique=True)
TIMES = st.integers(-200, 500).map(lambda days: NOW + DAY * days)


@given(
    signing=st.sampled_from([None, *AUTHORITIES]),
    following=st.sampled_from([None, *AUTHORITIES]),
    published_at=st.none() | TIMES,
    retired=st.lists(st.tuples(st.sampled_from(AUTHORITIES), TIMES), max_size=3),
    hooks=st.lists(SOME, min_size=1, max_size=3),
    now=TIMES,
)
@example(  # the one that signs has expired, and is replaced at once
    signing=OLD, following=NEW, published_at=None, retired=[], hooks=[[OLD, NEW]], now=NOW + DAY * 110
)
@settings(max_examples=scaled(60))
def test_whatever_the_state_nobody_signs_before_every_hook_trusts_it_and_no_unexpired_trust_is_dropped(
    signing: Authority | None,
    following: Authority | None,
    published_at: datetime | None,
    retired: list[tuple[Authority, datetime]],
    hooks: list[list[Authority]],
    now: datetime,
) -> None:
    state = RotationState(
        signing, following, published_at, tuple(Retired(each.certificate, until) for each, until in retired)
    )
    published = [frozenset(each.certificate for each in hook) for hook in hooks]
    mint = create_authority(now)
    decided = next_step(state, published, now, lambda _: mint, POLICY)
    if isinstance(decided, Store):
        after = decided.state
        if after.signing not in (None, signing):
            assert after.signing is not None
            assert all(after.signing.certificate in trusted for trusted in published)
        # What was trusted by the state stays trusted, or was `next`, which has signed nothing, or has expired.
        lost = set(state.trusted(now)) - set(after.trusted(now))
        assert {each for each in lost if now < each.not_valid_after_utc} <= (
            {following.certificate} if following else set()
        )
    if isinstance(decided, Publish):
        wanted = set(parse_certificates(decided.bundle))
        assert wanted == set(state.trusted(now))
        unknown = {each for trusted in published for each in trusted} - wanted
        past = {each.certificate for each, until in retired if until <= now}
        assert all(each in past or each.not_valid_after_utc <= now for each in unknown)


def test_a_policy_keeps_authorities_longer_than_their_leaves_can_live() -> None:
    assert POLICY.retention > POLICY.leaf_lifetime + POLICY.view_limit


@pytest.mark.parametrize("value", [RotationState(signing=OLD, next=NEW), Store(RotationState(signing=OLD))])
def test_nothing_that_is_printed_holds_a_key(value: object) -> None:
    assert "PRIVATE" not in repr(value)
    assert f"{OLD.key.private_numbers().private_value}" not in repr(value)
