"""What was let through a moment ago counts until it is seen, or can no longer come."""

from federation_quota.elastic.underway import WRITE_SECONDS, Identity, Stored, Underway


def stored(value: str, uid: str = "u", generation: int = 1) -> dict[str, Stored[str]]:
    return {"q": Stored("q", Identity(uid, generation), value)}


def test_a_creation_counts_until_it_is_stored() -> None:
    underway = Underway[str]()
    underway.note("q", "new", Identity("u", 1), now=0)
    assert underway.beside({}, 1) == {"q": "new"}
    assert underway.beside(stored("as stored"), 2) == {"q": "as stored"}
    assert underway.beside({}, 3) == {}, "it is not brought back when the object is deleted"


def test_a_change_counts_until_its_generation_is_seen() -> None:
    underway = Underway[str]()
    underway.note("q", "new", Identity("u", 5), now=0)
    assert underway.beside(stored("old", generation=4), 1) == {"q": "new"}, "a status was written meanwhile"
    assert underway.beside(stored("newer", generation=6), 2) == {"q": "newer"}


def test_a_deletion_counts_until_the_object_is_gone_or_another() -> None:
    underway = Underway[str]()
    underway.note("q", None, Identity("u", 1), now=0)
    assert underway.beside(stored("old"), 1) == {}
    assert underway.beside(stored("again", uid="v"), 2) == {"q": "again"}


def test_what_never_comes_is_forgotten_when_it_no_longer_can() -> None:
    underway = Underway[str]()
    underway.note("q", "new", Identity("u", 2), now=0)
    assert underway.beside(stored("old"), WRITE_SECONDS - 1) == {"q": "new"}
    assert underway.beside(stored("old"), WRITE_SECONDS) == {"q": "old"}


def test_others_stay_as_they_are_stored() -> None:
    underway = Underway[str]()
    underway.note("other", "new", Identity("w", 1), now=0)
    assert underway.beside(stored("old"), 1) == {"q": "old", "other": "new"}
