"""Deliberation with one part taken out. Each must be caught by the simulation: else that part is not tested."""

from collections.abc import Collection, Iterator

import pytest

from federation_quota.elastic import underway
from federation_quota.elastic.underway import Change, Identity
from federation_quota.kube.underway import SharedUnderway
from tests.unit.forests import Shelf
from webhook.deliberation import Deliberation


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

    def is_seen(self: Change, stored: Identity | None, version: int) -> bool:
        return original(self, stored, version) or (stored is not None and stored.uid != self.identity.uid)

    patch.setattr(Change, "is_seen", is_seen)


def what_a_view_does_not_know_yet_is_taken_to_be_deleted(patch: pytest.MonkeyPatch) -> None:
    original = Change.is_seen

    def is_seen(self: Change, stored: Identity | None, _version: int) -> bool:
        return original(self, stored, self.version)

    patch.setattr(Change, "is_seen", is_seen)


def what_takes_long_is_forgotten_early(patch: pytest.MonkeyPatch) -> None:
    def expired(self: SharedUnderway) -> set[str]:
        return {name for name, since in self._first_seen.items() if self._clock() - since > 5}

    patch.setattr(SharedUnderway, "expired", expired)


ALL = (
    nobody_asks_what_others_let_through,
    the_list_is_written_whatever_others_wrote,
    everything_that_is_under_way_is_taken_to_come,
    another_of_the_same_name_is_taken_for_it,
    what_a_view_does_not_know_yet_is_taken_to_be_deleted,
    what_takes_long_is_forgotten_early,
)
