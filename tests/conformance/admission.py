"""Kubernetes' admission cases in the product's own types, and the product's own decision on them.

Translation only. A quota becomes an account through the product's reading of a KarmadaQuota. A pod becomes a binding
with one replica, decoded and charged as the webhook does it; a usage that is given as such is the charge itself. What a
quota has used becomes bindings that are stored already and cost exactly that; what others use meanwhile becomes their
reservations first and stored bindings afterwards. The answer is `Accountant.answer`'s, which is what the webhook calls.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from federation_quota import karmadaquota, workload
from federation_quota.accounting.answer import Allowed, Answer
from federation_quota.binding import Binding
from federation_quota.kube import codec, mirrors
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.judging import Ask, Books
from federation_quota.ledger.reservation import Reservation
from federation_quota.quantity import ZERO, Quantity, parse
from federation_quota.resource_name import canonical
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import STAMP_ANNOTATION, Stamp
from tests.conformance.bookstore import NAMESPACE, Bookstore, Replica, active, at_work
from tests.conformance.vectors import Case
from tests.simulation import clock

Used = dict[str, dict[str, Quantity]]  # by quota, by the names of its limits

QUOTA_KEYS = {"name", "namespace", "hard", "used", "scopes", "scopeSelector"}
REQUEST_KEYS = {
    "operation", "handled", "namespace", "resource", "subresource", "name", "dryRun", "note",
    "object", "oldObject", "usage", "oldUsage", "oldResourceVersion",
}  # fmt: skip
WAITER_KEYS = {"name", "usage", "dryRun", "priorityClassName"}
CASE_KEYS = {
    "single": {"quotas", "request", "allowed", "error", "statusWrites"},
    "batch": {"quotas", "waiters", "statusWrites", "results", "freshOnRetry", "kubernetesBug", "desired"},
}
# A class that no quota names, for what only quotas for all classes, or for all but some, count.
NO_QUOTAS_CLASS = "class-that-no-quota-names"
# Between an admission and its being stored and seen: less than anybody's patience.
STORING_SECONDS = 0.5


class UnknownShapeError(Exception):
    """The case says something that nobody here knows how to read: a failure, never a pass."""


class UntellableError(Exception):
    """No bindings, however they are stored, come to what these quotas are said to have used."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for, as the ledger has it."""

    name: str
    new: Claim
    old: Claim | None = None  # None: nothing is stored yet
    is_dry_run: bool = False


@dataclass(slots=True)
class Outcome:
    """What the product made of a case."""

    answers: list[Answer]
    reserved: Used  # with what was admitted on its way
    stored: Used  # when all of that has arrived
    attempts: Counter[str] = field(default_factory=Counter)  # writes of each account until the last answer


# Reading


def check_shape(case: Case) -> None:
    """UnknownShapeError unless every part of the case is one that is known."""
    kind = case.get("kind")
    if kind not in CASE_KEYS:
        raise UnknownShapeError(f"no kind of case is called {kind!r}")
    # Whatever else stands there is a remark, if it is no more than text or a number.
    _only_keys(case, CASE_KEYS[kind] | {key for key, value in case.items() if not isinstance(value, list | dict)})
    if kind == "single":
        _has_keys(case, "quotas", "request", "allowed", "statusWrites")
        _only_keys(case["request"], REQUEST_KEYS)
        if case["request"].get("operation") not in ("CREATE", "UPDATE", "DELETE"):
            raise UnknownShapeError(f"no operation is called {case['request'].get('operation')!r}")
        if case["allowed"] is bool(case.get("error")):
            raise UnknownShapeError("what is denied has an error, what is allowed has none")
    else:
        _has_keys(case, "quotas", "waiters", "statusWrites", "results")
        for waiter in case["waiters"]:
            _only_keys(waiter, WAITER_KEYS)
            _has_keys(waiter, "name", "usage")
        for write in case["statusWrites"]:
            _only_keys(write, {"quota", "used", "outcome"})
            if write.get("outcome") not in ("ok", "conflict"):
                raise UnknownShapeError(f"a write's outcome is not {write.get('outcome')!r}")
        if len(case["results"]) != len(case["waiters"]):
            raise UnknownShapeError("every waiter has a result")
    for quota in (*case["quotas"], *case.get("freshOnRetry", ())):
        _only_keys(quota, QUOTA_KEYS)
        _has_keys(quota, "name", "hard", "used")


def read_request(request: Mapping[str, Any]) -> Request:
    """A request that is reviewed, and what it changes."""
    if request["operation"] == "DELETE":
        # Nothing is asked of anybody: whatever is there goes.
        return Request(request.get("name", "deleted"), NO_CLAIM, NO_CLAIM)
    new = _claim(request, "object", "usage")
    old = None
    if request["operation"] == "UPDATE":
        is_stored = bool(request.get("oldResourceVersion"))
        # Kubernetes takes an update of what is not stored for the creation that it is.
        old = _claim(request, "oldObject", "oldUsage") if is_stored else None
    return Request(request["name"], new, old, bool(request.get("dryRun")))


def read_waiter(waiter: Mapping[str, Any]) -> Request:
    """One of several creations at once."""
    charge = _usage(waiter["usage"])
    return Request(
        waiter["name"], Claim(charge, waiter.get("priorityClassName") or ""), None, bool(waiter.get("dryRun"))
    )


def manifest(quota: Mapping[str, Any]) -> dict[str, Any]:
    """The quota as somebody would create it."""
    spec = {key: quota[key] for key in ("hard", "scopes", "scopeSelector") if key in quota}
    return {"metadata": {"name": quota["name"], "namespace": NAMESPACE}, "spec": spec}


def read_account(quota: Mapping[str, Any]) -> Account:
    """The quota's account, with all replicas in it; karmadaquota.QuotaError where there can be none."""
    stored = manifest(quota)
    stored["metadata"] |= {"uid": f"uid-{quota['name']}", "resourceVersion": "1"}
    return active(karmadaquota.read(stored))


def read_used(account: Account, quota: Mapping[str, Any]) -> Resources:
    """What the quota has used of what it limits, by canonical names; what is not said is nothing."""
    return _usage({name: amount for name, amount in quota["used"].items() if name in account.limits})


def _claim(request: Mapping[str, Any], whole: str, usage: str) -> Claim:
    if usage in request:
        return Claim(_usage(request[usage]))
    if whole not in request or request["resource"] != "pods":
        raise UnknownShapeError(f"a request for {request['resource']} with neither {usage} nor a pod in {whole}")
    return mirrors.claim(_binding(request[whole], request["namespace"], request["name"]))


def _binding(pod: Mapping[str, Any], namespace: str, name: str) -> Binding:
    """The binding that Karmada makes for a pod, stamped by us, as the webhook decodes it."""
    template = {**pod, "apiVersion": "v1", "kind": "Pod"}
    stamp = Stamp(priority_class=workload.priority_class(template), resource="pods")
    document = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": namespace, "annotations": {STAMP_ANNOTATION: stamp.encode()}},
        "spec": {
            "resource": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name},
            "replicas": workload.replicas(template),
            "replicaRequirements": {"resourceRequest": workload.request(template).to_json()},
        },
    }
    binding = codec.decode_binding(json.dumps(document).encode())
    if binding.fault:
        raise UnknownShapeError(binding.fault)
    return binding


def _usage(usage: Mapping[str, str]) -> Resources:
    """Amounts by canonical names: `services` and `count/services` are one, and said twice they must agree."""
    amounts: dict[str, Quantity] = {}
    for given, text in usage.items():
        name, amount = canonical(given), parse(text)
        if amounts.setdefault(name, amount) != amount:
            raise UntellableError(f"{given} is {amount}, and {amounts[name]} by another name")
    return Resources(amounts)


def _only_keys(part: Mapping[str, Any], known: Iterable[str]) -> None:
    if unknown := set(part) - set(known):
        raise UnknownShapeError(f"nobody knows what {sorted(unknown)} means")


def _has_keys(part: Mapping[str, Any], *needed: str) -> None:
    if missing := set(needed) - set(part):
        raise UnknownShapeError(f"{sorted(missing)} is missing")


# Deciding


def decide(quotas: Sequence[Mapping[str, Any]], request: Request, *, dry_run: bool | None = None) -> Outcome:
    """The product's decision on one request beside these quotas."""
    asked = request if dry_run is None else replace(request, is_dry_run=dry_run)
    return decide_together(quotas, [asked])


def decide_together(
    quotas: Sequence[Mapping[str, Any]],
    requests: Sequence[Request],
    fresh: Sequence[Mapping[str, Any]] | None = None,
    conflicts: Iterable[str] = (),
) -> Outcome:
    """The product's decisions on requests that come at once.

    So many of the first writes of an account as `conflicts` has its name find that somebody was faster; if `fresh` is
    given, that somebody left the quotas as it says, and those that it does not name are gone.
    """
    outcomes: list[Outcome] = []

    async def main() -> None:
        outcomes.append(await _decide(quotas, requests, fresh, Counter(conflicts)))

    clock.run(main())
    return outcomes[0]


async def _decide(
    quotas: Sequence[Mapping[str, Any]],
    requests: Sequence[Request],
    fresh: Sequence[Mapping[str, Any]] | None,
    conflicts: Counter[str],
) -> Outcome:
    accounts = [read_account(quota) for quota in quotas]
    updated = [request for request in requests if request.old is not None]
    store = Bookstore()
    for account in accounts:
        store.put(account)
    for request in updated:
        store.put_binding(request.name, request.old or NO_CLAIM)
    for priority_class, charge in _rest(accounts, quotas, updated).items():
        store.put_binding(_rest_name(priority_class), Claim(charge, priority_class))
    async with at_work(store) as replica:
        server = _Server(replica)
        for name, count in conflicts.items():
            _disturb(server, name, count, accounts, quotas, updated, fresh)
        asking = [asyncio.ensure_future(server.review(request)) for request in requests]
        while not all(task.done() for task in asking):
            await asyncio.wait(asking, timeout=STORING_SECONDS)
            if not all(task.done() for task in asking):
                server.store_admitted()
        answers = [await task for task in asking]
        attempts = Counter(store.attempts)
        await asyncio.sleep(STORING_SECONDS)  # what is taken back is taken back by then
        reserved = _used(replica)
        server.store_admitted()
        return Outcome(answers, reserved, _used(replica), attempts)


class _Server:
    """The API server around the product: asks for every request, and stores what was admitted, a moment later."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.on_their_way: list[tuple[str, Claim]] = []

    async def review(self, request: Request) -> Answer:
        ask = (
            Ask(f"ask-{request.name}", request.name, request.new, uid=f"uid-{request.name}")
            if request.old is None
            else replace(self.replica.update(request.name, request.new), id=f"ask-{request.name}")
        )
        answer = await self.replica.answer(ask, dry_run=request.is_dry_run)
        if isinstance(answer, Allowed) and not request.is_dry_run:
            self.on_their_way.append((request.name, request.new))
        return answer

    def store_admitted(self) -> None:
        """All at one moment, so that nobody is judged between two of them."""
        arrived, self.on_their_way = self.on_their_way, []
        for name, claim in arrived:
            self.replica.store.put_binding(name, claim)
        self.replica.see(*(name for name, _ in arrived))


def _disturb(
    server: _Server,
    name: str,
    count: int,
    accounts: Sequence[Account],
    quotas: Sequence[Mapping[str, Any]],
    updated: Sequence[Request],
    fresh: Sequence[Mapping[str, Any]] | None,
) -> None:
    """Let somebody be faster: what they admitted is reserved at once, and stored with everything else."""
    store = server.replica.store
    by_name = {quota["name"]: quota for quota in fresh or ()}
    if fresh is not None and name not in by_name:
        store.disturb(name, lambda _account: None)
        return
    reservations = []
    if fresh is not None:
        changed = [by_name.get(quota["name"], quota) for quota in quotas]
        for priority_class, charge in _rest(accounts, changed, updated).items():
            binding = _rest_name(priority_class)
            before, after = store.bindings[binding], Claim(charge, priority_class)
            if after != before.claim:
                reservations.append(Reservation(f"theirs-{binding}", binding, after, base=before.version))
                server.on_their_way.append((binding, after))
    limits = read_account(by_name[name]).limits if fresh is not None else None

    def change(account: Account) -> Account:
        known = {one.id for one in account.reservations}
        theirs = [one for one in reservations if one.id not in known and account.lens.cost(one.claim)]
        changed = account.with_reservations((*account.reservations, *theirs))
        return changed if limits is None else replace(changed, limits=limits)

    for _ in range(count):
        store.disturb(name, change)


def _used(replica: Replica) -> Used:
    """What each quota shows as used, by the names of its limits, as its status would have it."""
    shown = {}
    for name, account in replica.store.accounts.items():
        used = Books(account, replica.observation.view).used
        shown[name] = {limit: parse(text) for limit, text in karmadaquota.status(account, used)["used"].items()}
    return shown


# What is used, told by bindings


def _rest_name(priority_class: str) -> str:
    return f"rest-{priority_class}"


def can_be_told(quotas: Sequence[Mapping[str, Any]], request: Request) -> bool:
    """Whether bindings could be stored that cost every quota what it is said to have used."""
    try:
        _rest([read_account(quota) for quota in quotas], quotas, [request] if request.old is not None else [])
    except UntellableError:
        return False
    return True


def _rest(
    accounts: Sequence[Account], quotas: Sequence[Mapping[str, Any]], updated: Sequence[Request]
) -> dict[str, Resources]:
    """For each priority class what its bindings cost, so that every quota has used what it says.

    What the requests themselves have stored is part of that.
    """
    needs: dict[str, Resources] = {}
    for account, quota in zip(accounts, quotas, strict=True):
        need = read_used(account, quota)
        for request in updated:
            need -= account.lens.cost(request.old or NO_CLAIM)
        if any(amount < ZERO for amount in need.values()):
            raise UntellableError(f"{account.name} is said to have used less than what is being updated costs it")
        needs[account.name] = need
    named = {name for account in accounts for name in account.selector.classes}
    classes = sorted({"", NO_QUOTAS_CLASS} | named)
    shares: dict[str, dict[str, Quantity]] = {name: {} for name in classes}
    for resource in {name for need in needs.values() for name in need}:
        one = Resources({resource: parse(1)})
        limiting = [account for account in accounts if resource in account.lens.names]
        seers = {
            name: frozenset(account.name for account in limiting if account.lens.cost(Claim(one, name)))
            for name in classes
        }
        # The classes that most quotas see first: what is left is for those that fewer see.
        order = sorted(seers, key=lambda name: -len(seers[name]))
        spread = _spread(order, seers, {account.name: needs[account.name][resource] for account in limiting})
        if spread is None:
            raise UntellableError(f"no bindings cost these quotas the {resource} that each is said to have used")
        for name, amount in spread.items():
            shares[name][resource] = amount
    return {name: Resources(amounts) if amounts else NOTHING for name, amounts in shares.items()}


def _spread(
    classes: Sequence[str], seers: Mapping[str, frozenset[str]], needs: Mapping[str, Quantity]
) -> dict[str, Quantity] | None:
    """An amount for each class, so that what each quota sees of them is what it needs; None if there is no such."""
    if not classes:
        return {} if all(need.is_zero for need in needs.values()) else None
    first, others = classes[0], classes[1:]
    most = min((needs[name] for name in seers[first]), default=ZERO)
    for amount in (most, ZERO):
        left = {name: need - amount if name in seers[first] else need for name, need in needs.items()}
        found = _spread(others, seers, left)
        if found is not None:
            return {first: amount, **found}
    return None
