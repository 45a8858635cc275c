"""Asks: refused increases that a leaf remembers for a while, so that its runtime can rise to meet them.

What the webhook refused is in no binding, and demand is what runtime is computed from: without a trace of it a leaf
that needs more than it ever had would never get it. So a refusal is noted with all that the binding would have cost,
and counts as demand until the binding has it, or until the ask is too old: whoever still wants it asks again.

Pure data: when an ask ends is written into it, and what time it is comes from the caller, in the same form.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation_quota.quantity import QuantityError
from federation_quota.resources import NOTHING, Resources

MOST_ASKS: Final = 256
"""How many a leaf remembers: of more, those that end last."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One refused increase."""

    binding: str
    """`namespace/name` of the binding."""
    charge: Resources
    """All that it would have cost."""
    until: str
    """When it no longer counts, as a timestamp in UTC with whole seconds: these compare by time."""


def note(asks: Iterable[Ask], new: Ask, now: str, most: int = MOST_ASKS) -> tuple[Ask, ...]:
    """The asks with one more, the last of its binding, and without those that have ended."""
    kept = [one for one in asks if one.binding != new.binding and one.until > now]
    newest = sorted([*kept, new], key=lambda one: (one.until, one.binding))[-most:]
    return tuple(sorted(newest, key=lambda one: one.binding))


def open_asks(asks: Iterable[Ask], given: Mapping[str, Resources], now: str) -> tuple[Ask, ...]:
    """Those that still count: not ended, and not yet given in full. `given` is by binding what each has."""
    return tuple(one for one in asks if one.until > now and not _covers(given.get(one.binding, NOTHING), one.charge))


def request(demands: Mapping[str, Resources], asks: Iterable[Ask]) -> Resources:
    """What a leaf asks for: of each binding its demand, or what it was refused where that is more.

    `demands` is by binding the larger of what it asks for and what it has. One that is asked for and not stored, a
    refused creation, counts with what it would have cost.
    """
    wanted = dict(demands)
    for one in asks:
        wanted[one.binding] = wanted.get(one.binding, NOTHING).maximum(one.charge)
    total = NOTHING
    for amounts in wanted.values():
        total = total + amounts
    return total


def read(status: Mapping[str, Any]) -> tuple[Ask, ...]:
    """The asks in a leaf's status. One that cannot be read is left out: it is noted again when it is refused."""
    found = []
    for stored in status.get("asks") or ():
        try:
            found.append(Ask(stored["binding"], Resources.parse(stored["charge"]), stored["until"]))
        except (KeyError, TypeError, QuantityError):
            continue
    return tuple(found)


def write(asks: Sequence[Ask]) -> list[dict[str, Any]]:
    """The asks as a status has them."""
    return [{"binding": one.binding, "charge": one.charge.to_json(), "until": one.until} for one in asks]


def _covers(given: Resources, wanted: Resources) -> bool:
    return all(given[name] >= amount for name, amount in wanted.items())
