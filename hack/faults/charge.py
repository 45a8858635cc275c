"""What a stored binding costs, worked out from the raw object by code of the checker's own, in exact fractions.

As DESIGN section 4 has it, for what the load makes: replicas, clusters, evictions and held bindings. Kinds that the
load does not use (components, finished Jobs, GPUs) are refused openly rather than judged wrongly.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

Amounts = dict[str, Fraction]

NOTHING: Amounts = {}
HELD_LABEL = "quota.karmada.io/held"
_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def quantity(text: object) -> Fraction:
    """A Kubernetes quantity, exactly."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    digits, exponent, suffix = match.groups()
    number: Fraction = Fraction(digits)
    if exponent:
        return number * Fraction(10) ** int(exponent[1:])
    if suffix in _BINARY:
        return number * Fraction(1024) ** _BINARY[suffix]
    return number * Fraction(10) ** _DECIMAL.get(suffix or "", 0)


def amounts(texts: Mapping[str, object] | None) -> Amounts:
    """Named quantities; `requests.cpu` is cpu."""
    return {name.removeprefix("requests."): quantity(text) for name, text in (texts or {}).items()}


def charge(binding: Mapping[str, Any]) -> Amounts:
    """What a binding is charged at: what it asks for or what it was given, whichever is more."""
    spec = binding["spec"]
    if spec.get("components"):
        raise ValueError("the checker does not know what components cost")
    replicas = spec.get("replicas") or 0
    assigned = sum(cluster.get("replicas") or 0 for cluster in spec.get("clusters") or [])
    labels = binding["metadata"].get("labels") or {}
    is_held = labels.get(HELD_LABEL) == "true" and (spec.get("suspension") or {}).get("scheduling") is True
    if is_held:
        count = assigned
    else:
        # What was evicted and not yet replaced keeps its place.
        evicted = sum(task.get("replicas") or 0 for task in spec.get("gracefulEvictionTasks") or [])
        kept = max(assigned, min(assigned + evicted, replicas * _copies(spec)))
        count = max(replicas, kept)
    request = (spec.get("replicaRequirements") or {}).get("resourceRequest")
    costs = {name: each * count for name, each in amounts(request).items()}
    return {**costs, "pods": Fraction(count)}


def _copies(spec: Mapping[str, Any]) -> int:
    placement = spec.get("placement") or {}
    if (placement.get("replicaScheduling") or {}).get("replicaSchedulingType") == "Divided":
        return 1
    return max((one.get("minGroups") or 1 for one in placement.get("spreadConstraints") or []), default=1)


def total(parts: list[Amounts]) -> Amounts:
    """The sum, name by name."""
    found: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, Fraction(0)) + amount
    return found


def larger(one: Amounts, other: Amounts) -> Amounts:
    """The larger of both, name by name."""
    zero = Fraction(0)
    return {name: max(one.get(name, zero), other.get(name, zero)) for name in {*one, *other}}


def shown(found: Amounts) -> str:
    """For people: `cpu=3.5,pods=7`."""
    return ",".join(f"{name}={float(amount):g}" for name, amount in sorted(found.items()))
