"""A view's entries, tombstones and running totals, whatever events come, how often and in which order."""

from collections.abc import Mapping

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from federation_quota.ledger import view as view_module
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.lens import Lens
from federation_quota.ledger.view import Entry, Tombstone, View
from federation_quota.quantity import ZERO, Quantity
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import EVERYTHING
from tests.budget import scaled
from tests.unit.accounts import CLAIMS, RESOURCES, SELECTORS, claim, of_class

Key = tuple[str, str]
Event = tuple[int, Key, str, Entry | None]  # version, binding, uid, what was stored or None where it was deleted

KEYS = [(namespace, name) for namespace in ("a", "b") for name in ("x", "y", "z")]
LENSES = st.builds(Lens, SELECTORS, st.frozensets(st.sampled_from(RESOURCES), min_size=1))
CPU = Lens(EVERYTHING, frozenset({"cpu"}))


def recomputed(entries: Mapping[Key, Entry], namespace: str, lens: Lens) -> Resources:
    """What a namespace costs, by definition: nothing of the product's sums is used."""
    total: dict[str, Quantity] = {}
    for (where, _), entry in entries.items():
        if where == namespace and lens.selector.matches(entry.claim.priority_class):
            for name, amount in entry.claim.charge.items():
                is_counted = name in lens.names and (lens.selector.counts_objects or not name.startswith("count/"))
                total[name] = total.get(name, ZERO) + (amount if is_counted else ZERO)
    return Resources(total)


def feed(view: View, event: Event) -> None:
    version, (namespace, name), uid, entry = event
    if entry is None:
        view.delete(namespace, name, uid, version)
    else:
        view.upsert(namespace, name, entry)


class Watching(RuleBasedStateMachine):
    """A store with a history, and a view that is fed from it: late, again, in any order, and by lists."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.version = 0
        self.stored: dict[Key, Entry] = {}
        self.delivered: list[Event] = []
        self.pending: list[Event] = []
        self.listed: dict[Key, Entry] = {}  # by the last list
        self.listed_at = 0
        self.reached = 0
        self.lenses: list[Lens] = []

    @initialize(lens=LENSES)
    def look_through(self, lens: Lens) -> None:
        self.lenses.append(lens)

    @rule(lens=LENSES)
    def look_through_another(self, lens: Lens) -> None:
        self.lenses.append(lens)

    @rule(key=st.sampled_from(KEYS), claimed=CLAIMS, fault=st.sampled_from(["", "", "cannot be read"]))
    def store(self, key: Key, claimed: Claim, fault: str) -> None:
        self.version += 1
        known = self.stored.get(key)
        uid = known.uid if known else f"uid{self.version}"
        self.stored[key] = Entry(uid, self.version, claimed, fault)
        self.pending.append((self.version, key, uid, self.stored[key]))

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.version += 1
        key = data.draw(st.sampled_from(sorted(self.stored)))
        self.pending.append((self.version, key, self.stored.pop(key).uid, None))

    @precondition(lambda self: self.pending)
    @rule()
    def see_all_in_order(self) -> None:
        for event in self.pending:
            self.see(event)
        self.pending.clear()

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def see_one_out_of_order(self, data: st.DataObject) -> None:
        self.see(self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1))))

    def see(self, event: Event) -> None:
        feed(self.view, event)
        self.delivered.append(event)
        self.reached = max(self.reached, event[0])

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def see_again(self, data: st.DataObject) -> None:
        """What was seen before changes nothing, whichever of it comes again."""
        before = self.everything()
        for event in data.draw(st.lists(st.sampled_from(self.delivered), min_size=1, max_size=5)):
            feed(self.view, event)
        assert self.everything() == before

    @rule()
    def list_everything(self) -> None:
        entries = [(*key, entry) for key, entry in self.stored.items()]
        self.view.replace(entries, self.version)
        self.listed, self.listed_at, self.reached = dict(self.stored), self.version, self.version
        # All of it is in the list: the watch goes on after it, and what is older may only come again.
        self.delivered += self.pending
        self.pending.clear()

    @rule(ahead=st.integers(0, 3))
    def see_a_bookmark(self, ahead: int) -> None:
        if not self.pending:
            self.version += ahead
            self.reached = max(self.reached, self.version)
            self.view.reach(self.version)

    def expected(self) -> dict[Key, Entry]:
        """Of each binding the newest that was shown, by the last list or since."""
        entries = dict(self.listed)
        newest: dict[Key, int] = {}
        for version, key, _, entry in self.delivered:
            if version > max(self.listed_at, newest.get(key, 0)):
                newest[key] = version
                entries.pop(key, None)
                if entry is not None:
                    entries[key] = entry
        return entries

    def everything(self) -> object:
        return (
            {(namespace, name): self.view.get(namespace, name) for namespace, name in KEYS},
            {(namespace, name): self.view.tombstone(namespace, name) for namespace, name in KEYS},
            {(where, lens): self.view.spent(where, lens) for where in ("a", "b") for lens in self.lenses},
            {where: dict(self.view.faults(where)) for where in ("a", "b")},
            sorted(self.view.namespaces()),
            self.view.version,
        )

    @invariant()
    def it_shows_the_newest(self) -> None:
        expected = self.expected()
        for namespace, name in KEYS:
            assert self.view.get(namespace, name) == expected.get((namespace, name))
        for where in ("a", "b"):
            here = {name: entry for (namespace, name), entry in expected.items() if namespace == where}
            assert dict(self.view.entries(where)) == here
            assert self.view.faults(where) == {name: entry.fault for name, entry in here.items() if entry.fault}
            assert self.view.newest(where) == max((entry.version for entry in here.values()), default=0)
        assert set(self.view.namespaces()) == {namespace for namespace, _ in expected}
        assert self.view.version == self.reached

    @invariant()
    def totals_are_what_a_recount_gives(self) -> None:
        expected = self.expected()
        for namespace in ("a", "b"):
            for lens in self.lenses:
                assert self.view.spent(namespace, lens) == recomputed(expected, namespace, lens)

    @invariant()
    def tombstones_are_of_the_latest_deletion(self) -> None:
        for key in KEYS:
            deletions = [(version, uid) for version, where, uid, gone in self.delivered if where == key and not gone]
            tombstone = self.view.tombstone(*key)
            if tombstone is not None:
                assert (tombstone.version, tombstone.uid) in deletions
                assert all(version <= tombstone.version for version, _ in deletions if version > self.listed_at)


TestWatching = Watching.TestCase
TestWatching.settings = settings(max_examples=scaled(15), stateful_step_count=30, deadline=None)


def test_an_empty_view_has_spent_nothing() -> None:
    view = View()
    assert view.spent("a", CPU) == NOTHING
    assert (view.version, view.namespaces(), dict(view.entries("a")), view.newest("a")) == (0, [], {}, 0)
    assert view.get("a", "x") is None
    assert view.tombstone("a", "x") is None


def test_an_event_of_another_binding_keeps_the_rest() -> None:
    view = View()
    view.upsert("a", "x", Entry("1", 1, claim(3)))
    view.upsert("a", "y", Entry("2", 2, claim(4)))
    assert view.spent("a", CPU)["cpu"] == Resources.parse({"cpu": 7})["cpu"]
    view.delete("a", "x", "1", 3)
    assert view.spent("a", CPU) == Resources.parse({"cpu": 4})
    assert view.tombstone("a", "x") == Tombstone("1", 3)
    view.upsert("b", "x", Entry("3", 4, claim(5)))
    assert view.spent("a", CPU) == Resources.parse({"cpu": 4})
    assert sorted(view.namespaces()) == ["a", "b"]


def test_an_older_event_never_replaces_a_newer_one() -> None:
    view = View()
    view.upsert("a", "x", Entry("1", 5, claim(3)))
    view.upsert("a", "x", Entry("1", 4, claim(9)))
    view.delete("a", "x", "0", 3)
    assert view.get("a", "x") == Entry("1", 5, claim(3))
    assert view.version == 5
    view.delete("a", "x", "1", 8)
    view.upsert("a", "x", Entry("1", 7, claim(9)))
    assert view.get("a", "x") is None
    assert view.namespaces() == []
    view.upsert("a", "x", Entry("2", 9, claim(1)))
    assert view.spent("a", CPU) == Resources.parse({"cpu": 1})


def test_an_older_deletion_does_not_hide_the_latest() -> None:
    view = View()
    view.delete("a", "x", "2", 8)
    view.delete("a", "x", "1", 4)
    assert view.tombstone("a", "x") == Tombstone("2", 8)
    view.upsert("a", "x", Entry("2", 6, claim(1)))
    assert view.get("a", "x") is None


def test_what_a_list_does_not_name_is_gone_and_old_news_do_not_bring_it_back() -> None:
    view = View()
    view.upsert("a", "x", Entry("1", 5, claim(3)))
    view.upsert("a", "y", Entry("2", 6, claim(4)))
    view.replace([("a", "y", Entry("2", 9, claim(1)))], 12)
    assert view.spent("a", CPU) == Resources.parse({"cpu": 1})
    assert view.tombstone("a", "x") is None  # when it went is not known
    view.upsert("a", "x", Entry("1", 5, claim(3)))
    view.upsert("a", "y", Entry("2", 6, claim(4)))
    assert view.spent("a", CPU) == Resources.parse({"cpu": 1})
    assert view.version == 12


def test_a_list_of_a_store_that_went_back_is_what_is_true() -> None:
    view = View()
    view.upsert("a", "x", Entry("1", 50, claim(3)))
    view.delete("a", "y", "2", 60)
    view.delete("a", "z", "3", 20)
    view.replace([("a", "x", Entry("1", 10, claim(1)))], 30)
    assert view.version == 30
    assert view.get("a", "x") == Entry("1", 10, claim(1))
    assert view.tombstone("a", "y") is None
    assert view.tombstone("a", "z") == Tombstone("3", 20)
    view.upsert("a", "y", Entry("4", 31, claim(2)))
    assert view.spent("a", CPU) == Resources.parse({"cpu": 3})


def test_only_so_many_deletions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "MOST_TOMBSTONES", 3)
    view = View()
    for number in range(1, 6):
        view.delete("a", f"b{number}", str(number), number)
    view.delete("a", "b3", "again", 9)
    view.delete("a", "b6", "6", 10)
    assert [bool(view.tombstone("a", f"b{number}")) for number in range(1, 7)] == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]


def test_more_lenses_than_are_kept_see_the_same_as_ever() -> None:
    view = View()
    view.upsert("a", "x", Entry("1", 1, claim(3, "gold")))
    lenses = [Lens(of_class("gold", f"class{number}"), frozenset({"cpu"})) for number in range(200)]
    for _ in range(2):
        assert all(view.spent("a", lens) == Resources.parse({"cpu": 3}) for lens in lenses)
    view.upsert("a", "y", Entry("2", 2, claim(4, "gold")))
    assert all(view.spent("a", lens) == Resources.parse({"cpu": 7}) for lens in lenses)


def test_a_change_of_class_moves_the_cost() -> None:
    view = View()
    gold = Lens(of_class("gold"), frozenset({"cpu"}))
    view.upsert("a", "x", Entry("1", 1, claim(3, "gold")))
    assert view.spent("a", gold) == Resources.parse({"cpu": 3})
    view.upsert("a", "x", Entry("1", 2, claim(3, "silver")))
    assert view.spent("a", gold) == NOTHING
    assert view.spent("a", CPU) == Resources.parse({"cpu": 3})
