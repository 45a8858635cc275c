"""Runtimes: the documents' own examples, and what must hold of every tree."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation_quota.elastic.division import apportion, divide
from federation_quota.elastic.node import Node
from federation_quota.elastic.runtime import Runtimes
from federation_quota.elastic.tree import Tree
from tests.unit.elastic_trees import AMOUNTS, Requests, trees


def one(
    name: str, least: int, most: int | None = None, weight: int | None = None, parent: str = "", **more: bool
) -> Node:
    return Node(
        name,
        parent,
        {"cpu": least},
        {} if most is None else {"cpu": most},
        {} if weight is None else {"cpu": weight},
        **more,
    )


def cpu(tree: Tree, requests: dict[str, int]) -> dict[str, int]:
    runtimes = Runtimes(tree, {name: {"cpu": amount} for name, amount in requests.items()}).runtimes()
    return {name: amounts["cpu"] for name, amounts in runtimes.items()}


ABCD = [one("A", 10, 40), one("B", 15, 60), one("C", 20, 50), one("D", 15, 80)]
WANTED = {"A": 5, "B": 20, "C": 40, "D": 70}


# The worked examples of the documents


def test_a_hundred_are_shared_as_five_twenty_thirty_five_and_forty() -> None:
    assert cpu(Tree.of(ABCD, {"cpu": 100}), WANTED) == {"A": 5, "B": 20, "C": 35, "D": 40}


def test_the_first_round_of_that_example_and_what_b_returns() -> None:
    assert apportion(45, [60, 50, 80]) == [14, 12, 19]
    assert apportion(9, [50, 80]) == [3, 6]


def test_the_tree_of_the_figures() -> None:
    nodes = [
        one("A", 20, 100, is_parent=True),
        one("A-1", 10, 10, parent="A"),
        one("A-2", 10, 10, parent="A"),
        one("B", 80, 100, is_parent=True),
        one("B-1", 20, 40, parent="B"),
        one("B-2", 40, 70, parent="B"),
    ]
    runtimes = cpu(Tree.of(nodes, {"cpu": 100}), dict.fromkeys(("A-1", "A-2", "B-1", "B-2"), 100))
    assert runtimes == {"A": 20, "A-1": 10, "A-2": 10, "B": 80, "B-1": 27, "B-2": 53}


def test_what_was_lent_comes_back_when_it_is_wanted() -> None:
    tree = Tree.of([one("A", 50, 100), one("B", 50, 100)], {"cpu": 100})
    assert cpu(tree, {"A": 100}) == {"A": 100, "B": 0}
    assert cpu(tree, {"A": 100, "B": 100}) == {"A": 50, "B": 50}


# One thing each


def test_what_is_not_lent_stays_idle() -> None:
    tree = Tree.of([one("A", 40, 100), one("B", 60, 100, lends=False)], {"cpu": 100})
    assert cpu(tree, {"A": 100}) == {"A": 40, "B": 60}


def test_a_department_keeps_to_itself_what_its_teams_leave() -> None:
    nodes = [
        one("dept", 60, 100, is_parent=True, lends=False),
        one("dept-a", 30, 100, parent="dept"),
        one("dept-b", 30, 100, parent="dept"),
        one("other", 40, 100),
    ]
    assert cpu(Tree.of(nodes, {"cpu": 100}), {"dept-a": 100, "other": 100})["dept-a"] == 100 - 40
    assert cpu(Tree.of(nodes, {"cpu": 100}), {"other": 100})["other"] == 40


def test_mins_shrink_in_proportion_when_a_member_is_lost() -> None:
    runtimes = Runtimes(
        Tree.of([one("A", 60, 100), one("B", 40, 100)], {"cpu": 100}), {"A": {"cpu": 60}, "B": {"cpu": 40}}
    )
    assert runtimes.runtimes() == {"A": {"cpu": 60}, "B": {"cpu": 40}}
    runtimes.set_total({"cpu": 50})
    assert runtimes.runtimes() == {"A": {"cpu": 30}, "B": {"cpu": 20}}


def test_one_that_does_not_scale_keeps_its_min() -> None:
    tree = Tree.of([one("A", 60, 100, scales_min=False), one("B", 40, 100)], {"cpu": 80})
    assert cpu(tree, {"A": 60, "B": 40}) == {"A": 60, "B": 20}


def test_without_scaling_mins_are_promised_whatever_there_is() -> None:
    tree = Tree.of([one("A", 60, 100), one("B", 40, 100)], {"cpu": 50}, scales_min=False)
    assert cpu(tree, {"A": 60, "B": 40}) == {"A": 60, "B": 40}


def test_what_is_used_is_kept_where_the_tree_says_so() -> None:
    tree = Tree.of([one("A", 10, 100), one("B", 10, 100)], {"cpu": 100}, keeps_used=True)
    runtimes = Runtimes(tree, {"A": {"cpu": 90}, "B": {"cpu": 90}}, {"A": {"cpu": 80}})
    assert runtimes.runtime("A") == {"cpu": 85}
    assert runtimes.runtime("B") == {"cpu": 15}
    runtimes.use("A", {"cpu": 0})
    assert runtimes.runtime("A") == {"cpu": 50}


@pytest.mark.parametrize("weight", [{}, {"cpu": 0}, {"cpu": 0, "memory": 0}], ids=["none", "zero", "all zero"])
def test_a_weight_that_says_nothing_is_the_max(weight: dict[str, int]) -> None:
    nodes = [Node("A", max={"cpu": 30, "memory": 9}, weight=weight), Node("B", max={"cpu": 90, "memory": 9})]
    assert cpu(Tree.of(nodes, {"cpu": 40}), {"A": 90, "B": 90}) == {"A": 10, "B": 30}


def test_a_weight_of_zero_beside_others_gets_nothing_beyond_min() -> None:
    nodes = [Node("A", min={"cpu": 5}, max={"cpu": 30}, weight={"cpu": 0, "memory": 1}), one("B", 0, 90)]
    assert cpu(Tree.of(nodes, {"cpu": 40}), {"A": 30, "B": 10}) == {"A": 5, "B": 10}


def test_what_a_weight_leaves_out_weighs_as_max() -> None:
    nodes = [Node("A", max={"cpu": 30, "memory": 9}, weight={"memory": 1}), one("B", 0, 90)]
    assert cpu(Tree.of(nodes, {"cpu": 40}), {"A": 90, "B": 90}) == {"A": 10, "B": 30}


def test_without_a_max_there_is_no_limit_but_what_there_is() -> None:
    tree = Tree.of([one("A", 10), one("B", 10, 100)], {"cpu": 100})
    assert cpu(tree, {"A": 10**9}) == {"A": 100, "B": 0}
    assert cpu(tree, {"A": 10**9, "B": 10**9}) == {"A": 50, "B": 50}


def test_a_leaf_does_not_limit_what_it_does_not_name() -> None:
    nodes = [Node("A", min={"cpu": 1}), Node("B", min={"memory": 1})]
    runtimes = Runtimes(Tree.of(nodes, {"cpu": 10, "memory": 10}), {"A": {"cpu": 5, "memory": 5}})
    assert runtimes.runtimes() == {"A": {"cpu": 5}, "B": {"memory": 0}}


def test_a_parent_lets_through_what_it_does_not_name() -> None:
    nodes = [Node("P", min={"cpu": 1}, is_parent=True), Node("A", "P", max={"cpu": 9, "gpu": 4})]
    runtimes = Runtimes(Tree.of(nodes, {"cpu": 10, "gpu": 3}), {"A": {"cpu": 9, "gpu": 4}})
    assert runtimes.runtime("A") == {"cpu": 9, "gpu": 3}


def test_ties_go_to_the_first_name() -> None:
    assert cpu(Tree.of([one("b", 0, 9), one("a", 0, 9)], {"cpu": 1}), {"a": 9, "b": 9}) == {"a": 1, "b": 0}


def test_what_hangs_on_no_root_is_left_out_and_said() -> None:
    nodes = [one("a", 1, 9), one("lost", 1, 9, parent="nobody"), one("x", 1, 9, parent="y"), one("y", 1, 9, parent="x")]
    tree = Tree.of(nodes, {"cpu": 10})
    assert tree.detached == {"lost", "x", "y"}
    assert cpu(tree, {"a": 9}) == {"a": 9}


def test_standing_tells_what_is_borrowed_and_what_is_lent() -> None:
    runtimes = Runtimes(
        Tree.of([one("A", 50, 100), one("B", 50, 100)], {"cpu": 100}), {"A": {"cpu": 80}, "B": {"cpu": 5}}
    )
    assert runtimes.standing("A").borrowed == {"cpu": 30}
    assert runtimes.standing("B").lent == {"cpu": 45}
    assert runtimes.standing("B").borrowed == runtimes.standing("A").lent == {"cpu": 0}


def test_settling_names_whom_a_change_touched_and_nobody_else() -> None:
    nodes = [
        one("p", 50, 60, is_parent=True),
        one("p-a", 10, 60, parent="p"),
        one("p-b", 10, 60, parent="p"),
        one("q", 9, 20),
    ]
    runtimes = Runtimes(Tree.of(nodes, {"cpu": 100}), {"p-a": {"cpu": 20}, "p-b": {"cpu": 20}, "q": {"cpu": 5}})
    assert runtimes.settle() == set()
    runtimes.ask("p-a", {"cpu": 25})
    assert runtimes.settle() == {"p", "p-a"}
    runtimes.ask("p-a", {"cpu": 25})
    assert runtimes.settle() == set()


# What must hold of every tree


def children_of(tree: Tree, name: str) -> list[Node]:
    return [tree.nodes[child] for child in tree.children(name)]


@given(trees())
def test_nobody_gets_more_than_there_is_unless_mins_that_do_not_scale_do(given_tree: tuple[Tree, Requests]) -> None:
    tree, requests = given_tree
    runtimes = Runtimes(tree, requests)
    for parent in ["", *(name for name, node in tree.nodes.items() if node.is_parent)]:
        for resource, there in (tree.total if not parent else runtimes.runtime(parent)).items():
            standings = [runtimes.standing(child.name) for child in children_of(tree, parent)]
            if sum(standing.min[resource] for standing in standings) <= there:
                assert sum(standing.runtime[resource] for standing in standings) <= there


@given(trees())
def test_what_is_within_the_kept_min_is_always_granted(given_tree: tuple[Tree, Requests]) -> None:
    tree, requests = given_tree
    runtimes = Runtimes(tree, requests)
    for name in tree.leaves():
        standing = runtimes.standing(name)
        for resource, asked in requests[name].items():
            assert standing.runtime[resource] >= min(asked, standing.min[resource])


@given(trees())
def test_nobody_gets_more_than_its_max_or_than_it_asks_for(given_tree: tuple[Tree, Requests]) -> None:
    tree, requests = given_tree
    runtimes = Runtimes(tree, requests)
    for name, node in tree.nodes.items():
        standing = runtimes.standing(name)
        for resource, amount in standing.runtime.items():
            assert amount <= node.max.get(resource, amount)
            assert amount <= standing.request[resource]


@given(trees())
def test_nothing_is_left_while_somebody_who_weighs_anything_is_hungry(given_tree: tuple[Tree, Requests]) -> None:
    tree, requests = given_tree
    runtimes = Runtimes(tree, requests)
    for parent in ["", *(name for name, node in tree.nodes.items() if node.is_parent)]:
        for resource, there in (tree.total if not parent else runtimes.runtime(parent)).items():
            children = children_of(tree, parent)
            standings = {child.name: runtimes.standing(child.name) for child in children}
            is_hungry = any(
                standings[child.name].runtime[resource] < standings[child.name].passed_up[resource]
                and child.weight_of(resource) != 0
                for child in children
            )
            if is_hungry and there:
                assert sum(standing.runtime[resource] for standing in standings.values()) >= there


@given(trees(), st.randoms(use_true_random=False))
def test_names_matter_for_ties_alone(given_tree: tuple[Tree, Requests], chance: random.Random) -> None:
    """Names that are exchanged within siblings move what each gets by less than one step per round and level."""
    tree, requests = given_tree
    names = sorted(tree.nodes)
    shuffled = list(names)
    chance.shuffle(shuffled)
    new = {"": "", **dict(zip(names, (f"n{place}" for place in shuffled), strict=True))}
    renamed = Tree.of(
        [replace(node, name=new[name], parent=new[node.parent]) for name, node in tree.nodes.items()], tree.total
    )
    before = Runtimes(tree, requests)
    after = Runtimes(renamed, {new[name]: asked for name, asked in requests.items()})
    first_level = [name for name in names if not tree.nodes[name].parent]
    for resource in tree.resources:
        old = sum(before.runtime(name)[resource] for name in first_level)
        assert old == sum(after.runtime(new[name])[resource] for name in first_level)
        rounds = len(first_level)
        for name in first_level:
            assert abs(before.runtime(name)[resource] - after.runtime(new[name])[resource]) <= rounds


@given(trees(), st.data())
def test_one_change_at_a_time_comes_to_the_same_as_from_scratch(
    given_tree: tuple[Tree, Requests], data: st.DataObject
) -> None:
    tree, requests = given_tree
    runtimes = Runtimes(tree, requests)
    for _ in range(data.draw(st.integers(1, 6))):
        amounts = {"cpu": data.draw(AMOUNTS), "memory": data.draw(AMOUNTS)}
        if data.draw(st.integers(0, 3)):
            leaf = data.draw(st.sampled_from(tree.leaves()))
            requests = {**requests, leaf: amounts}
            runtimes.ask(leaf, amounts)
        else:
            tree = replace(tree, total={name: 5 * amount for name, amount in amounts.items()})
            runtimes.set_total(tree.total)
        scratch = Runtimes(tree, requests)
        # Only one is asked about at first, or nobody: what is put off must come right later.
        for name in data.draw(st.lists(st.sampled_from(sorted(tree.nodes)), max_size=2)):
            assert runtimes.standing(name) == scratch.standing(name)
        if data.draw(st.booleans()):
            assert runtimes.runtimes() == scratch.runtimes()
    scratch = Runtimes(tree, requests)
    assert all(runtimes.standing(name) == scratch.standing(name) for name in tree.nodes)


def test_one_that_wants_less_than_it_got_gives_the_rest_to_the_others() -> None:
    runtimes = Runtimes(Tree.of([one("A", 0, 90), one("B", 0, 90)], {"cpu": 40}), {"A": {"cpu": 90}, "B": {"cpu": 90}})
    assert runtimes.runtimes() == {"A": {"cpu": 20}, "B": {"cpu": 20}}
    runtimes.ask("A", {"cpu": 50})
    assert runtimes.settle() == set()
    runtimes.ask("A", {"cpu": 5})
    assert runtimes.runtime("B") == {"cpu": 35}


def test_the_weight_of_what_has_no_max_follows_what_there_is() -> None:
    nodes = [one("P", 40, 40, is_parent=True), one("P-a", 0, parent="P"), one("P-b", 0, 100, parent="P")]
    runtimes = Runtimes(Tree.of(nodes, {"cpu": 100}), {"P-a": {"cpu": 99}, "P-b": {"cpu": 99}})
    assert runtimes.runtime("P-a") == {"cpu": 20}
    runtimes.set_total({"cpu": 300})
    assert runtimes.runtime("P") == {"cpu": 40}
    assert runtimes.runtime("P-a") == {"cpu": 30}


@given(trees(), st.data())
def test_what_is_kept_changes_one_at_a_time_as_from_scratch_too(
    given_tree: tuple[Tree, Requests], data: st.DataObject
) -> None:
    tree = replace(given_tree[0], keeps_used=True)
    requests = given_tree[1]
    runtimes = Runtimes(tree, requests)
    used = {name: {"cpu": data.draw(AMOUNTS), "memory": data.draw(AMOUNTS)} for name in tree.leaves()}
    for name in data.draw(st.permutations(tree.leaves())):
        runtimes.use(name, {"cpu": data.draw(AMOUNTS), "memory": 0})
        runtimes.runtime(name)
        runtimes.use(name, used[name])
    assert runtimes.runtimes() == Runtimes(tree, requests, used).runtimes()


@given(st.integers(0, 10**6), st.lists(st.integers(1, 10**6), min_size=1, max_size=9))
def test_apportioning_adds_up_and_nobody_is_off_by_a_whole_step(total: int, weights: list[int]) -> None:
    shares = apportion(total, weights)
    assert sum(shares) == total
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share * sum(weights) - total * weight) < sum(weights)


@given(st.integers(0, 99), st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, st.booleans()), min_size=1, max_size=5))
def test_weights_count_by_proportion_alone(total: int, siblings: list[tuple[int, int, int, bool]]) -> None:
    mins, wants, weights, lends = (list(column) for column in zip(*siblings, strict=True))
    assert divide(total, mins, wants, weights, lends) == divide(total, mins, wants, [7 * w for w in weights], lends)
    assert divide(total, mins, wants, weights) == divide(total, mins, wants, weights, [True] * len(mins))
