"""What a binding costs: what it asks for, and what it has been given.

Worked out from the binding and its stamp alone, so that every component, at any time, comes to the same amounts.
`Terms` are what a binding says that matters for its cost, as it stands there; `cost` makes amounts of them.

Never here: which account pays and whether it may (the ledger), how a binding is read (`kube.codec`), what a template
would ask for (`workload`).
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from federation_quota.binding import ClusterShare, Component
from federation_quota.quantity import ZERO, Quantity, QuantityError, parse
from federation_quota.resource_name import GPU_MEMORY, PODS, canonical, object_count
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import Stamp

Request = tuple[tuple[str, str | int], ...]
"""What one replica asks for, as a binding has it: names and quantities."""

_ONE: Final = parse(1)
_MOST_REPLICAS: Final = 2**31 - 1
_GPU: Final = "nvidia.com/gpu"
_MIG: Final = re.compile(r"nvidia\.com/mig-[0-9]+g\.([0-9]{1,6})gb(?:\.me)?(?:\.all)?")
_GPU_SLICE: Final = re.compile(r"nvidia\.com/gpu-([0-9]{1,6})gb")

# How many costs, and how many amounts, are remembered to be shared, and the largest of them.
_MOST_SHARED: Final = 8192
_LARGEST_SHARED: Final = 16
_MOST_FAULTS_TOLD: Final = 3


@dataclass(frozen=True, slots=True)
class Tariff:
    """What an installation says about costs."""

    gigabytes_per_gpu: int = 32
    """The memory that one `nvidia.com/gpu` counts for."""
    counts_gpu_slices: bool = False
    """Whether `nvidia.com/gpu-10gb` counts for 10 GB. Nos, whose quotas these are, leaves such slices out."""


STANDARD: Final = Tariff()


class ComponentTerms(NamedTuple):
    """One entry of `spec.components`."""

    name: str
    replicas: int
    request: Request = ()


class Target(NamedTuple):
    """One entry of `spec.clusters`; `components` where Karmada (from 1.19) says how many of each it has."""

    cluster: str
    replicas: int = 0
    components: tuple[tuple[str, int], ...] | None = None


class Terms(NamedTuple):
    """What a binding's spec and status say that its cost depends on."""

    api_version: str
    kind: str
    replicas: int = 0
    request: Request = ()
    components: tuple[ComponentTerms, ...] = ()
    targets: tuple[Target, ...] = ()
    evicted: tuple[ClusterShare, ...] = ()
    """`spec.gracefulEvictionTasks`: from where, and how many replicas it had there."""
    is_divided: bool = False
    """The replicas are divided among the clusters; otherwise each has them all."""
    minimum_clusters: int = 1
    """The fewest clusters the placement is content with (`minGroups`)."""
    is_required: bool = False
    """It is propagated because others depend on it (`spec.requiredBy` with clusters)."""
    is_held: bool = False
    finished: frozenset[str] = frozenset()
    """The clusters whose status says that the Job there is Complete or Failed."""


class Cost(NamedTuple):
    """A binding's amounts; `request` and `components` are what its replicas ask for, by canonical names."""

    demand: Resources = NOTHING
    assigned: Resources = NOTHING
    request: Resources = NOTHING
    components: tuple[Component, ...] = ()


class Unchargeable(ValueError):  # noqa: N818 # the domain's word
    """A binding says something no cost can be made of: a negative number, a quantity that is none.

    The webhook refuses such a binding with this text. Where one is stored already, `at_least` is the part that could be
    worked out, the unreadable left out and the negative counted as zero: a view keeps it *with* the reason, so that
    what is missing is missing openly.
    """

    def __init__(self, faults: list[str], at_least: Cost) -> None:
        more = f"; and {len(faults) - _MOST_FAULTS_TOLD} more" if len(faults) > _MOST_FAULTS_TOLD else ""
        super().__init__("; ".join(faults[:_MOST_FAULTS_TOLD]) + more)
        self.at_least = at_least


def cost(terms: Terms, stamp: Stamp, tariff: Tariff = STANDARD) -> Cost:
    """What the binding asks for and what it has; Unchargeable where that cannot be told.

    - Replicas: demand is `spec.replicas`, assigned the sum over `spec.clusters`, each times what one replica asks for,
      and as many `pods`. With components a cluster has the whole set, or what it lists itself; demand is one set.
    - The object: one `count/<plural>.<group>` in the demand, and in what is assigned once any cluster gets it,
      dependencies included. Where the stamp has no plural, as on bindings older than this system, it is formed from the
      kind as English does: an object counted under a name that is wrong for a few odd kinds is better than one
      not counted; the next write of the binding brings the stamp.
    - A finished Job costs its object and nothing else, as in Kubernetes, where it counts until it is deleted.
    """
    is_small = not terms.components and len(terms.request) + len(terms.targets) <= _LARGEST_SHARED
    return (_shared_cost if is_small else _cost)(terms, stamp.resource, tariff)


def replicas_cost(request: Resources, replicas: int, tariff: Tariff = STANDARD) -> Resources:
    """What so many replicas cost that each ask for this, their pods included and their object not."""
    return _per_replica(request, tariff) * replicas


def with_gpu_memory(amounts: Resources, tariff: Tariff = STANDARD) -> Resources:
    """The same, and the memory of the GPUs among them."""
    memory = ZERO
    for name, amount in amounts.items():
        if name == _GPU:
            memory += amount * tariff.gigabytes_per_gpu
        elif profile := _MIG.fullmatch(name) or (tariff.counts_gpu_slices and _GPU_SLICE.fullmatch(name)):
            memory += amount * int(profile[1])
    return amounts + Resources({GPU_MEMORY: memory})


def is_finished(terms: Terms) -> bool:
    """Whether it is a Job of which nothing runs any more, nor will.

    It must have ended, either way, in every cluster it was given to, and all of its replicas must have been given to
    one: a Job without clusters, or one with evicted replicas that the scheduler has yet to place again, has not.
    The status is Karmada's and follows the spec: for the moment between a cluster being taken away and given again, it
    may still speak of the earlier run.
    """
    is_job = terms.kind == "Job" and terms.api_version.startswith("batch/")
    if not is_job or not terms.targets or not terms.finished.issuperset(target.cluster for target in terms.targets):
        return False
    return sum(target.replicas for target in terms.targets) >= terms.replicas


def keep_evicted(given: int, evicted: int, due: int) -> int:
    """How much counts as assigned during a failover, in replicas or in whole copies.

    Karmada first takes the cluster out of `spec.clusters` and notes its replicas in a task; later its scheduler gives
    what is missing to other clusters; the task stays until those are healthy, or its time is over. `due` is how much
    the scheduler must give in the end: `spec.replicas` where they are divided, and where each cluster has them all,
    that many for each of the clusters the placement cannot do without. So

    - as long as less than due is given, the evicted replicas fill the gap: nobody takes their place meanwhile;
    - once all of it is given, they have been replaced, and cost nothing although some may still run, so that
      a failover does not need its quota twice;
    - what is evicted beyond that is not charged: no scheduler is bound to replace it. A copy beyond `minGroups` is
      such a one: whether the clusters there are now are what was left or what came since, no binding says, and to
      charge it could stop the very write that replaces it. It is free to go, and is admitted anew when it comes.

    The result is never above max(given before, due), whatever has been evicted and replaced in between.
    """
    return max(given, min(given + evicted, due))


def _cost(terms: Terms, plural: str, tariff: Tariff) -> Cost:
    objects = object_count(plural or _plural(terms.kind), terms.api_version.rpartition("/")[0])
    faults: list[str] = []
    price = _price_components if terms.components else _price_replicas
    result = price(terms, objects, tariff, faults)
    if faults:
        raise Unchargeable(faults, result)
    return result


# Most bindings look like others: a list of a hundred thousand is worked out in a few thousand calculations. What
# raises is not remembered.
_shared_cost: Final = lru_cache(maxsize=_MOST_SHARED)(_cost)


def _price_replicas(terms: Terms, objects: str, tariff: Tariff, faults: list[str]) -> Cost:
    request = _read_request(terms.request, "spec.replicaRequirements", faults)
    demanded = _count(terms.replicas, "spec.replicas", faults)
    given = 0
    for target in terms.targets:
        given += _count(target.replicas, f"spec.clusters: {target.cluster}: replicas", faults)
    evicted = 0
    for share in terms.evicted:
        evicted += _count(share.replicas, f"spec.gracefulEvictionTasks: {share.name}: replicas", faults)
    if is_finished(terms):
        object_alone = _bill(request, 0, objects, tariff)
        return Cost(object_alone, object_alone, request)
    if not terms.is_held:
        # Nothing is to replace what was evicted from a held binding, so that no place is kept for it.
        given = keep_evicted(given, evicted, demanded * _due_copies(terms))
    return Cost(
        demand=_bill(request, demanded, objects, tariff),
        assigned=_bill(request, given, objects if _is_placed(terms) else "", tariff),
        request=request,
    )


def _price_components(terms: Terms, objects: str, tariff: Tariff, faults: list[str]) -> Cost:
    components = []
    prices: dict[str, Resources] = {}
    costs = []
    for name, replicas, request in terms.components:
        where = f"spec.components: {name}"
        count = _count(replicas, f"{where}: replicas", faults)
        component = Component(name, count, _read_request(request, where, faults))
        components.append(component)
        price = _per_replica(component.request, tariff)
        costs.append(price * component.replicas)
        # Names are unique, or should be: of two the dearer is meant.
        prices[name] = price.maximum(prices.get(name, NOTHING))
    whole = Resources.sum(costs)
    copies = 0
    counts: dict[str, int] = {}
    for target in terms.targets:
        if target.components is None:
            copies += 1
            continue
        for name, replicas in target.components:
            where = f"spec.clusters: {target.cluster}: components: {name}"
            count = _count(replicas, f"{where}: replicas", faults)
            if name not in prices:
                faults.append(f"{where}: spec.components has none of that name")
                continue
            counts[name] = counts.get(name, 0) + count
    if not terms.is_held:
        targets = len(terms.targets)
        copies += keep_evicted(targets, len(terms.evicted), _due_copies(terms)) - targets
    given = Resources.sum([whole * copies, *(prices[name] * count for name, count in counts.items())])
    one = Resources({objects: _ONE})
    return Cost(
        demand=_shared(whole + one),
        assigned=_shared(given + one if _is_placed(terms) else given),
        components=tuple(components),
    )


def _is_placed(terms: Terms) -> bool:
    """Whether any cluster has the object, or is to have it in place of one that it was evicted from."""
    return bool(terms.targets or terms.is_required or (terms.evicted and not terms.is_held))


def _due_copies(terms: Terms) -> int:
    return 1 if terms.is_divided else max(1, terms.minimum_clusters)


def _count(number: int, where: str, faults: list[str]) -> int:
    if 0 <= number <= _MOST_REPLICAS:
        return number
    faults.append(f"{where}: {number} is no number of replicas")
    return 0 if number < 0 else _MOST_REPLICAS


def _read_request(items: Request, where: str, faults: list[str]) -> Resources:
    try:
        return _shared(_canonical_request(items))
    except QuantityError:
        # Again, one at a time: every fault is told, and what can be read is counted.
        readable = []
        for item in items:
            try:
                _canonical_request((item,))
            except QuantityError as error:
                faults.append(f"{where}: resourceRequest: {item[0][:80]}: {error}")
            else:
                readable.append(item)
        return _canonical_request(tuple(readable))


def _canonical_request(items: Request) -> Resources:
    amounts: dict[str, Quantity] = {}
    for given_name, text in items:
        name, amount = canonical(given_name), parse(text)
        if amount < ZERO:
            raise QuantityError(f"{amount} is below zero")
        amounts[name] = amounts[name] + amount if name in amounts else amount
    # A replica is a pod, whatever it says of pods itself.
    amounts.pop(PODS, None)
    return Resources(amounts)


def _per_replica(request: Resources, tariff: Tariff) -> Resources:
    """One replica's request, its pod, and the GPU memory that goes with its GPUs."""
    return with_gpu_memory(request, tariff) + Resources({PODS: _ONE})


def _bill(request: Resources, count: int, objects: str, tariff: Tariff) -> Resources:
    amounts = _per_replica(request, tariff) * count
    return _shared(amounts + Resources({objects: _ONE}) if objects else amounts)


def _shared(amounts: Resources) -> Resources:
    """Equal amounts as one object. Large ones are left alone: nobody fills the memory with them."""
    return _remembered(amounts) if len(amounts) <= _LARGEST_SHARED else amounts


@lru_cache(maxsize=_MOST_SHARED)
def _remembered(amounts: Resources) -> Resources:
    return amounts


def _plural(kind: str) -> str:
    """What a kind is called in the plural, where nobody has said."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith(("s", "x", "ch", "sh")):
        return name + "es"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return name[:-1] + "ies"
    return name + "s"
