"""Publishing runtimes: whatever is written when, siblings never may admit more than their parent has."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from federation_quota.elastic import publication
from federation_quota.elastic.node import Node
from federation_quota.elastic.publication import Stored
from federation_quota.elastic.runtime import Runtimes
from federation_quota.elastic.tree import Tree
from tests.unit.elastic_trees import AMOUNTS, Requests, trees

Table = dict[str, dict[str, int]]


def two(**more: int) -> Tree:
    return Tree.of([Node("A", min={"cpu": 50}), Node("B", min={"cpu": 50})], {"cpu": 100, **more})


def test_what_one_loses_is_written_before_another_gets_it() -> None:
    wanted = {"A": {"cpu": 50}, "B": {"cpu": 50}}
    stored = {"A": Stored({"cpu": 100}), "B": Stored({"cpu": 0})}
    assert publication.lowerings(wanted, stored) == {"A": {"cpu": 50}}
    assert publication.raises(two(), wanted, stored) == {}
    stored["A"] = Stored({"cpu": 50})
    assert publication.lowerings(wanted, stored) == {}
    assert publication.raises(two(), wanted, stored) == {"B": {"cpu": 50}}


def test_what_is_used_is_not_given_away_before_it_is_given_back() -> None:
    wanted = {"A": {"cpu": 50}, "B": {"cpu": 50}}
    stored = {"A": Stored({"cpu": 50}, {"cpu": 80}), "B": Stored({"cpu": 0})}
    assert publication.raises(two(), wanted, stored) == {"B": {"cpu": 20}}
    stored["A"] = Stored({"cpu": 50}, {"cpu": 60})
    assert publication.raises(two(), wanted, stored) == {"B": {"cpu": 40}}


def test_a_lowering_raises_nothing_of_the_same_quota() -> None:
    wanted = {"A": {"cpu": 10, "memory": 90}}
    assert publication.lowerings(wanted, {"A": Stored({"cpu": 20, "memory": 30})}) == {"A": {"cpu": 10, "memory": 30}}


def test_within_a_department_no_more_is_published_than_it_has() -> None:
    nodes = [Node("P", min={"cpu": 10}, is_parent=True), Node("x", "P"), Node("y", "P")]
    tree = Tree.of([replace(node, max={"cpu": 99}) for node in nodes], {"cpu": 100})
    wanted = {"P": {"cpu": 20}, "x": {"cpu": 10}, "y": {"cpu": 10}}
    stored = {"x": Stored({"cpu": 0}, {"cpu": 15}), "y": Stored()}
    assert publication.raises(tree, wanted, stored) == {"x": {"cpu": 10}, "y": {"cpu": 5}}


def below(tree: Tree, name: str) -> list[str]:
    return [leaf for leaf in tree.leaves() if not name or name in tree.ancestors(leaf)]


def ceilings(tree: Tree, stored: dict[str, Stored], name: str, resource: str) -> int:
    return sum(stored[leaf].ceiling(resource) for leaf in below(tree, name))


@given(trees(), st.data())
def test_no_order_of_writes_lets_siblings_admit_more_than_their_parent_has(
    given_tree: tuple[Tree, Requests], data: st.DataObject
) -> None:
    tree, requests = given_tree
    stored = {name: Stored() for name in tree.leaves()}
    parents = ["", *(name for name, node in tree.nodes.items() if node.is_parent)]
    runtimes = Runtimes(tree, requests)

    def carry_out(plan: Table, wanted: Table) -> None:
        """Some of what is planned, in any order, while workloads come and go."""
        for name in data.draw(st.permutations(sorted(plan))):
            for leaf in data.draw(st.lists(st.sampled_from(tree.leaves()), max_size=2)):
                # A leaf admits up to what is published for it, whenever it likes; and what is over only goes.
                has = stored[leaf]
                resource = data.draw(st.sampled_from(tree.resources))
                most = max(has.published.get(resource, 0), has.taken.get(resource, 0))
                taken = {**has.taken, resource: data.draw(st.integers(0, most))}
                if taken[resource] <= has.taken.get(resource, 0) or taken[resource] <= has.published.get(resource, 0):
                    stored[leaf] = Stored(has.published, taken)
            if data.draw(st.integers(0, 4)):
                before = {
                    (parent, resource): ceilings(tree, stored, parent, resource)
                    for parent in parents
                    for resource in tree.resources
                }
                stored[name] = replace(stored[name], published=plan[name])
                for (parent, resource), old in before.items():
                    there = tree.total[resource] if not parent else wanted[parent][resource]
                    assert ceilings(tree, stored, parent, resource) <= max(old, there), (parent, resource)

    for _ in range(data.draw(st.integers(1, 4))):
        leaf = data.draw(st.sampled_from(tree.leaves()))
        runtimes.ask(leaf, {"cpu": data.draw(AMOUNTS), "memory": data.draw(AMOUNTS)})
        wanted = runtimes.runtimes()
        carry_out(publication.lowerings({name: wanted[name] for name in tree.leaves()}, stored), wanted)
        carry_out(publication.raises(tree, wanted, stored), wanted)
        for resource in tree.resources:
            assert ceilings(tree, stored, "", resource) <= tree.total[resource]


@given(trees(), st.data())
def test_in_the_end_everything_is_published(given_tree: tuple[Tree, Requests], data: st.DataObject) -> None:
    given_nodes, requests = given_tree
    tree = Tree.of([replace(node, scales_min=True) for node in given_nodes.nodes.values()], given_nodes.total)
    wanted = Runtimes(tree, requests).runtimes()
    leaves = {name: wanted[name] for name in tree.leaves()}
    stored = {name: Stored({resource: data.draw(AMOUNTS) for resource in tree.resources}) for name in tree.leaves()}
    for name, new in publication.lowerings(leaves, stored).items():
        stored[name] = Stored(new)
    for name, new in publication.raises(tree, wanted, stored).items():
        stored[name] = Stored(new)
    assert {name: leaf.published for name, leaf in stored.items()} == leaves
    assert publication.lowerings(leaves, stored) == publication.raises(tree, wanted, stored) == {}
