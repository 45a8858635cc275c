"""Titles: which replica judges the requests of a tenant. Never two at once.

One Lease for each tenant names its holder, an incarnation of a replica. It is not renewed: that a holder is there is
told by its presence (`kube.presence`), which it renews anyway, so that holding costs nothing. A holder acts only while
it is present; what is its own is taken from it only once it has been gone for so long that everything it let through
has been stored or never will be (`Roster.unsettled`).

Whoever wants a title that somebody else holds says so in it, and the holder hands it over between two requests, with
what it has let through and not seen stored yet. Every change is written under the title's version: of two who want the
same, one is told so. A holder that nobody asks gives up what it does not need, and whoever comes next takes it.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from federation_quota.tenants.grants import Left


@dataclass(frozen=True, slots=True)
class Title:
    """One tenant's, at one version."""

    tenant: str
    holder: str
    """An incarnation; empty: nobody."""
    version: int = 0
    """Of the Lease; 0 for one that is not stored yet."""
    wanted_by: str = ""
    """Another incarnation that waits for it."""
    left: Left | None = None
    """What its last holder had let through."""


class Step(Enum):
    """What a replica that wants a title does next."""

    ACT = "act"
    """It is the holder."""
    CREATE = "create"
    """There is none yet."""
    TAKE = "take"
    """Nobody holds it, or somebody whose every admission is over."""
    ASK = "ask"
    """Somebody else holds it, and is to be told."""
    WAIT = "wait"
    """Somebody else holds it, and has been told; or died, and its admissions may still be on their way."""


def next_step(title: Title | None, me: str, former: Collection[str], unsettled: Collection[str]) -> Step:
    """What to do about a title.

    `former` are earlier incarnations of the same process, which remembers what they let through; `unsettled` all
    incarnations that are there, or gone so lately that something of theirs may still be stored.
    """
    if title is None:
        return Step.CREATE
    if title.holder == me:
        return Step.ACT
    if not title.holder or title.holder in former or title.holder not in unsettled:
        return Step.TAKE
    if title.wanted_by == me or (title.wanted_by and title.wanted_by in unsettled):
        return Step.WAIT
    return Step.ASK


def taken(title: Title | None, tenant: str, me: str) -> Title:
    """The title as its new holder writes it. What the last one left stays with it until it is handed over."""
    return Title(tenant, me) if title is None else replace(title, holder=me, wanted_by="")


def asked(title: Title, me: str) -> Title:
    """The title, wanted."""
    return replace(title, wanted_by=me)


def handed_over(title: Title, left: Left) -> Title:
    """The title as its holder passes it on, to who wants it, or to nobody."""
    return replace(title, holder=title.wanted_by, wanted_by="", left=left)
