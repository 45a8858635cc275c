"""How a quota stands, as its status says it: for programs in amounts, for people in a line.

Translation only. The ledger's part of a leaf's status (reservations and what belongs to them) is not touched here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation_quota.elastic import ask
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.capacity import Holding
from federation_quota.elastic.runtime import Standing
from federation_quota.elastic.unit import Steps, available, quantities, to_json
from federation_quota.quantity import QuantityError, parse

LONGEST: Final = 65536


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of a quota beside its standing."""

    used: Steps
    running: Steps | None = None
    """What its pods were seen to request; None where they were never seen."""
    held: int = 0
    asks: Sequence[Ask] = ()


def write(standing: Standing, published: Steps, figures: Figures, generation: int) -> dict[str, Any]:
    """The fields of a quota's status that say how it stands. `published` is what the webhook guards: for a while it may
    be less than what was worked out."""
    used = {resource: figures.used.get(resource, 0) for resource in published}
    borrowed = {resource: standing.borrowed.get(resource, 0) for resource in published}
    lent = {resource: standing.lent.get(resource, 0) for resource in published}
    written = {
        "request": to_json(standing.demand),
        "used": to_json(used),
        "runtime": to_json(published),
        "min": to_json(standing.min),
        "guaranteed": to_json(standing.guaranteed),
        "borrowed": to_json(_present(borrowed)),
        "lent": to_json(_present(lent)),
        "held": figures.held,
        "asks": ask.write(figures.asks),
        "summary": summary(used, published),
        "borrowing": _list(_present(borrowed)),
        "lending": _list(_present(lent)),
        "observedGeneration": generation,
    }
    if figures.running is not None:
        written["running"] = to_json({resource: figures.running.get(resource, 0) for resource in published})
    return written


def write_tree(
    total: Steps, used: Steps, system_used: Steps, standings: Mapping[str, Standing], holding: Holding, generation: int
) -> dict[str, Any]:
    """The status of a tree; `standings` are those of its first level."""
    resources = {name for standing in standings.values() for name in standing.demand}
    there = {name: total.get(name, 0) for name in resources}
    taken = {name: used.get(name, 0) for name in resources}
    return {
        "total": to_json(total),
        "request": to_json(_sum(standing.passed_up for standing in standings.values())),
        "used": to_json(taken),
        "systemUsed": to_json(system_used),
        "min": to_json(_sum(standing.guaranteed for standing in standings.values())),
        "clusters": list(holding.clusters),
        "absent": list(holding.absent),
        "summary": summary(taken, there),
        "observedGeneration": generation,
    }


def summary(used: Steps, limit: Steps) -> str:
    """Used and limit of each resource, in one line."""
    amounts, limits = quantities({name: used.get(name, 0) for name in limit}), quantities(limit)
    return ", ".join(f"{name}: {amounts[name]}/{most}" for name, most in limits.items())[:LONGEST]


def published(status: Mapping[str, Any]) -> dict[str, int]:
    """The runtime that a stored status publishes, in steps; what cannot be read is not published."""
    found: dict[str, int] = {}
    for name, text in (status.get("runtime") or {}).items():
        try:
            found |= available({name: parse(text)})
        except QuantityError:
            continue
    return found


def _sum(tables: Iterable[Steps]) -> dict[str, int]:
    total: dict[str, int] = {}
    for table in tables:
        for resource, amount in table.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _present(amounts: Steps) -> dict[str, int]:
    return {resource: amount for resource, amount in amounts.items() if amount}


def _list(amounts: Steps) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in quantities(amounts).items())[:LONGEST]
