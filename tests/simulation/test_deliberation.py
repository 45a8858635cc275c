"""All or nothing, whichever replica is asked: many seeds, and as many with a part missing."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator

import pytest

from federation_quota.elastic import underway
from federation_quota.elastic.underway import Change, Identity, Underway
from federation_quota.kube.underway import SharedUnderway
from tests.simulation import clock
from tests.simulation.grove import World
from tests.simulation.invariants import Violation
from tests.unit.forests import Shelf
from webhook.deliberation import Deliberation

SEEDS = min(int(os.environ.get("FEDQUOTA_SEEDS", "2000")), 300)
MOST_SEEDS_FOR_A_MUTATION = 100

Mutation = Callable[[pytest.MonkeyPatch], None]


def run(seed: int) -> tuple[str | None, Counter[str]]:
    world: World | None = None

    async def main() -> None:
        nonlocal world
        world = World(seed)
        await world.run()

    violation = None
    try:
        clock.run(main())
    except* Violation as found:
        violation = str(found.exceptions[0])
    assert world is not None
    return violation, world.counts


@pytest.mark.timeout(1800)
def test_of_changes_that_fit_only_one_by_one_never_two_are_stored() -> None:
    happened: Counter[str] = Counter()
    for seed in range(SEEDS):
        violation, counts = run(seed)
        assert violation is None, f"seed {seed}: {violation}"
        happened += counts
    # A world in which nothing happens would prove nothing.
    for what in ("200", "422", "429", "lost", "again"):
        assert happened[what] > SEEDS / 2, happened


def nobody_asks_what_others_let_through(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deliberation, "_open", lambda _self, _own, _expired: [])


def the_list_is_written_whatever_others_wrote(patch: pytest.MonkeyPatch) -> None:
    create = Shelf.create

    async def write(
        self: Shelf, _resource: object, _name: str, body: dict[str, object], *_: object, **__: object
    ) -> bytes:
        self.version, version = 0, self.version
        try:
            return await create(self, None, body, "")
        finally:
            self.version = version + 1

    patch.setattr(Shelf, "patch", write)


def everything_that_is_under_way_is_taken_to_come(patch: pytest.MonkeyPatch) -> None:
    def worlds(changes: Collection[Change]) -> Iterator[tuple[Change, ...]]:
        yield tuple(changes)

    patch.setattr(underway, "worlds", worlds)


def another_of_the_same_name_is_taken_for_it(patch: pytest.MonkeyPatch) -> None:
    original = Change.is_seen

    def is_seen(self: Change, stored: Identity | None) -> bool:
        return original(self, stored) or (stored is not None and stored.uid != self.identity.uid)

    patch.setattr(Change, "is_seen", is_seen)


def what_takes_long_is_forgotten_early(patch: pytest.MonkeyPatch) -> None:
    def expired(self: SharedUnderway) -> set[str]:
        return {name for name, since in self._first_seen.items() if self._clock() - since > 5}

    patch.setattr(SharedUnderway, "expired", expired)


MUTATIONS = [
    nobody_asks_what_others_let_through,
    the_list_is_written_whatever_others_wrote,
    everything_that_is_under_way_is_taken_to_come,
    another_of_the_same_name_is_taken_for_it,
    what_takes_long_is_forgotten_early,
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_with_a_part_missing_it_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    assert any(run(seed)[0] for seed in range(MOST_SEEDS_FOR_A_MUTATION))


def test_a_seed_is_the_same_every_time() -> None:
    assert run(7) == run(7)


def test_nothing_is_struck_off_without_a_word() -> None:
    """What the simulation stands on."""
    one = Change("x", "ElasticQuota", "a/quota", Identity("u", 1), {})
    assert Underway((one,)).without({"x"}, {"ElasticQuota": 5}).observed == {"ElasticQuota": 5}
