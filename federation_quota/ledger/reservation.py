"""An admitted increase whose write has not been seen in the store yet."""

from dataclasses import dataclass

from federation_quota.ledger.claim import Claim


@dataclass(frozen=True, slots=True)
class Reservation:
    """A claim held for one admission call; it covers the binding of that name up to `claim`.

    One per call, even where another already covers as much: the API server may call several times for one request, and
    each answer must stand on a reservation of its own. A CREATE is known by the `uid` it will store, an UPDATE by the
    version it was reviewed on (`base`): if any newer one exists, it has been written or can never be.
    """

    id: str
    binding: str
    claim: Claim
    uid: str | None = None
    base: int | None = None
    time: str = ""  # for people; nothing is decided by it

    def __post_init__(self) -> None:
        if (self.uid is None) == (self.base is None):
            raise ValueError("a reservation is for a CREATE (uid) or for an UPDATE (base)")
