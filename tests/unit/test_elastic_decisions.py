"""Who may start, who gives way, who is labelled how, and what a leaf is asked for."""

from federation_quota.binding import Binding, ObjectKey, TemplateRef
from federation_quota.elastic import ask, labelling, occupant, preemption, reclaim, release
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.occupant import Occupant
from federation_quota.elastic.release import Obstacle, Room, room
from federation_quota.quantity import Quantity, parse
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp


def some(cpu: int, memory: int = 0) -> Resources:
    return Resources.parse({"cpu": cpu, "memory": memory})


def limit(**amounts: int) -> dict[str, Quantity]:
    return {name: parse(amount) for name, amount in amounts.items()}


def one(name: str, cpu: int, priority: int = 0, second: int = 0, **more: bool) -> Occupant:
    return Occupant(name, some(cpu), priority, f"2026-01-01T00:00:{second:02d}Z", **more)


def names(occupants: list[Occupant] | None) -> list[str] | None:
    return None if occupants is None else [each.name for each in occupants]


# From bindings


def binding(**more: object) -> Binding:
    template = TemplateRef("apps/v1", "Deployment", "team", "web")
    return Binding(ObjectKey("team", "web"), "uid", 7, template, demand=some(4), created="2026-01-01T00:00:00Z", **more)  # type: ignore[arg-type]


def test_a_waiting_binding_costs_what_it_asks_for_and_a_running_one_what_it_has() -> None:
    stored = binding(assigned=some(8), stamp=Stamp(priority=7), is_preemptible=False, is_preserved=True)
    assert occupant.occupying(stored).charge == some(8)
    assert occupant.waiting(stored).charge == some(8)
    assert occupant.waiting(binding()).charge == some(4)
    assert occupant.occupying(stored).priority == 7
    assert occupant.occupying(stored).name == "team/web"
    assert not occupant.occupying(stored).may_be_displaced


# Release


def test_the_important_go_first_and_then_the_oldest() -> None:
    waiting = [one("young", 4, second=9), one("old", 4, second=1), one("high", 4, priority=5, second=30)]
    released, hindered = release.choose(waiting, room(limit(cpu=8), {}, []))
    assert names(released) == ["high", "old"]
    assert hindered == {"young": Obstacle("runtime", ("cpu",))}


def test_a_large_one_does_not_keep_a_small_one_waiting() -> None:
    released, _ = release.choose([one("large", 9, priority=5), one("small", 2)], room(limit(cpu=8), {}, []))
    assert names(released) == ["small"]


def test_what_is_not_preemptible_uses_no_more_than_min() -> None:
    inside = [one("inside", 3, is_preemptible=False)]
    waiting = [one("good", 2, is_preemptible=False), one("bad", 3, is_preemptible=False, second=1), one("other", 3)]
    released, hindered = release.choose(waiting, room(limit(cpu=100), limit(cpu=5), inside))
    assert names(released) == ["good", "other"]
    assert hindered == {"bad": Obstacle("min", ("cpu",))}


def test_what_is_over_stands_in_nobodys_way_who_does_not_ask_for_it() -> None:
    leaf = Room(limit(cpu=4, memory=4), used=some(9, 1))
    assert leaf.obstacle(Occupant("memory", some(0, 2))) is None
    assert leaf.obstacle(Occupant("cpu", some(1, 2))) == Obstacle("runtime", ("cpu",))


def test_what_a_leaf_does_not_name_is_not_limited() -> None:
    assert Room(limit(cpu=4)).obstacle(Occupant("memory", some(4, 10**9))) is None


# Reclaim


def test_the_least_important_give_way_and_of_equals_the_youngest() -> None:
    inside = [one("high", 4, priority=5), one("old", 4, second=1), one("young", 4, second=2)]
    assert names(reclaim.choose(inside, some(12), limit(cpu=8))) == ["young"]
    assert names(reclaim.choose(inside, some(12), limit(cpu=7))) == ["old", "young"]
    assert reclaim.choose(inside, some(12), limit(cpu=12)) == []


def test_whoever_fits_again_is_left_where_it_is() -> None:
    inside = [one("top", 5, priority=9), one("small", 1, priority=2), one("large", 6, priority=5)]
    assert names(reclaim.choose(inside, some(12), limit(cpu=6))) == ["large"]


def test_nothing_that_is_not_preemptible_or_would_free_nothing_is_displaced() -> None:
    inside = [one("fixed", 4, is_preemptible=False), one("kept", 4, is_preserved=True), one("free", 4, priority=9)]
    assert names(reclaim.choose(inside, some(12), limit(cpu=1))) == ["free"]


def test_who_has_nothing_of_what_is_over_stays() -> None:
    inside = [Occupant("memory", some(0, 5)), Occupant("fixed", some(9), is_preemptible=False)]
    assert reclaim.choose(inside, some(9, 5), limit(cpu=1, memory=9)) == []


# Preemption within a leaf


def test_a_more_important_one_displaces_as_few_as_it_needs() -> None:
    inside = [one("a", 4, priority=1), one("b", 4, priority=2), one("c", 2, priority=3)]
    leaf = room(limit(cpu=10), {}, inside)
    assert names(preemption.choose(one("new", 4, priority=9), inside, leaf)) == ["a"]
    assert names(preemption.choose(one("new", 5, priority=9), inside, leaf)) == ["a", "b"]
    assert preemption.choose(one("new", 5, priority=2), inside, leaf) is None
    assert preemption.choose(one("equal", 4, priority=1), inside, leaf) is None
    assert preemption.choose(one("fits", 0, priority=0), inside, leaf) == []


def test_neither_the_protected_nor_the_preserved_are_displaced() -> None:
    inside = [one("a", 5, is_preemptible=False), one("b", 5, is_preserved=True)]
    assert preemption.choose(one("new", 1, priority=9), inside, room(limit(cpu=10), {}, inside)) is None


def test_displacing_others_does_not_help_what_is_not_preemptible_beyond_min() -> None:
    inside = [one("a", 10)]
    asking = one("new", 6, priority=9, is_preemptible=False)
    assert preemption.choose(asking, inside, room(limit(cpu=10), limit(cpu=5), inside)) is None
    assert names(preemption.choose(asking, inside, room(limit(cpu=10), limit(cpu=6), inside))) == ["a"]


# Labels


def test_labels_go_by_age_then_low_priority_then_size_then_name() -> None:
    running = [one("z", 1), one("y", 1), one("large", 3), one("high", 1, priority=4), one("old", 5, second=0)]
    young = [one("young", 1, second=9)]
    assert names(labelling.order([*young, *running])) == ["y", "z", "large", "old", "high", "young"]


def test_from_the_first_beyond_min_on_all_are_over_quota() -> None:
    running = [
        one("first", 4),
        one("second", 4, second=1),
        Occupant("third", some(0, 1), created="2026-01-01T00:00:02Z"),
    ]
    assert labelling.label(running, limit(cpu=5)) == {
        "first": "in-quota",
        "second": "over-quota",
        "third": "over-quota",
    }


# Asks


def test_a_refused_increase_counts_as_demand() -> None:
    asks = ask.note((), Ask("team/web", some(9), "2026-01-01T00:10:00Z"), "2026-01-01T00:00:00Z")
    assert ask.request({"team/web": some(4), "team/db": some(1)}, asks) == some(10)
    assert ask.request({"team/db": some(1)}, asks) == some(10)
    assert ask.request({"team/web": some(12)}, asks) == some(12)


def test_an_ask_ends_when_it_is_given_or_too_old() -> None:
    wanted = Ask("team/web", some(9), "2026-01-01T00:10:00Z")
    assert ask.open_asks([wanted], {"team/web": some(4)}, "2026-01-01T00:09:59Z") == (wanted,)
    assert ask.open_asks([wanted], {"team/web": some(9)}, "2026-01-01T00:00:00Z") == ()
    assert ask.open_asks([wanted], {}, "2026-01-01T00:10:00Z") == ()


def test_the_last_ask_of_a_binding_stands_and_there_is_a_bound() -> None:
    now = "2026-01-01T00:00:00Z"
    first, again = Ask("a", some(9), "2026-01-01T00:01:00Z"), Ask("a", some(3), "2026-01-01T00:02:00Z")
    assert ask.note((first,), again, now) == (again,)
    others = tuple(Ask(f"b{place}", some(1), f"2026-01-01T00:{place + 10}:00Z") for place in range(5))
    kept = ask.note((first, *others), again, now, most=3)
    assert [each.binding for each in kept] == ["b2", "b3", "b4"]
    ended = Ask("old", some(1), "2025-01-01T00:00:00Z")
    assert ask.note((ended,), again, now) == (again,)


def test_asks_are_stored_and_read_again() -> None:
    asks = (Ask("team/web", some(9, 5), "2026-01-01T00:10:00Z"),)
    assert ask.read({"asks": ask.write(asks)}) == asks
    assert ask.read({"asks": [{"binding": "x"}, {"binding": "x", "charge": {"cpu": "?"}, "until": ""}, None]}) == ()
    assert ask.read({}) == ()
