"""What a manifest would ask for: its replicas, the request of each, its priority class.

The same numbers that Karmada's interpreter puts into a binding, worked out from the manifest itself: for the word that
users get before there is a binding, and to see that what goes to a member is what its binding was admitted with.

Like Karmada's, and unlike Kubernetes' own accounting, this knows neither restartable init containers nor requests at
pod level: both sides of a comparison must be counted alike. Never here: what the request costs (`charge`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from federation_quota.binding import Binding, TemplateRef
from federation_quota.quantity import ZERO, Quantity, QuantityError, from_json, parse
from federation_quota.resource_name import canonical
from federation_quota.resources import NOTHING, Resources

Manifest = Mapping[str, Any]
"""A Kubernetes object as JSON has it."""

REPLICAS: Final = "replicas"

# The kinds whose replicas Karmada reads without a customisation. ReplicationControllers are not among them: like
# DaemonSets and CronJobs they cost their object.
_SCALABLE: Final = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")})
_JOB: Final = ("batch", "Job")
_CRON_JOB: Final = ("batch", "CronJob")
_POD: Final = ("", "Pod")

# The kinds of the core group with pods. Of Kubernetes' other groups, apps and batch alone have such kinds.
_CORE_WITH_PODS: Final = frozenset({"Pod", "PodTemplate", "ReplicationController"})
_GROUPS_WITHOUT_PODS: Final = frozenset({"autoscaling", "policy"})

_MOST_REPLICAS: Final = 2**31 - 1
_MILLI: Final = 10**6
_NANO: Final = 10**9


class WorkloadError(ValueError):
    """A manifest's replicas or requests cannot be read."""


class Excess(NamedTuple):
    """Something of which a manifest has more than its binding was admitted with; `resource` may be `replicas`."""

    resource: str
    found: Quantity
    admitted: Quantity

    def __str__(self) -> str:
        return f"{self.resource}={self.found}, admitted {self.admitted}"


def replicas(manifest: Manifest) -> int | None:
    """How many replicas it asks for; None for a kind of which Karmada does not know any by itself.

    A number that is not given is 1, as the API server of a member would have it.
    """
    kind = _group_kind(manifest)
    if kind == _POD:
        return 1
    if kind in _SCALABLE:
        return _number(manifest, "replicas", 1)
    if kind == _JOB:
        parallelism = _number(manifest, "parallelism", 1)
        return min(parallelism, _number(manifest, "completions", parallelism))
    return None


def request(manifest: Manifest) -> Resources:
    """What one replica asks for, by canonical names; nothing where the manifest has no pod template."""
    pod = pod_spec(manifest)
    return NOTHING if pod is None else _request(pod)


def priority_class(manifest: Manifest) -> str:
    """The priority class its pods name, empty for none."""
    pod = pod_spec(manifest)
    name = None if pod is None else pod.get("priorityClassName")
    if name is not None and not isinstance(name, str):
        raise WorkloadError("priorityClassName is not text")
    return name or ""


def may_have_pods(template: TemplateRef) -> bool:
    """Whether a kind can have a pod template; of other people's kinds that is not known, so they may."""
    if not template.group:
        return template.kind in _CORE_WITH_PODS
    return template.group not in _GROUPS_WITHOUT_PODS and not template.group.endswith(".k8s.io")


def pod_spec(manifest: Manifest) -> Manifest | None:
    """The spec of the one kind of pod it makes: its own, its template's, or that of the Jobs it makes."""
    kind = _group_kind(manifest)
    spec = _child(manifest, "spec")
    if kind == _POD:
        return spec
    if kind == _CRON_JOB:
        spec = _child(_child(spec, "jobTemplate"), "spec")
    pod = _child(_child(spec, "template"), "spec")
    return pod if pod is not None and "containers" in pod else None


def exceeds(manifest: Manifest, binding: Binding, cluster: str) -> list[Excess]:
    """Of what this manifest, on its way to that cluster, has more than its binding was admitted with.

    - A kind whose replicas are known (`replicas`) may have as many as the binding gives the cluster, or gave it before
      it was evicted from there, and none where it gives nothing; each may ask for what a replica of the binding does.
    - Any other kind with a pod template is held to the same where its binding has replicas, which means that Karmada
      was taught to read it: its requests always, its replicas if they stand at `spec.replicas`.
    - Of a workload with components, every pod template in it is held to the largest request of any component. How
      many replicas it has is not compared: what of it Karmada counts differs from kind to kind.
    - Nothing is held against anything else: no admitted number says how many pods it makes, or how large.

    A view may be behind: whoever would refuse reads the binding itself first, and asks again.
    """
    if binding.components:
        largest = Resources.largest(component.request for component in binding.components)
        return [excess for pod in _pod_specs(manifest) for excess in _larger(_request(pod), largest)]

    found = replicas(manifest)
    if found is None:
        if not binding.replicas and not binding.request:
            return []
        if pod_spec(manifest) is not None and isinstance(manifest["spec"].get("replicas"), int):
            found = _number(manifest, "replicas", 0)
    excesses = _larger(request(manifest), binding.request)
    shares = (*binding.clusters, *binding.evicted)
    admitted = next((share.replicas for share in shares if share.name == cluster), 0)
    if found is not None and found > admitted:
        excesses.insert(0, Excess(REPLICAS, parse(found), parse(admitted)))
    return excesses


def _larger(found: Resources, admitted: Resources) -> list[Excess]:
    return [Excess(name, found[name], admitted[name]) for name in sorted(found) if found[name] > admitted[name]]


def _request(pod: Manifest) -> Resources:
    """Containers together, or the largest init container where that is more, and the overhead."""
    amounts: dict[str, Quantity] = {}
    for container in _children(pod, "containers"):
        for name, amount in _container_request(container).items():
            amounts[name] = amounts.get(name, ZERO) + amount
    for container in _children(pod, "initContainers"):
        for name, amount in _container_request(container).items():
            amounts[name] = max(amounts.get(name, ZERO), amount)
    for name, amount in _amounts(pod, "overhead").items():
        amounts[name] = amounts.get(name, ZERO) + amount
    return Resources((canonical(name), amount) for name, amount in amounts.items())


def _container_request(container: Manifest) -> dict[str, Quantity]:
    resources = _child(container, "resources")
    if resources is None:
        return {}
    # What is limited and not requested is requested up to its limit, as the API server of a member would have it.
    return _amounts(resources, "limits") | _amounts(resources, "requests")


def _amounts(parent: Manifest, field: str) -> dict[str, Quantity]:
    amounts = {}
    for name, value in (_child(parent, field) or {}).items():
        try:
            amount = from_json(value)
        except QuantityError as error:
            raise WorkloadError(f"{field}: {name[:80]}: {error}") from error
        if amount < ZERO:
            raise WorkloadError(f"{field}: {name[:80]}: {amount} is below zero")
        if _is_counted(name):
            amounts[name] = _rounded(name, amount)
    return amounts


def _is_counted(name: str) -> bool:
    if name in ("cpu", "memory", "ephemeral-storage"):
        return True
    is_qualified = "/" in name and not name.startswith("requests.")
    return is_qualified or name.startswith(("hugepages-", "attachable-volumes-"))


def _rounded(name: str, amount: Quantity) -> Quantity:
    # Karmada counts cpu in thousandths and everything else in whole units, and rounds each container's up.
    nano = amount.milli() * _MILLI if name == "cpu" else amount.whole() * _NANO
    return amount if nano == amount.nano else Quantity(nano, amount.format)


def _pod_specs(value: object) -> Iterator[Manifest]:
    """Every pod template's spec in a manifest, wherever it stands."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            template = node.get("template")
            spec = template.get("spec") if isinstance(template, Mapping) else None
            if isinstance(spec, Mapping) and "containers" in spec:
                yield spec
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)


def _group_kind(manifest: Manifest) -> tuple[str, str]:
    api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise WorkloadError("a manifest has an apiVersion and a kind")
    return api_version.rpartition("/")[0], kind


def _number(manifest: Manifest, field: str, otherwise: int) -> int:
    number = (_child(manifest, "spec") or {}).get(field)
    if number is None:
        return otherwise
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MOST_REPLICAS:
        raise WorkloadError(f"spec.{field} is no number of replicas")
    return number


def _child(parent: Manifest | None, field: str) -> Manifest | None:
    child = None if parent is None else parent.get(field)
    if child is not None and not isinstance(child, Mapping):
        raise WorkloadError(f"{field} is not an object")
    return child


def _children(parent: Manifest, field: str) -> list[Manifest]:
    children = parent.get(field) or []
    if not isinstance(children, list) or not all(isinstance(child, Mapping) for child in children):
        raise WorkloadError(f"{field} is not a list of objects")
    return children
