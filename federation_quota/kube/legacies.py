"""Legacies as text, for an annotation of the Lease of the replica that left them. Pure."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from federation_quota.bookkeeping import read_reservation, text, write_reservation
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.reservation import Reservation
from federation_quota.stamp import Owner

# All annotations of an object together may have 256 KiB.
LONGEST = 200_000


def encode(legacy: Legacy) -> str:
    """The text; empty where it would be too long: then the replica is waited for, as one that died."""
    admissions = {place: [_write(one) for one in here] for place, here in legacy.admissions.items()}
    encoded = json.dumps({"observed": str(legacy.observed), "admissions": admissions}, separators=(",", ":"))
    return encoded if len(encoded) <= LONGEST else ""


def decode(encoded: str) -> Legacy | None:
    """What was left; None where that cannot be read, and the replica has to be waited for."""
    try:
        read = json.loads(encoded)
        admissions = {place: tuple(map(_read, here)) for place, here in read["admissions"].items()}
        return Legacy(int(read["observed"]), admissions)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _write(reservation: Reservation) -> dict[str, Any]:
    """With whose it is, and where: limits that are made after its replica has gone may be about it."""
    found, claim = write_reservation(reservation), reservation.claim
    if claim.leaf:
        found["leaf"] = claim.leaf
    if claim.owner is not None:
        found["owner"] = {"user": claim.owner.user, "groups": list(claim.owner.groups)}
    return found


def _read(stored: Mapping[str, Any]) -> Reservation:
    found, owner = read_reservation(stored), stored.get("owner")
    known = None if owner is None else Owner(text(owner, "user"), tuple(map(str, owner["groups"])))
    return replace(found, claim=replace(found.claim, leaf=text(stored, "leaf", ""), owner=known))
