"""Who waits, and who of them is to be woken."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from federation_quota import waiting
from federation_quota.api.karmadaquota import KarmadaQuota
from federation_quota.bounds import LONGEST_MESSAGE
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.reservation import Reservation
from federation_quota.resources import Resources
from federation_quota.room import Room
from federation_quota.waiting import Waiter, choose, held, is_granted, merge, read, refused, write
from tests.unit.waiters import NAMESPACE, binding, mirror, quota, waiter


def names(waiters: list[Waiter] | tuple[Waiter, ...]) -> list[str]:
    return [one.name for one in waiters]


# The list


def test_the_highest_priority_stands_first_and_among_equals_the_oldest() -> None:
    old, young = waiter("old", 1, since=1), waiter("young", 1, since=2)
    high, low = waiter("high", 1, priority=5, since=9), waiter("low", 1, priority=-5)
    assert names(merge([young, low], [high, old])) == ["high", "old", "young", "low"]


def test_a_time_with_a_fraction_is_later_than_the_whole_second() -> None:
    whole = replace(waiter("whole", 1), since="2026-01-01T00:00:05Z")
    later = replace(waiter("later", 1), since="2026-01-01T00:00:05.000001Z")
    assert names(merge([], [later, whole])) == ["whole", "later"]


def test_one_who_is_refused_again_keeps_its_place_and_changes_nothing() -> None:
    listed = merge([], [waiter("web", 3, since=1)])
    again = replace(waiter("web", 3, since=7), message="other words")
    assert merge(listed, [again]) == listed


def test_one_who_wants_something_else_keeps_only_its_place_in_time() -> None:
    listed = merge([], [waiter("web", 3, since=1), waiter("other", 1, since=2)])
    changed = merge(listed, [waiter("web", 5, since=7)])
    assert [(one.name, one.since[-3:-1], one.claim.charge["cpu"].to_json()) for one in changed] == [
        ("web", "01", "5"),
        ("other", "02", "1"),
    ]


def test_a_full_list_drops_the_last() -> None:
    listed = merge([], [waiter(f"w{number}", 1, since=number) for number in range(3)], most=3)
    assert names(merge(listed, [waiter("late", 1, since=9)], most=3)) == ["w0", "w1", "w2"]
    assert names(merge(listed, [waiter("high", 1, priority=1, since=9)], most=3)) == ["high", "w0", "w1"]


def test_a_status_gives_back_what_was_written_and_the_api_takes_it() -> None:
    waiters = (
        Waiter("b", "v1", "Secret", "b", Claim(Resources.parse({"cpu": "1500m"}), "gold"), -7, "2026-01-01T00:00:00Z"),
        replace(waiter("web", 3), message="exceeded quota: q"),
    )
    assert read({"waiting": write(waiters)}) == waiters
    long = replace(waiters[1], message="x" * 5000)
    assert len(write([long])[0]["message"]) == LONGEST_MESSAGE
    KarmadaQuota.model_validate({"status": {"waiting": write([*waiters, long])}})


def test_what_cannot_be_read_is_left_out() -> None:
    good = write([waiter("web", 3)])
    assert names(read({"waiting": [{"binding": "x"}, *good, {**good[0], "charge": {"cpu": "lots"}}]})) == ["web"]
    assert names(read({"waiting": [{**good[0], "message": 5}, *good, {**good[0], "priority": "high"}]})) == ["web"]
    assert read({}) == ()
    assert read({"waiting": None}) == ()


def test_who_is_refused_waits_for_its_charge_and_who_is_held_for_its_demand() -> None:
    running = binding("web", 5, clusters={"m1": 2})
    assert refused(running, "no", "2026-01-01T00:00:00Z").claim.charge["cpu"].to_json() == "5"
    suspended = replace(running, is_held=True, is_suspended=True)
    assert suspended.charge["cpu"].to_json() == "2"
    assert held(suspended).claim.charge["cpu"].to_json() == "5"


def test_granted_is_all_of_it_in_the_same_class() -> None:
    wish = waiter("web", 3, memory="1Gi")
    cases: list[tuple[dict[str, str | int], str, bool]] = [
        ({"cpu": 3, "memory": "1Gi"}, "", True),
        ({"cpu": 4, "memory": "2Gi", "pods": 1}, "", True),
        ({"cpu": 3}, "", False),
        ({"cpu": 2, "memory": "1Gi"}, "", False),
        ({"cpu": 3, "memory": "1Gi"}, "gold", False),
    ]
    for amounts, priority_class, expected in cases:
        assert is_granted(wish, Claim(Resources.parse(amounts), priority_class)) is expected


def test_the_annotation_is_not_one_that_karmada_takes_for_its_own() -> None:
    assert ".karmada.io" not in waiting.WOKEN_ANNOTATION


# Who is to be woken


def chosen(
    waiters: list[Waiter],
    *,
    accounts: list[object] | None = None,
    used: int = 0,
    woken: list[Waiter] | None = None,
) -> list[str]:
    observation, _ = mirror(*([binding("used", used, clusters={"m1": used})] if used else []))
    room = Room(accounts if accounts is not None else [quota(10)], observation.view)  # type: ignore[arg-type]
    found, hindered = choose(waiters, woken or [], room, NAMESPACE, observation.view)
    assert len(found) + len(hindered) == len(waiters)
    return [one.waiter.name for one in found]


def test_everybody_who_fits_beside_those_before() -> None:
    waiters = [waiter("a", 4, since=1), waiter("b", 4, since=2), waiter("c", 4, since=3), waiter("d", 2, since=4)]
    assert chosen(waiters) == ["a", "b", "d"]
    assert chosen(waiters, used=5) == ["a"]
    assert chosen(waiters, used=10) == []


def test_the_highest_priority_first_whatever_the_order_of_the_list() -> None:
    waiters = [waiter("old", 6, since=1), waiter("high", 6, priority=1, since=9), waiter("older", 6)]
    assert chosen(waiters) == ["high"]


def test_what_does_not_fit_keeps_nobody_smaller_waiting() -> None:
    assert chosen([waiter("big", 8, priority=9), waiter("small", 3)], used=7) == ["small"]


def test_the_room_of_those_on_their_way_is_taken() -> None:
    assert chosen([waiter("b", 6)], woken=[waiter("a", 6)]) == []
    assert chosen([waiter("b", 4)], woken=[waiter("a", 6)]) == ["b"]


def test_what_a_binding_has_already_is_not_counted_twice() -> None:
    observation, _ = mirror(binding("web", 4, clusters={"m1": 4}), binding("other", 4, clusters={"m1": 4}))
    for wanted, expected in ((6, ["web"]), (7, [])):
        room = Room([quota(10)], observation.view)
        found, _ = choose([waiter("web", wanted)], [], room, NAMESPACE, observation.view)
        assert [one.waiter.name for one in found] == expected


def test_what_asks_for_no_more_than_it_has_needs_no_room() -> None:
    observation, _ = mirror(binding("web", 1, clusters={"m1": 3}), binding("other", 8, clusters={"m1": 8}))
    found, _ = choose([waiter("web", 3)], [], Room([quota(2)], observation.view), NAMESPACE, observation.view)
    assert [one.waiter.name for one in found] == ["web"]


def test_every_quota_of_the_namespace_must_have_room() -> None:
    accounts: list[object] = [quota(10, "a"), quota(5, "b")]
    assert chosen([waiter("web", 6)], accounts=accounts) == []
    assert chosen([waiter("web", 5)], accounts=accounts) == ["web"]
    assert chosen([waiter("web", 6)], accounts=[]) == ["web"]


def test_a_quota_that_only_warns_stands_in_nobodys_way() -> None:
    assert chosen([waiter("web", 99)], accounts=[quota(10, on_exceeded="Warn")]) == ["web"]
    observation, _ = mirror()
    room = Room([quota(10)], observation.view, is_warning_only=True)
    assert not room.obstacles(waiter("web", 99).ask(None))


def test_a_quota_that_cannot_judge_yet_lets_only_pass_what_it_does_not_limit() -> None:
    inactive = quota(10, is_active=False)
    behind = replace(quota(10), observed=10**6)
    memory = replace(waiter("memory", 0), claim=Claim(Resources.parse({"memory": "1Gi"})))
    for account in (inactive, behind):
        assert chosen([waiter("web", 1), memory], accounts=[account]) == ["memory"]


def test_nothing_is_chosen_beside_a_binding_that_nobody_knows_the_cost_of() -> None:
    observation, _ = mirror(binding("odd", 1, fault="cpu: lots"))
    room = Room([quota(10)], observation.view)
    assert room.obstacles(waiter("web", 1).ask(None))
    mended = waiter("odd", 2).ask(observation.view.get(NAMESPACE, "odd-deployment"))
    assert not room.obstacles(mended)


def test_reservations_count_until_a_view_shows_their_end() -> None:
    account = quota(10)
    pending = Reservation("1", "web-deployment", Claim(Resources.parse({"cpu": 8})), uid="uid-web")
    account = account.with_reservations([pending])
    wish = waiter("other", 4).ask(None)
    observation, bindings = mirror()
    (obstacle,) = Room([account], observation.view).obstacles(wish)
    assert not obstacle.is_certain
    bindings.upsert(binding("web", 3, version=20))
    assert not Room([account], observation.view).obstacles(wish), "it was stored smaller"


def test_one_with_a_reservation_of_its_own_is_not_judged_by_its_likes() -> None:
    own = Reservation("1", "mine-deployment", Claim(Resources.parse({"cpu": 6})), uid="uid-mine")
    observation, _ = mirror(binding("used", 4, clusters={"m1": 4}))
    room = Room([quota(10).with_reservations([own])], observation.view)
    waiters = [waiter("other", 6, priority=1), waiter("mine", 6)]
    found, hindered = choose(waiters, [], room, NAMESPACE, observation.view)
    assert ([one.waiter.name for one in found], list(hindered)) == (["mine"], ["other-deployment"])


def test_words_for_people() -> None:
    observation, _ = mirror(binding("used", 8, clusters={"m1": 8}))
    room = Room([quota(10, "q", memory="1Gi")], observation.view)
    (obstacle,) = room.obstacles(waiter("web", 3).ask(None))
    assert str(obstacle) == "quota q has no room (cpu: 3 asked, 2 left)"
    assert obstacle.is_certain
    assert room.describe(waiter("web", 2).ask(None)) == "quota q has room (cpu: 2 asked, 2 left)"


WAITERS = st.lists(
    st.builds(
        waiter,
        st.integers(0, 9).map(lambda number: f"w{number}"),
        st.integers(0, 8),
        priority=st.integers(-1, 1),
        since=st.integers(0, 5),
    ),
    max_size=8,
    unique_by=lambda one: one.name,
)


@given(WAITERS, st.integers(0, 12), st.integers(0, 12))
def test_those_chosen_fit_together_and_nobody_was_passed_over(waiters: list[Waiter], limit: int, used: int) -> None:
    found = chosen(waiters, accounts=[quota(limit)], used=used)
    costs = {one.name: int(one.claim.charge["cpu"].to_json()) for one in waiters}
    left = limit - used
    expected = []
    for one in sorted(waiters, key=lambda one: (-one.priority, one.since, one.binding)):
        cost = costs[one.name]
        if cost == 0 or cost <= left:
            expected.append(one.name)
            left -= cost
    assert found == expected
