"""Limits of users and groups, as the tests of what is decided by them write them."""

from collections.abc import Iterable, Mapping
from typing import Any

from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.limits import limit, usage
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.scheme import Schemes
from federation_quota.limits.subject import USER, Subject
from federation_quota.resources import Resources
from federation_quota.stamp import Owner

TREE = "lab"
LEAF = "team-a"
ANN, BOB = Owner("ann", ("dev",)), Owner("bob", ("dev", "ops"))


def schemes(limits: Mapping[str, Iterable[Mapping[str, Any]]], leaves: Iterable[str] = (LEAF,)) -> Schemes:
    """The limits of the tree `lab`, by node as an administrator writes them; all leaves are below the parent `dept`."""
    above = {ROOT: ROOT, "dept": ROOT, **dict.fromkeys(leaves, "dept")}
    levels = [Level(name, parent, limit.read({"limits": list(limits.get(name, ()))})) for name, parent in above.items()]
    return Schemes.of({TREE: levels})


def limited(user: str, *, applications: int | None = None, **resources: str | int) -> dict[str, Any]:
    """An entry for a user."""
    count = {"maxApplications": applications} if applications else {}
    return {"users": [user], "maxResources": resources, **count}


def account(known: Schemes, name: str = "ann", kind: str = USER) -> Account:
    """The account of somebody under these limits, of which nothing is used."""
    return usage.fitted(usage.unopened(Subject(TREE, kind, name)), known)


def owned(owner: Owner | None, amounts: Mapping[str, str | int], leaf: str = LEAF) -> Claim:
    """The claim of something that somebody has."""
    return Claim(Resources.parse(amounts), leaf=leaf, owner=owner)
