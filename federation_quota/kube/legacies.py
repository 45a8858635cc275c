"""Legacies as text, for an annotation of the Lease of the replica that left them. Pure."""

import json

from federation_quota.bookkeeping import read_reservation, write_reservation
from federation_quota.ledger.legacy import Legacy

# All annotations of an object together may have 256 KiB.
LONGEST = 200_000


def encode(legacy: Legacy) -> str:
    """The text; empty where it would be too long: then the replica is waited for, as one that died."""
    admissions = {place: [write_reservation(one) for one in here] for place, here in legacy.admissions.items()}
    text = json.dumps({"observed": str(legacy.observed), "admissions": admissions}, separators=(",", ":"))
    return text if len(text) <= LONGEST else ""


def decode(text: str) -> Legacy | None:
    """What was left; None where that cannot be read, and the replica has to be waited for."""
    try:
        read = json.loads(text)
        admissions = {place: tuple(map(read_reservation, here)) for place, here in read["admissions"].items()}
        return Legacy(int(read["observed"]), admissions)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
