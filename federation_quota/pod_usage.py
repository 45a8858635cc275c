"""What a pod uses of a quota, as Kubernetes' own quota evaluator works it out (1.36), in exact amounts.

Containers that run side by side are added up; init containers run one after the other, before them, beside the sidecars
that were started earlier, so that the most counts. What is set for the pod as a whole takes the place of that, the
overhead of its runtime comes on top. While a container is being resized the larger of what it has and what it asks for
counts. A pod that has ended, or that should have been gone by now, is an object and nothing else.

`PodTerms` are what a pod says that matters, as it stands there. Never here: how a pod is read (`kube.codec`), and what
its namespace and class pay for it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from federation_quota.quantity import parse
from federation_quota.resource_name import COUNT, PODS
from federation_quota.resources import NOTHING, Resources

LIMITS: Final = "limits."
_ONE: Final = parse(1)
_HUGE_PAGES: Final = "hugepages-"
_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_WHOLE_PODS: Final = frozenset({"cpu", "memory"})
_NATIVE: Final = "kubernetes.io/"
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"

ENDED: Final = frozenset({"Failed", "Succeeded"})
"""The phases in which a pod uses nothing any more."""
RUNNING: Final = "Running"
"""The phase of a pod that was started and has not ended."""
OBJECT: Final = Resources({COUNT + PODS: _ONE})
"""What every pod costs for as long as it is stored."""


class Requirements(NamedTuple):
    """Requests and limits: a container's, or those of a pod as a whole."""

    requests: Resources = NOTHING
    limits: Resources = NOTHING


NONE: Final = Requirements()


class Container(NamedTuple):
    """One container of a pod."""

    wanted: Requirements = NONE
    actual: Requirements | None = None
    """What it runs with, where its status says so."""
    allocated: Resources = NOTHING
    """What its node keeps for it."""
    is_sidecar: bool = False
    """An init container that is not waited for and keeps running."""


class PodTerms(NamedTuple):
    """What a pod says that its usage depends on."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    whole: Requirements = NONE
    """What is set for the pod as a whole."""
    overhead: Resources = NOTHING
    is_resize_infeasible: bool = False
    """Its node says that it will never get what it asks for now."""


def usage(terms: PodTerms) -> Resources:
    """All that a pod costs while it has not ended; `cpu` is Kubernetes' `cpu` and `requests.cpu` alike."""
    amounts = {PODS: _ONE}
    amounts.update((name, amount) for name, amount in requests(terms).items() if _is_counted(name))
    amounts.update((LIMITS + name, amount) for name, amount in limits(terms).items() if name in _COMPUTE)
    return OBJECT + Resources(amounts)


def requests(terms: PodTerms) -> Resources:
    """What the pod requests in all."""
    requested = _in_all(terms, _requested).items()
    whole = ((name, amount) for name, amount in terms.whole.requests.items() if _is_of_whole_pods(name))
    return Resources({**dict(requested), **dict(whole)}) + terms.overhead


def limits(terms: PodTerms) -> Resources:
    """What the pod is limited to in all."""
    limited = dict(_in_all(terms, _limited).items())
    limited.update((name, amount) for name, amount in terms.whole.limits.items() if _is_of_whole_pods(name))
    # What is not limited stays so, whatever its runtime takes.
    return Resources(limited) + Resources((name, amount) for name, amount in terms.overhead.items() if name in limited)


def gone_at(deleted_at: float | None, grace_seconds: int | None) -> float | None:
    """From when on a pod that is being deleted uses nothing, whether or not its node has said so.

    The time of the deletion has the grace in it already; Kubernetes adds it once more, and so does this.
    """
    return None if deleted_at is None or grace_seconds is None else deleted_at + grace_seconds


Part = Callable[[Container, bool], Resources]


def _in_all(terms: PodTerms, part: Part) -> Resources:
    running = Resources.sum(part(container, terms.is_resize_infeasible) for container in terms.containers)
    sidecars = most = NOTHING
    for container in terms.init_containers:
        if container.is_sidecar:
            own = part(container, terms.is_resize_infeasible)
            running += own
            sidecars += own
            most = most.maximum(sidecars)
        else:
            most = most.maximum(part(container._replace(actual=None), terms.is_resize_infeasible) + sidecars)
    return running.maximum(most)


def _requested(container: Container, is_infeasible: bool) -> Resources:
    if container.actual is None:
        return container.wanted.requests
    has = container.actual.requests.maximum(container.allocated)
    return has if is_infeasible else has.maximum(container.wanted.requests)


def _limited(container: Container, is_infeasible: bool) -> Resources:
    if container.actual is None:
        return container.wanted.limits
    return container.actual.limits if is_infeasible else container.actual.limits.maximum(container.wanted.limits)


def _is_of_whole_pods(name: str) -> bool:
    return name in _OF_WHOLE_PODS or name.startswith(_HUGE_PAGES)


def _is_counted(name: str) -> bool:
    """Whether Kubernetes' quotas know it: its own few, huge pages, and what others have added."""
    if "/" not in name:
        return name in _COMPUTE or name.startswith(_HUGE_PAGES)
    return name.startswith(_DEVICE_CLASS) or _NATIVE not in name
