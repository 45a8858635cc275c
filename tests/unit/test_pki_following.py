"""Trust in certificates that others issue: the former stays for a while beside the new."""

from datetime import UTC, datetime, timedelta

from federation_quota.pki.authority import create_authority, parse_certificates
from federation_quota.pki.following import RETENTION, Following

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OLD, NEW = create_authority(NOW).certificate, create_authority(NOW).certificate
SHORT = create_authority(NOW, timedelta(hours=1)).certificate


def test_what_is_given_is_published() -> None:
    following = Following().updated([NEW], [frozenset()], NOW)
    assert following.trusted == (NEW,)
    assert parse_certificates(following.bundle) == (NEW,)


def test_what_is_no_longer_given_stays_for_a_while() -> None:
    following = Following().updated([NEW], [frozenset({OLD})], NOW)
    assert set(following.trusted) == {OLD, NEW}
    both = [frozenset({OLD, NEW})]
    before = following.updated([NEW], both, NOW + RETENTION - timedelta(seconds=1))
    assert set(before.trusted) == {OLD, NEW}
    after = before.updated([NEW], both, NOW + RETENTION)
    assert after.trusted == (NEW,)
    # Until the hooks have been told, it is not taken for a newcomer.
    assert after.updated([NEW], both, NOW + RETENTION).trusted == (NEW,)
    assert after.updated([NEW], [frozenset({NEW})], NOW + RETENTION).leaving == {}


def test_another_process_that_takes_over_keeps_it_no_shorter() -> None:
    late = NOW + RETENTION / 2
    taken_over = Following().updated([NEW], [frozenset({OLD, NEW})], late)
    assert set(taken_over.updated([NEW], [frozenset({OLD, NEW})], NOW + RETENTION).trusted) == {OLD, NEW}


def test_what_comes_back_is_not_leaving_any_more() -> None:
    leaving = Following().updated([NEW], [frozenset({OLD})], NOW)
    back = leaving.updated([OLD], [frozenset({OLD, NEW})], NOW + RETENTION / 2)
    assert set(back.trusted) == {OLD, NEW}
    assert set(back.leaving) == {NEW}


def test_what_has_expired_goes_at_once() -> None:
    following = Following().updated([NEW], [frozenset({SHORT})], NOW)
    assert SHORT in following.trusted
    assert following.updated([NEW], [frozenset({SHORT})], NOW + timedelta(hours=1)).trusted == (NEW,)


def test_what_is_given_twice_is_published_once() -> None:
    assert Following().updated([NEW, OLD, NEW], [], NOW).trusted == (NEW, OLD)
