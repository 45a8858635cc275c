"""Which bindings of a quota run within its min, and which beyond: the label that says who may have to give way.

The oldest come first, of one age those of lower priority, then those that ask for less, then by name. All that is
within the min on this way is in quota; from the first that goes beyond it everything is over quota, whether or not it
asks for the very resource, because it is the order that decides who was there when the min was used up.

Pure. Called by the controller that writes the labels, and for trees that share by giving way.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from federation_quota.elastic.occupant import Limit, Occupant, fits
from federation_quota.quantity import Quantity
from federation_quota.resources import NOTHING

IN_QUOTA: Final = "in-quota"
OVER_QUOTA: Final = "over-quota"


def order(running: Iterable[Occupant]) -> list[Occupant]:
    """They in the order in which the min is used up."""
    present = list(running)
    names = sorted({name for one in present for name in one.charge})

    def place(one: Occupant) -> tuple[str, int, list[Quantity], str]:
        # Amount by amount: whoever asks for no more of anything comes first, and unlike ones have an order too.
        return one.created.rstrip("Z"), one.priority, [one.charge[name] for name in names], one.name

    return sorted(present, key=place)


def label(running: Iterable[Occupant], minimum: Limit) -> dict[str, str]:
    """The label of each, by name."""
    labels: dict[str, str] = {}
    used = NOTHING
    for one in order(running):
        used = used + one.charge
        labels[one.name] = IN_QUOTA if fits(used, minimum) else OVER_QUOTA
    return labels


def used(running: Iterable[Occupant], minimum: Limit) -> Mapping[str, Quantity]:
    """What they use of each resource that the min names."""
    total = NOTHING
    for one in running:
        total = total + one.charge
    return {name: total[name] for name in minimum}
