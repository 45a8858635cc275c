"""What was let through counts until it is seen, or can no longer come; whichever of it comes."""

from dataclasses import replace

import pytest

from federation_quota.elastic.forest import Root
from federation_quota.elastic.node import Node
from federation_quota.elastic.quota import COMPOSITE, ELASTIC, Quota
from federation_quota.elastic.underway import (
    TREE,
    Change,
    Identity,
    Underway,
    UnderwayError,
    carry_out,
    read,
    worlds,
)

MINE = {"min": {"cpu": 2}}


def change(name: str = "q", kind: str = COMPOSITE, *, uid: str = "u", generation: int = 1, **spec: object) -> Change:
    return Change(f"id-{name}", kind, name, Identity(uid, generation), spec or None)


def test_a_creation_is_seen_when_it_is_stored() -> None:
    made = change(min={"cpu": 2})
    assert not made.is_seen(None, 9)
    assert made.is_seen(Identity("u", 1), 9)
    assert not made.is_seen(Identity("earlier", 7), 9), "one of the same name, which a view behind has yet to see go"


def test_a_change_is_seen_when_its_generation_is() -> None:
    changed = change(generation=5, min={"cpu": 2})
    assert not changed.is_seen(Identity("u", 4), 9), "a status was written meanwhile"
    assert changed.is_seen(Identity("u", 6), 9)


def test_a_deletion_is_seen_when_the_object_is_gone_or_another() -> None:
    gone = replace(change(), version=7)
    assert not gone.is_seen(Identity("u", 1), 8)
    assert gone.is_seen(None, 8)
    assert gone.is_seen(Identity("v", 1), 8)


def test_a_deletion_is_not_seen_by_a_view_that_does_not_know_the_object_yet() -> None:
    gone = replace(change(), version=7)
    assert not gone.is_seen(None, 6)
    assert not gone.is_seen(Identity("earlier", 1), 6)


def test_what_may_come_is_looked_at_in_every_way_and_first_as_if_nothing_came() -> None:
    a, b = change("a", min={"cpu": 2}), change("b")
    assert list(worlds([a, b])) == [(), (a,), (b,), (a, b)]


def test_what_comes_is_carried_out_on_quotas_and_trees() -> None:
    used = Quota(Node("a"), COMPOSITE, used={"cpu": 1000}, is_occupied=True)
    changes = [
        change("a", min={"cpu": 2}),
        change("b"),
        change("team/q", ELASTIC, parent="a"),
        change("gpus", TREE, mode="FairShare"),
        change("old", TREE),
    ]
    found, roots = carry_out(changes, {"a": used, "b": Quota(Node("b"))}, {"old": Root("old")})
    assert set(found) == {"a", "team/q"}
    assert found["a"].node.min == {"cpu": 2000}
    assert (found["a"].used, found["a"].is_occupied) == ({"cpu": 1000}, True), "what it uses is not in the change"
    assert (found["team/q"].kind, found["team/q"].node.parent) == (ELASTIC, "a")
    assert roots == {"gpus": Root("gpus", mode="FairShare")}


def test_of_two_changes_to_one_the_later_counts() -> None:
    found, _ = carry_out([change(min={"cpu": 1}), change(min={"cpu": 3})], {}, {})
    assert found["q"].node.min == {"cpu": 3000}


def test_whoever_strikes_one_off_says_how_far_they_had_come() -> None:
    known = Underway((change("a", min={"cpu": 2}), change("t", TREE)), {ELASTIC: 3})
    versions = {ELASTIC: 9, COMPOSITE: 8, TREE: 7}
    struck = known.without({"id-a"}, versions)
    assert [one.name for one in struck.changes] == ["t"]
    assert struck.observed == {ELASTIC: 3, COMPOSITE: 8}
    assert struck.without({"id-t"}, versions).observed == {ELASTIC: 3, COMPOSITE: 8, TREE: 7}


def test_a_store_that_was_restored_is_not_waited_for_for_ever() -> None:
    assert Underway((), {TREE: 900}).without((), {TREE: 7}).observed == {TREE: 7}


def test_the_list_is_read_as_it_was_written() -> None:
    deletion = replace(change("b"), version=7)
    known = Underway((change("a", generation=4, min={"cpu": 2}), deletion), {COMPOSITE: 12}).with_change(
        change("t", TREE)
    )
    assert read(known.write()) == known
    assert read(known.write().replace(',"version":7', "")).changes[1].version == 0, "as an earlier release writes it"
    assert read("") == Underway()


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"changes": [{}], "observed": {}}', '{"changes": []}', "null"])
def test_what_is_no_list_is_said(text: str) -> None:
    with pytest.raises(UnderwayError):
        read(text)
