"""Who counts as there, and for how long: the roster's rules, by a clock that the tests turn."""

from federation_quota.kube.lease import Lease, Metadata, Spec
from federation_quota.kube.roster import LEFT_ANNOTATION, MEMORY_SECONDS, Roster

DURATION = 10


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lease(who: str, version: int, *, renewed: int = 0, has_left: bool = False) -> Lease:
    annotations = {LEFT_ANNOTATION: "now"} if has_left else {}
    metadata = Metadata(f"webhook-{who}", "ns", f"uid-{who}", str(version), annotations=annotations)
    return Lease(metadata, Spec(who, DURATION, "then", f"t{renewed}"))


def roster() -> tuple[Roster, Clock]:
    clock = Clock()
    return Roster(clock), clock


def test_whoever_is_seen_for_the_first_time_is_live_however_old_the_lease_is() -> None:
    subject, clock = roster()
    subject.confirm([lease("a", 1), lease("b", 2)], 5, clock.now)
    assert subject.live() == {"a", "b"}
    assert subject.unsettled(60) == {"a", "b"}


def test_silence_counts_only_where_the_store_itself_was_asked() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1)], 5)
    clock.now += 1000
    assert subject.live() == {"a"}  # it may be the feed that is stuck
    subject.bookmark(9)
    assert subject.live() == {"a"}  # a bookmark may have been under way for long
    subject.confirm([lease("a", 1)], 10, clock.now)
    assert subject.live() == set()


def test_a_list_that_was_begun_too_early_proves_nothing() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1)], 5)
    began = clock.now + DURATION - 1
    clock.now += 60  # it took its time
    subject.confirm([lease("a", 1)], 6, began)
    assert subject.live() == {"a"}


def test_the_gone_stay_unsettled_until_what_they_began_must_be_over() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1), lease("b", 2)], 5)
    clock.now += DURATION + 2
    subject.confirm([lease("a", 1), lease("b", 7, renewed=1)], 8, clock.now)
    assert subject.live() == {"b"}
    assert subject.gone_seconds("a") == 2  # it stopped by itself when its lease ran out
    assert subject.gone_seconds("b") is None
    assert subject.gone_seconds("nobody") is None
    assert subject.unsettled(60) == {"a", "b"}
    assert subject.settles_in(60) == 58
    clock.now += 57
    assert subject.unsettled(60) == {"a", "b"}
    clock.now += 1
    assert subject.unsettled(60) == {"b"}
    assert subject.settles_in(60) is None


def test_a_change_of_labels_is_no_sign_of_life() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1)], 5)
    clock.now += DURATION - 1
    subject.upsert(lease("a", 6))  # a new version, the same spec
    clock.now += 1
    subject.confirm([lease("a", 6)], 7, clock.now)
    assert subject.live() == set()


def test_renewals_from_the_feed_keep_a_replica_alive() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1)], 5)
    for turn in range(5):
        clock.now += DURATION - 1
        subject.upsert(lease("a", 6 + turn, renewed=turn))
        subject.confirm([lease("a", 6 + turn, renewed=turn)], 6 + turn, clock.now)
        assert subject.live() == {"a"}


def test_old_news_after_a_newer_list_changes_nothing() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1), lease("b", 2)], 5)
    clock.now += DURATION
    subject.confirm([lease("a", 9, renewed=3)], 10, clock.now)  # b was deleted meanwhile
    subject.upsert(lease("b", 6, renewed=1))  # the feed brings what was before that
    subject.upsert(lease("a", 7, renewed=2))
    assert subject.live() == {"a"}
    assert subject.unsettled(60) == {"a", "b"}
    subject.delete(lease("b", 8))
    assert subject.unsettled(60) == {"a", "b"}


def test_a_list_that_is_older_than_the_feed_does_not_remove_who_just_came() -> None:
    subject, clock = roster()
    subject.replace([], 5)
    subject.upsert(lease("new", 12))
    subject.confirm([], 11, clock.now)
    assert subject.live() == {"new"}


def test_a_deleted_lease_does_not_make_its_replica_forgotten() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1)], 5)
    subject.delete(lease("a", 6))
    assert subject.live() == {"a"}  # it may not have noticed yet
    clock.now += DURATION
    assert subject.live() == set()  # by now it has stopped, whether it heard of it or not
    assert subject.unsettled(60) == {"a"}
    clock.now += 60
    assert subject.unsettled(60) == set()


def test_whoever_left_in_good_order_is_gone_at_once_yet_unsettled() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1)], 5)
    subject.upsert(lease("a", 6, has_left=True))
    assert subject.live() == set()
    assert subject.unsettled(60) == {"a"}
    clock.now += 59
    subject.upsert(lease("a", 7, has_left=True))
    assert subject.unsettled(60) == {"a"}
    clock.now += 1
    assert subject.unsettled(60) == set()


def test_only_long_gone_leases_are_forgettable() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1), lease("b", 2)], 5)
    clock.now += DURATION + 100
    subject.confirm([lease("a", 1), lease("b", 9, renewed=1)], 10, clock.now)
    assert subject.forgettable(101) == []
    assert [one.metadata.name for one in subject.forgettable(100)] == ["webhook-a"]
    subject.delete(lease("a", 11))
    assert subject.forgettable(100) == []


def test_the_long_deleted_are_forgotten() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 1)], 5)
    subject.delete(lease("a", 6))
    clock.now += DURATION + MEMORY_SECONDS
    subject.replace([], 7)
    assert subject.gone_seconds("a") is None


def test_after_a_rewind_lower_versions_are_news() -> None:
    subject, clock = roster()
    subject.replace([lease("a", 900)], 1000)
    subject.rewind()
    clock.now += DURATION
    subject.confirm([lease("a", 50, renewed=7)], 60, clock.now)
    assert subject.live() == {"a"}
