"""What runs of each leaf: counted for the right one, and kept for as long as nobody can look."""

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.elastic import running, status
from federation_quota.elastic.node import Node
from federation_quota.elastic.running import InCluster, Running, Sight
from federation_quota.elastic.runtime import Runtimes
from federation_quota.elastic.status import Figures
from federation_quota.elastic.tree import Tree
from federation_quota.pod import Footprint, Workload
from federation_quota.resources import NOTHING, Resources


def some(cpu: int) -> Resources:
    return Resources.parse({"cpu": cpu})


def sort(cpu: int, name: str = "", *, is_running: bool = True) -> Footprint:
    return Footprint(some(cpu), "", Workload("Deployment", name) if name else None, is_running)


def leaf_of(workload: Workload | None) -> str:
    return {"web": "gold", "none": ""}.get(workload.name, "own") if workload else "own"


def test_pods_count_for_their_bindings_leaf_and_strays_for_the_namespaces_own() -> None:
    found = Running()
    pods = {"m1": {sort(2, "web"): 3, sort(1): 1, sort(9, "none"): 1}, "m2": {sort(2, "web"): 1}}
    assert found.count("a", pods, leaf_of) == {"gold", "own"}
    assert found.of("gold") == {"m1": some(6), "m2": some(2)}
    assert found.of("own") == {"m1": some(1)}
    assert found.count("a", pods, leaf_of) == set(), "nothing is other than it was"


def test_what_has_not_started_does_not_run() -> None:
    found = Running()
    assert found.count("a", {"m1": {sort(2, is_running=False): 3}}, leaf_of) == set()
    assert found.of("own") == {}


PODS = st.dictionaries(
    st.sampled_from(["m1", "m2"]),
    st.dictionaries(st.sampled_from([sort(1), sort(2, "web"), sort(4, "none")]), st.integers(1, 3)),
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), PODS), max_size=8))
def test_whatever_comes_and_goes_the_sums_are_those_of_the_pods_there(
    events: list[tuple[str, dict[str, dict[Footprint, int]]]],
) -> None:
    found = Running()
    there: dict[str, dict[str, dict[Footprint, int]]] = {}
    for namespace, pods in events:
        before = {leaf: found.of(leaf) for leaf in ("gold", "own")}
        changed = found.count(namespace, pods, leaf_of)
        there[namespace] = pods
        scratch = Running()
        for name, present in there.items():
            scratch.count(name, present, leaf_of)
        after = {leaf: found.of(leaf) for leaf in ("gold", "own")}
        assert after == {leaf: scratch.of(leaf) for leaf in ("gold", "own")}
        assert {leaf for leaf in after if after[leaf] != before[leaf]} <= changed


def test_a_member_out_of_reach_keeps_what_was_seen_and_one_never_seen_says_nothing() -> None:
    lost = Sight("m2", problem="no route", last_seen="2026-01-01T00:00:00Z")
    found = running.compile_figures([Sight("m1"), lost], {"m1": some(1), "m2": some(2)}, {})
    assert found == (InCluster("m1", some(1)), InCluster("m2", some(2), is_stale=True, last_seen=lost.last_seen))
    assert running.total(found) == some(3)
    never = Sight("m3", is_seen=False, problem="no route")
    assert running.compile_figures([never], {}, {}) == ()


def test_a_new_leader_that_cannot_reach_a_member_says_what_was_said_before() -> None:
    never = Sight("m2", is_seen=False, problem="no route")
    before = running.read(
        {"clusters": [{"name": "m2", "running": {"cpu": "2"}}, {"name": "m3", "running": {"cpu": "x"}}]}
    )
    assert before == {"m2": InCluster("m2", some(2))}
    found = running.compile_figures([Sight("m1"), never], {"m1": some(1)}, before)
    assert found == (InCluster("m1", some(1)), InCluster("m2", some(2), is_stale=True))
    assert running.compile_figures([Sight("m1")], {"m1": some(1)}, before) == (InCluster("m1", some(1)),), "it has left"


def test_a_status_says_what_runs_and_where_of_what_pods_can_use() -> None:
    node = Node("A", min={"cpu": 20_000, "count/services": 5})
    runtimes = Runtimes(
        Tree.of([node], {"cpu": 100_000, "count/services": 9}), {"A": {"cpu": 9000, "count/services": 2}}
    )
    clusters = (InCluster("m1", some(2)), InCluster("m2", some(1), is_stale=True), InCluster("m3", NOTHING))
    figures = Figures({"cpu": 9000}, {"cpu": 3000}, clusters)
    written = status.write(runtimes.standing("A"), runtimes.runtime("A"), figures, 1)
    assert written["running"] == {"cpu": "3"}
    assert written["runningSummary"] == "cpu: 3"
    assert written["clusters"] == [
        {"name": "m1", "running": {"cpu": "2"}},
        {"name": "m2", "running": {"cpu": "1"}, "stale": True},
    ]
    assert running.read(written)["m2"].is_stale
