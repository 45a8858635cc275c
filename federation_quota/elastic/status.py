"""How a quota stands, as its status says it: for programs in amounts, for people in a line.

Translation only. The ledger's part of a leaf's status (reservations and what belongs to them) is not touched here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation_quota.condition import Finding
from federation_quota.elastic import ask, running
from federation_quota.elastic.ask import Ask
from federation_quota.elastic.capacity import Holding
from federation_quota.elastic.running import InCluster
from federation_quota.elastic.runtime import Standing
from federation_quota.elastic.unit import Steps, available, quantities, to_json
from federation_quota.quantity import QuantityError, parse
from federation_quota.resource_name import COUNT

LONGEST: Final = 65536

WITHIN_RUNTIME: Final = "WithinRuntime"
"""Of a leaf: whether it uses no more than it may."""
MINS_KEPT: Final = "MinsKept"
"""Of a tree: whether there is as much as was promised."""
CLUSTERS_READY: Final = "ClustersReady"
"""Of a tree: whether all of its clusters add to what there is."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of a quota beside its standing."""

    used: Steps
    running: Steps | None = None
    """What its pods were seen to request; None where they were never seen."""
    clusters: Sequence[InCluster] | None = None
    """Where; None for a parent."""
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
        # Objects are the federation's: only what pods use is seen in the members.
        seen = {name: figures.running.get(name, 0) for name in published if not name.startswith(COUNT)}
        written |= {"running": to_json(seen), "runningSummary": _list(seen)}
        if figures.clusters is not None:
            written["clusters"] = running.write(figures.clusters, seen)
    return written


@dataclass(frozen=True, slots=True)
class TreeFigures:
    """What is known of a tree."""

    total: Steps
    used: Steps
    system_used: Steps
    mins: Steps
    """What the quotas of the first level were promised together."""
    requests: Steps
    """What they ask for."""
    holding: Holding


def within_runtime(used: Steps, published: Steps) -> Finding:
    """Whether a leaf uses no more than it may."""
    over = {name: amount for name, amount in used.items() if amount > published.get(name, amount)}
    if not over:
        return Finding(WITHIN_RUNTIME, True, "WithinRuntime", "it uses no more than it may")
    most = {name: published[name] for name in over}
    message = f"it uses more than it may ({summary(over, most)}): its least important workloads will give way"
    return Finding(WITHIN_RUNTIME, False, "OverRuntime", message)


def tree_findings(figures: TreeFigures) -> list[Finding]:
    """Whether a tree has what it promised, and all of its clusters."""
    total, mins, holding = figures.total, figures.mins, figures.holding
    short = {name: amount for name, amount in mins.items() if amount > total.get(name, 0)}
    kept = Finding(MINS_KEPT, True, "Enough", "there is as much as the quotas of the first level were promised")
    if short:
        there = {name: total.get(name, 0) for name in short}
        kept = Finding(MINS_KEPT, False, "TooLittle", f"more was promised than there is ({summary(short, there)})")
    ready = Finding(CLUSTERS_READY, True, "Ready", "all clusters of the tree are Ready")
    if holding.absent:
        named = ", ".join(holding.absent)
        ready = Finding(CLUSTERS_READY, False, "Absent", f"these are not Ready, and add nothing: {named}")
    elif not holding.clusters and not any(total.values()):
        ready = Finding(CLUSTERS_READY, False, "NoClusters", "no cluster belongs to the tree")
    return [kept, ready]


def write_tree(figures: TreeFigures, generation: int) -> dict[str, Any]:
    """The status of a tree, but for its conditions."""
    there = {name: figures.total.get(name, 0) for name in figures.requests}
    taken = {name: figures.used.get(name, 0) for name in figures.requests}
    return {
        "total": to_json(figures.total),
        "request": to_json(figures.requests),
        "used": to_json(taken),
        "systemUsed": to_json(figures.system_used),
        "min": to_json(figures.mins),
        "clusters": list(figures.holding.clusters),
        "absent": list(figures.holding.absent),
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


def sum_of(tables: Iterable[Steps]) -> dict[str, int]:
    """All of them together."""
    total: dict[str, int] = {}
    for table in tables:
        for resource, amount in table.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _present(amounts: Steps) -> dict[str, int]:
    return {resource: amount for resource, amount in amounts.items() if amount}


def _list(amounts: Steps) -> str:
    return ", ".join(f"{name}: {amount}" for name, amount in quantities(amounts).items())[:LONGEST]
