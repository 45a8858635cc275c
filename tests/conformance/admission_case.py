"""What Kubernetes' admission cases say, and what comes out when they are worked out by hand.

Reading, and a plain recalculation from the numbers that the cases give. Of the product only quantities and names of
resources are used, nothing of its ledger.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from federation_quota.ledger.claim import Claim
from federation_quota.quantity import ZERO, Quantity, parse
from federation_quota.resource_name import canonical
from tests.conformance.admission import Request, Used
from tests.conformance.vectors import Case

EXCEEDED = re.compile(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)")


@dataclass(frozen=True, slots=True)
class Expected:
    """How a case must end: the words of each denial, None for what is allowed, and what is used then."""

    texts: Sequence[str | None]
    used: Used


def quotas_of(case: Case) -> list[dict[str, Any]]:
    """The quotas at the beginning."""
    return list(case["quotas"])


def requests_of(case: Case) -> list[Mapping[str, Any]]:
    """All requests, whichever shape the case has."""
    return [case["request"]] if case["kind"] == "single" else case["waiters"]


def errors_of(case: Case) -> list[str]:
    """What is said to those who are denied."""
    return [error for error in ([case.get("error")] if case["kind"] == "single" else case["results"]) if error]


def denials_of(case: Case) -> list[tuple[str, str, str]]:
    """What every denial says was requested, used and limited, resource by resource."""
    found = []
    for match in filter(None, (EXCEEDED.search(error) for error in errors_of(case))):
        requested, used, limited = (amounts(listed) for listed in match.groups()[1:])
        found += [(requested[name], used[name], limited[name]) for name in limited]
    return found


def amounts(listed: str) -> dict[str, str]:
    """`cpu=1,pods=2`, read."""
    return dict(item.split("=", 1) for item in listed.split(","))


def scopes_of(quota: Mapping[str, Any]) -> set[str]:
    """The names of all scopes that a quota has, in either form."""
    expressions = (quota.get("scopeSelector") or {}).get("matchExpressions") or []
    return {*(quota.get("scopes") or ()), *(expression["scopeName"] for expression in expressions)}


def containers_of(case: Case) -> list[Mapping[str, Any]]:
    """All containers of all pods."""
    pods = [request[key] for request in requests_of(case) for key in ("object", "oldObject") if key in request]
    return [
        container
        for pod in pods
        for key in ("containers", "initContainers")
        for container in pod["spec"].get(key) or ()
    ]


def quantities_of(case: Case) -> list[tuple[str, str]]:
    """Every amount that a request asks for."""
    given = [
        item
        for request in requests_of(case)
        for key in ("usage", "oldUsage")
        for item in (request.get(key) or {}).items()
    ]
    for container in containers_of(case):
        for kind in ("requests", "limits"):
            given += ((container.get("resources") or {}).get(kind) or {}).items()
    return given


def is_unbindable(name: str) -> bool:
    """Whether no binding says how much of it there is."""
    return name.startswith("limits.") or name in (
        "storage", "requests.storage", "services.nodeports", "services.loadbalancers",
    ) or ".storageclass." in name or ".deviceclass." in name  # fmt: skip


def is_finer_than_karmada(name: str, text: str) -> bool:
    """Whether Karmada rounds such a request up: cpu to thousandths, everything else to whole units."""
    return bool(parse(text).nano % (10**6 if canonical(name) == "cpu" else 10**9))


def possible(case: Case) -> list[dict[str, Any]]:
    """The quotas that could be there: all, if none has a scope that is refused."""
    return [quota for quota in quotas_of(case) if not scopes_of(quota) - {"PriorityClass"}]


def initial(quota: Mapping[str, Any]) -> dict[str, Quantity]:
    """What a quota has used at the beginning, of everything that it limits."""
    return {name: parse(quota["used"].get(name, 0)) for name in quota["hard"]}


# Working it out


def selects(quota: Mapping[str, Any], priority_class: str) -> bool:
    """Kubernetes' rule for each operator, read off its table."""
    expressions: list[dict[str, Any]] = [{"operator": "Exists"} for _ in quota.get("scopes") or ()]
    expressions += (quota.get("scopeSelector") or {}).get("matchExpressions") or []
    rules: dict[str, Callable[[list[str]], bool]] = {
        "Exists": lambda _values: priority_class != "",
        "DoesNotExist": lambda _values: priority_class == "",
        "In": lambda values: priority_class in values,
        "NotIn": lambda values: priority_class not in values,
    }
    return all(rules[expression["operator"]](expression.get("values") or []) for expression in expressions)


def cost(quota: Mapping[str, Any], claim: Claim | None, name: str) -> Quantity:
    """What a claim costs a quota of one of the resources that it limits."""
    if claim is None or not selects(quota, claim.priority_class):
        return ZERO
    is_scoped = bool(scopes_of(quota))
    return ZERO if is_scoped and canonical(name).startswith("count/") else claim.charge[canonical(name)]


def recalculated(quotas: Sequence[Mapping[str, Any]], requests: Sequence[Request]) -> Expected:
    """One after the other, each beside what was allowed before it."""
    used: Used = {quota["name"]: initial(quota) for quota in quotas}
    texts: list[str | None] = []
    for request in requests:
        increases = {
            (quota["name"], name): cost(quota, request.new, name) - cost(quota, request.old, name)
            for quota in quotas
            for name in quota["hard"]
        }
        risen = {key: increase for key, increase in increases.items() if increase > ZERO}
        hard = {(quota["name"], name): parse(limit) for quota in quotas for name, limit in quota["hard"].items()}
        over = sorted(key for key, increase in risen.items() if used[key[0]][key[1]] + increase > hard[key])
        first = [key for key in over if key[0] == over[0][0]]
        texts.append(words(first[0][0], first, risen, used, hard) if first else None)
        if not first and not request.is_dry_run:
            for (quota_name, name), increase in risen.items():
                used[quota_name][name] += increase
    return Expected(texts, used)


def words(
    quota: str,
    keys: Sequence[tuple[str, str]],
    requested: Mapping[tuple[str, str], Quantity],
    used: Used,
    hard: Mapping[tuple[str, str], Quantity],
) -> str:
    """A denial in Kubernetes' form, what is used in the format of its limit."""
    asked = ",".join(f"{key[1]}={requested[key]}" for key in keys)
    taken = ",".join(f"{key[1]}={Quantity(used[key[0]][key[1]].nano, hard[key].format)}" for key in keys)
    limits = ",".join(f"{key[1]}={hard[key]}" for key in keys)
    return f"exceeded quota: {quota}, requested: {asked}, used: {taken}, limited: {limits}"


def words_when_stored(text: str, quotas: Sequence[Mapping[str, Any]], request: Request, final: Used) -> str:
    """The words for a creation that is refused only on what is stored.

    At once, and with what was stored before the batch, where that alone leaves no room; else when all that was admitted
    beside it has arrived.
    """
    match = EXCEEDED.fullmatch(text)
    (quota,) = [quota for quota in quotas if match is not None and quota["name"] == match[1]]
    hard = {(quota["name"], name): parse(limit) for name, limit in quota["hard"].items()}
    asked = {key: cost(quota, request.new, key[1]) for key in hard}
    for used in ({quota["name"]: initial(quota)}, final):
        over = sorted(
            key for key, amount in asked.items() if amount > ZERO and used[key[0]][key[1]] + amount > hard[key]
        )
        if over:
            return words(quota["name"], over, asked, used, hard)
    return text
