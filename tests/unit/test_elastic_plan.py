"""What is done in a tree next, from nothing but what is watched."""

from dataclasses import replace

from federation_quota.binding import Binding, ClusterShare, ObjectKey, TemplateRef
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.forest import Root
from federation_quota.elastic.node import Node
from federation_quota.elastic.plan import Plan, Planner, plan
from federation_quota.elastic.release import Obstacle
from federation_quota.elastic.situation import Leaf, Situation
from federation_quota.elastic.tree import Tree
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp

ROOT = Root(reclaim_delay_seconds=60)
NOW = "2026-01-01T12:00:00Z"
LATER = "2026-01-01T12:01:00Z"


def some(cpu: int) -> Resources:
    return Resources.parse({"cpu": cpu})


def binding(name: str, cpu: int, *, has: int = 0, held: bool = False, priority: int = 0, **more: object) -> Binding:
    second = len(name)
    found = Binding(
        ObjectKey("team", name),
        f"uid-{name}",
        7,
        TemplateRef("apps/v1", "Deployment", "team", name),
        demand=some(cpu),
        assigned=some(has),
        clusters=(ClusterShare("m1", has),) if has else (),
        is_held=held,
        is_suspended=held,
        stamp=Stamp(priority=priority, leaf="a"),
        created=f"2026-01-01T00:00:{second:02d}Z",
    )
    return replace(found, **more)  # type: ignore[arg-type]


def running(name: str, cpu: int, **more: int) -> Binding:
    return binding(name, cpu, has=cpu, **more)  # type: ignore[arg-type]


def leaf(published: int, *bindings: Binding, asks: tuple[Ask, ...] = (), more: int = 0) -> Leaf:
    used = some(more)
    for one in bindings:
        used = used + one.assigned
    return Leaf({"cpu": published * 1000}, used, bindings=bindings, asks=asks)


TWO = Tree.of([Node("a", min={"cpu": 50_000}), Node("b", min={"cpu": 50_000})], {"cpu": 100_000})


def look(a: Leaf, b: Leaf | None = None, tree: Tree = TWO, **more: object) -> Plan:
    leaves = {"a": a} if b is None else {"a": a, "b": b}
    return plan(Situation(tree, leaves, ROOT, NOW, **more))  # type: ignore[arg-type]


def names(bindings: list[Binding]) -> list[str]:
    return [one.key.name for one in bindings]


def displaced(found: Plan) -> list[str]:
    return [one.binding.key.name for one in found.displacements]


# Publishing


def test_what_waits_raises_what_is_published_and_goes_once_it_is() -> None:
    web = binding("web", 80, held=True)
    found = look(leaf(0, web), leaf(0))
    assert found.raises["a"] == {"cpu": 80_000}
    assert found.releases == []
    assert found.hindered == {"team/web": Obstacle("runtime", ("cpu",))}
    found = look(leaf(80, web), leaf(0))
    assert found.published == {}
    assert names(found.releases) == ["web"]


def test_what_one_wants_back_is_lowered_first_and_raised_only_when_it_is_free() -> None:
    borrowing, wanted = leaf(80, running("web", 80)), binding("api", 50, held=True)
    found = look(borrowing, leaf(0, wanted))
    assert found.lowerings == {"a": {"cpu": 50_000}}
    assert found.raises == {}, "not before the lowering is stored"
    found = look(leaf(50, running("web", 80)), leaf(0, wanted))
    assert found.raises == {"b": {"cpu": 20_000}}
    found = look(leaf(50, running("web", 50)), leaf(0, wanted))
    assert found.raises == {"b": {"cpu": 50_000}}


def test_what_replicas_were_advanced_and_what_a_lost_write_may_have_published_is_not_given_away() -> None:
    wanted = leaf(0, binding("api", 50, held=True))
    over = leaf(50, running("web", 60))
    assert look(replace(over, advanced=some(15)), wanted).raises == {"b": {"cpu": 25_000}}
    idle = replace(leaf(0), in_doubt={"cpu": 90_000})
    assert look(idle, wanted).raises == {"b": {"cpu": 10_000}}
    again = replace(leaf(0, binding("web", 90, held=True)), in_doubt={"cpu": 90_000})
    assert look(again, leaf(0)).raises == {"a": {"cpu": 90_000}}, "and is written again"


def test_a_leaf_is_asked_for_what_was_refused_until_the_ask_is_too_old() -> None:
    grows = running("web", 30)
    refused = (Ask("team/web", some(60), LATER),)
    assert look(leaf(30, grows, asks=refused), leaf(0)).raises == {"a": {"cpu": 60_000}}
    assert look(leaf(30, grows, asks=(replace(refused[0], until=NOW),)), leaf(0)).published == {}
    given = look(leaf(60, running("web", 60), asks=refused), leaf(0))
    assert given.asks == {"a": (), "b": ()}


def test_what_is_gone_asks_for_nothing_more() -> None:
    refused = (Ask("team/web", some(60), LATER),)
    goes = replace(running("web", 30), is_deleting=True)
    for there in (leaf(30, asks=refused), leaf(30, goes, asks=refused)):
        found = look(there, leaf(0))
        assert found.asks == {"a": (), "b": ()}
        assert found.raises == {}


# Releasing


def test_what_was_released_and_has_no_clusters_yet_has_its_place() -> None:
    on_its_way, waiting = binding("web", 6), binding("reports", 6, held=True)
    assert look(leaf(10, on_its_way, waiting)).releases == []
    # One that no cluster can take keeps nobody from anything.
    stuck = replace(on_its_way, scheduled_reason="NoClusterFit")
    assert names(look(leaf(10, stuck, waiting)).releases) == ["reports"]


def test_what_cannot_have_all_that_it_asks_for_keeps_nobody_waiting() -> None:
    refused = (Ask("team/web", some(200), LATER),)
    found = look(
        leaf(10, binding("web", 6, scheduled_reason="QuotaExceeded"), binding("api", 6, held=True), asks=refused)
    )
    assert names(found.releases) == ["api"]
    assert found.wakes == []


def test_whoever_was_refused_is_woken_when_there_is_room_and_not_while_it_rests() -> None:
    stuck = binding("web", 6, scheduled_reason="QuotaExceeded")
    grows = running("api", 4, scheduled_reason="QuotaExceeded")  # type: ignore[arg-type]
    refused = (Ask("team/web", some(12), LATER), Ask("team/api", some(8), LATER))
    there = leaf(20, stuck, grows, asks=refused)
    assert names(look(there).wakes) == ["web", "api"] or names(look(there).wakes) == ["api", "web"]
    assert names(look(there, resting=frozenset({"team/web"})).wakes) == ["api"]
    assert names(look(leaf(15, stuck, grows, asks=refused)).wakes) == ["api"], "the older one has the room"


def test_nobody_is_released_into_what_is_about_to_be_lowered() -> None:
    found = look(leaf(80, binding("web", 70, held=True)), leaf(0, binding("api", 50, held=True)))
    assert found.lowerings == {"a": {"cpu": 50_000}}
    assert found.releases == []


def test_what_others_suspended_asks_for_nothing_and_is_not_released() -> None:
    theirs = binding("web", 6, is_suspended=True)
    found = look(leaf(0, theirs), leaf(0))
    assert (found.raises, found.releases) == ({}, [])


def test_whoever_was_refused_a_release_rests_and_the_next_goes() -> None:
    first, second = binding("web", 6, held=True), binding("reports", 6, held=True)
    found = look(leaf(10, first, second), resting=frozenset({"team/web"}))
    assert names(found.releases) == ["reports"]


# Giving way


def test_a_leaf_gives_back_after_the_delay_and_the_least_important_first() -> None:
    over = leaf(50, running("low", 40), running("high", 40, priority=5))
    other = leaf(0, binding("api", 50, held=True))
    found = look(over, other, clock=100.0)
    assert (displaced(found), found.over_since, found.next_look) == ([], {"a": 100.0}, 160.0)
    found = look(over, other, clock=159.0, over_since={"a": 100.0})
    assert displaced(found) == []
    found = look(over, other, clock=160.0, over_since={"a": 100.0})
    assert displaced(found) == ["low"]
    assert "uses more cpu than it may" in found.displacements[0].reason


def test_a_leaf_that_is_within_its_runtime_again_starts_anew() -> None:
    assert look(leaf(50, running("low", 40)), clock=200.0, over_since={"a": 100.0}).over_since == {}


def test_what_is_going_anyway_is_not_displaced_and_nobody_in_its_place() -> None:
    over = leaf(50, running("low", 40), running("going", 40, is_deleting=True))
    assert displaced(look(over, clock=200.0, over_since={"a": 100.0})) == []


def test_where_nothing_is_to_be_taken_back_nothing_is() -> None:
    over = leaf(50, running("low", 80))
    seen = Situation(TWO, {"a": over}, Root(reclaims=False), NOW, 500.0, {"a": 1.0})
    assert plan(seen).displacements == []


def test_one_that_waits_displaces_those_of_its_leaf_that_matter_less() -> None:
    small = Tree.of([Node("a", max={"cpu": 10_000})], {"cpu": 100_000})
    there = leaf(10, running("low", 6), running("lower", 4, priority=-1), binding("high", 4, held=True, priority=9))
    found = look(there, tree=small)
    assert displaced(found) == ["lower"]
    assert "for team/high, which has a higher priority" in found.displacements[0].reason
    # Where more is about to be published for it, nobody has to go.
    assert displaced(look(there)) == []


def test_nobody_gives_way_to_a_reservation() -> None:
    """It may end by itself, or turn out to be of one that matters less than all who are there."""
    small = Tree.of([Node("a", max={"cpu": 10_000})], {"cpu": 100_000})
    high = binding("high", 4, held=True, priority=9)
    found = look(leaf(10, running("low", 6), high, more=4), tree=small)
    assert (names(found.releases), displaced(found)) == ([], [])
    # Beside what is stored there is too little room all the same: one makes way, and no more for the reservation.
    there = leaf(10, running("low", 6), running("lower", 4, priority=-1), high, more=4)
    assert displaced(look(there, tree=small)) == ["lower"]


def test_where_what_was_to_be_raised_is_gone_again_the_important_one_displaces_after_all() -> None:
    low = running("low", 4, capacity="in-quota")  # type: ignore[arg-type]
    there = leaf(4, low, binding("high", 4, held=True, priority=9))
    tree = Tree.of([Node("a", min={"cpu": 5_000}), Node("b", min={"cpu": 5_000})], {"cpu": 10_000})
    planner = Planner()
    first = Situation(tree, {"a": there, "b": leaf(0)}, ROOT, NOW)
    found = planner.plan(first)
    assert found.raises == {"a": {"cpu": 8_000}}
    assert displaced(found) == []
    # Meanwhile the other has used all the rest, which nobody expected; of this one nothing is other than it was.
    found = planner.plan(replace(first, leaves={"a": there, "b": leaf(0, more=6)}, touched=frozenset({"b"})))
    assert found.raises == {}
    assert displaced(found) == ["low"]


# Labels


def test_labels_are_written_where_they_are_others() -> None:
    small = Tree.of([Node("a", min={"cpu": 5_000})], {"cpu": 100_000})
    there = leaf(20, running("old", 4), running("young", 4), running("youngest", 4, capacity="over-quota"))  # type: ignore[arg-type]
    found = look(there, tree=small)
    assert [(one.key.name, label) for one, label in found.labels] == [("old", "in-quota"), ("young", "over-quota")]


def test_nothing_is_to_be_done_where_all_is_as_it_should_be() -> None:
    found = look(leaf(30, running("web", 30, capacity="in-quota")), leaf(0))  # type: ignore[arg-type]
    assert found.published == {}
    assert [found.releases, found.wakes, found.displacements, found.labels] == [[], [], [], []]
    assert found.hindered == {}
    assert found.next_look is None


# Trees that share by giving way

FAIR = Root(mode="FairShare")
THREE = Tree.of(
    [Node("a", min={"cpu": 40_000}), Node("b", min={"cpu": 10_000}), Node("c", min={"cpu": 30_000})], {"cpu": 100_000}
)


def fair(**leaves: Leaf) -> Plan:
    empty = {name: leaf(0) for name in "abc"}
    return plan(Situation(THREE, {**empty, **leaves}, FAIR, NOW))


def test_in_a_fair_tree_whoever_waits_is_granted_what_all_were_promised_and_no_more() -> None:
    found = fair(a=leaf(0, binding("web", 70, held=True), binding("reports", 20, held=True)))
    assert found.raises == {"a": {"cpu": 70_000}}
    found = fair(a=leaf(70, binding("web", 70, held=True), binding("reports", 20, held=True)))
    assert names(found.releases) == ["web"]


def test_in_a_fair_tree_what_is_beyond_a_min_gives_way_to_whoever_claims_its_own() -> None:
    inside = leaf(80, running("old", 40), running("young", 20), running("youngest", 20))
    found = fair(a=inside, c=leaf(0, binding("api", 15, held=True)))
    assert displaced(found) == ["youngest"]
    assert "for team/api of quota c" in found.displacements[0].reason
    found = fair(a=leaf(80, running("old", 40), running("young", 20)), c=leaf(0, binding("api", 15, held=True)))
    assert found.lowerings == {"a": {"cpu": 60_000}}
    found = fair(a=leaf(60, running("old", 40), running("young", 20)), c=leaf(0, binding("api", 15, held=True)))
    assert found.raises == {"c": {"cpu": 15_000}}
    assert found.standings["c"].guaranteed == {"cpu": 30_000 + 15_000}


def test_in_a_fair_tree_others_give_way_to_one_workload_at_a_time() -> None:
    inside = leaf(80, running("old", 40), running("young", 20), running("youngest", 20))
    first, second = binding("api", 15, held=True, priority=1), binding("batch", 10, held=True)
    found = fair(a=inside, b=leaf(0, second), c=leaf(0, first))
    assert displaced(found) == ["youngest"]
    assert "for team/api of quota c" in found.displacements[0].reason


def test_in_a_fair_tree_whoever_gave_way_does_not_take_the_place_again() -> None:
    """It is older than the one that it gave way to, and would come first."""
    own = leaf(40, running("a", 40), binding("newest", 10, held=True))
    gave_way = leaf(30, running("b", 30), binding("bb", 10, held=True))
    found = fair(a=own, b=gave_way)
    assert found.raises == {"a": {"cpu": 50_000}}
    found = fair(a=replace(own, published={"cpu": 50_000}), b=gave_way)
    assert names(found.releases) == ["newest"]


def test_in_a_fair_tree_what_is_freed_bit_by_bit_is_left_to_whoever_has_a_right_to_it() -> None:
    claims = leaf(0, binding("claims", 30, held=True))
    found = fair(a=leaf(60, running("a", 40), running("aa", 20)), b=leaf(0, binding("b", 20, held=True)), c=claims)
    assert displaced(found) == ["aa"]
    # 20 are free, and too few for the one: whoever could take them has no right to that much.
    assert found.raises == {}


# Limits of users and groups


def test_what_waits_for_somebodys_limit_takes_no_turn_and_nothing_is_kept_idle_for_it() -> None:
    anns, bobs = binding("anns", 80, held=True, priority=9), binding("bobs", 30, held=True)
    found = look(leaf(0, anns, bobs), leaf(0), limited={"team/anns": "her limit"})
    assert found.raises == {"a": {"cpu": 30_000}}
    found = look(leaf(100, anns, bobs), leaf(0), limited={"team/anns": "her limit"})
    assert names(found.releases) == ["bobs"]
    assert found.hindered == {}, "it is not for want of room, and displaces nobody"


def test_what_has_no_clusters_for_somebodys_limit_keeps_no_room() -> None:
    stuck = binding("stuck", 40, scheduled_reason="QuotaExceeded")
    other = binding("other", 40, held=True)
    found = look(leaf(40, stuck, other), leaf(0))
    assert (names(found.releases), names(found.wakes)) == ([], ["stuck"])
    asks = (Ask("team/stuck", some(60), LATER),)
    found = look(leaf(40, stuck, other, asks=asks), leaf(0), limited={"team/stuck": "a limit"})
    assert (names(found.releases), names(found.wakes)) == (["other"], [])
    assert found.raises == {}, "not even what it was refused for want of room is kept for it"


def test_where_giving_way_is_the_rule_nobody_gives_way_to_what_a_limit_keeps_back() -> None:
    held = binding("anns", 50, held=True)
    fair = replace(ROOT, mode="FairShare")
    seen = Situation(TWO, {"a": leaf(0, held), "b": leaf(100, running("much", 100))}, fair, NOW)
    b = replace(
        seen.leaves["b"], bindings=tuple(replace(one, stamp=Stamp(leaf="b")) for one in seen.leaves["b"].bindings)
    )
    seen = replace(seen, leaves={"a": seen.leaves["a"], "b": b})
    assert displaced(plan(seen)) == ["much"]
    assert displaced(plan(replace(seen, limited={"team/anns": "her limit"}))) == []


def test_a_planner_takes_in_that_a_limit_keeps_somebody_back_where_its_leaf_is_touched() -> None:
    planner, held = Planner(), binding("anns", 30, held=True)
    seen = Situation(TWO, {"a": leaf(0, held), "b": leaf(0)}, ROOT, NOW)
    assert planner.plan(seen).raises == {"a": {"cpu": 30_000}}
    back = planner.plan(replace(seen, limited={"team/anns": "her limit"}, touched=frozenset({"a"})))
    assert back.raises == {}
    assert planner.plan(replace(seen, touched=frozenset({"a"}))).raises == {"a": {"cpu": 30_000}}
