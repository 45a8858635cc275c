"""Bytes into values: the one place where JSON from an API server is decoded.

Only the fields that are used are declared, and only they are built: a page of bindings takes a small part of the time
that parsing it whole would (`python -m bench decode`), on the event loop where everything else waits meanwhile.

What cannot be decoded is a `CodecError` that names the object and the field. In a list or a watch that must not cost
the other objects, nor may the one go missing: it comes as a `Binding` with a `fault` and no amounts (see
`Binding.at_least`), and one without so much as a name as an error. An account with a faulty binding is not complete,
and whoever keeps it has to say so.

Never here: what the fields mean. Amounts come from `charge`, stamps from `stamp`.
"""

from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from federation_quota import charge, pending, pod_usage, stamp
from federation_quota.binding import Binding, ClusterShare, ObjectKey, TemplateRef
from federation_quota.charge import STANDARD, ComponentTerms, Target, Tariff, Terms
from federation_quota.kube import wire
from federation_quota.pod import Footprint, Pod, Workload
from federation_quota.pod_usage import Container, PodTerms, Requirements
from federation_quota.quantity import QuantityError
from federation_quota.resource_name import COUNT, canonical
from federation_quota.resources import NOTHING, Resources

Encoded = bytes | msgspec.Raw
"""One JSON value: what came over the wire, or the part of it that an envelope held."""

REVIEW_VERSION: Final = "admission.k8s.io/v1"

_LONGEST_VERSION: Final = 20
_NONE: Final[frozenset[str]] = frozenset()

T = TypeVar("T")


class CodecError(ValueError):
    """Bytes are not what they should be; the text names the object and the field."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """What kind of object a review is about."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(msgspec.Struct, frozen=True):
    """Through which resource a reviewed request came."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """Who sent a reviewed request."""

    username: str = ""
    groups: tuple[str, ...] = ()


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """What an API server asks a webhook to judge. The objects are left as they came, for the decoder of their kind."""

    uid: str
    operation: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    user_info: UserInfo = UserInfo()
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")
    """The object as it would be stored; `null` in a deletion."""
    old_object: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class Work:
    """A Work: what goes to one member cluster on behalf of one binding."""

    key: ObjectKey
    cluster: str
    binding: ObjectKey | None
    """None for a Work that no ResourceBinding stands behind."""
    manifests: tuple[dict[str, Any], ...]
    is_deleting: bool


def decode_binding(body: Encoded, tariff: Tariff = STANDARD) -> Binding:
    """The binding in an object's bytes, `fault` and all; CodecError where it is none."""
    return _binding(_decode(_BINDING, body, "ResourceBinding"), tariff)


def decode_stored_binding(body: Encoded, tariff: Tariff = STANDARD) -> Binding:
    """The same for what is stored and must be counted: faulty instead of an error, as long as it has a name."""
    try:
        return decode_binding(body, tariff)
    except CodecError as error:
        found = _decode(_IDENTITY, body, "ResourceBinding").metadata
        if not found.name:
            raise
        return Binding(
            key=ObjectKey(intern(found.namespace), found.name),
            uid=found.uid,
            version=parse_version(found.resource_version),
            template=TemplateRef(api_version="", kind="", namespace=found.namespace, name=""),
            fault=str(error),
        )


def decode_version(body: Encoded) -> int:
    """The resourceVersion of any object, a bookmark's for one."""
    return parse_version(_decode(_IDENTITY, body, "object").metadata.resource_version)


def decode_key_and_version(body: Encoded) -> tuple[ObjectKey, int]:
    """The name and resourceVersion of any object."""
    metadata = _decode(_IDENTITY, body, "object").metadata
    return ObjectKey(metadata.namespace, metadata.name), parse_version(metadata.resource_version)


def decode_review(body: bytes) -> AdmissionRequest:
    """The request of an AdmissionReview."""
    review = _decode(_REVIEW, body, "AdmissionReview")
    if review.kind != "AdmissionReview" or review.api_version != REVIEW_VERSION:
        raise CodecError(
            f"{review.kind[:80]!r} of {review.api_version[:80]!r} is not an AdmissionReview of {REVIEW_VERSION}"
        )
    if review.request is None:
        raise CodecError("AdmissionReview: it has no request")
    return review.request


def decode_object(body: Encoded) -> dict[str, Any]:
    """Any object, whole. Numbers with a fraction stay the text that they were written as."""
    return _decode(_OBJECT, body, "object")


def decode_work(body: Encoded) -> Work:
    """A Work and its manifests, whole."""
    work = _decode(_WORK, body, "Work")
    metadata, source = work.metadata, work.metadata.annotations
    return Work(
        key=ObjectKey(metadata.namespace, metadata.name),
        cluster=metadata.namespace.removeprefix("karmada-es-"),
        binding=ObjectKey(source.namespace, source.name) if source and source.name else None,
        manifests=tuple(work.spec.workload.manifests or ()),
        is_deleting=metadata.deletion_timestamp is not None,
    )


def decode_pod(body: Encoded, tariff: Tariff = STANDARD) -> Pod:
    """A pod of a member cluster, and what it comes to."""
    found = _decode(_POD, body, "Pod")
    metadata = found.metadata
    key = ObjectKey(intern(metadata.namespace), metadata.name)
    spec, status = found.spec or _NO_POD_SPEC, found.status or _NO_POD_STATUS
    if status.phase in pod_usage.ENDED:
        return Pod(key, None)
    kind, name = _workload(metadata)
    try:
        is_running = status.phase == pod_usage.RUNNING
        footprint = _footprint(_said(spec, status), spec.priority_class_name, kind, name, is_running, tariff)
    except (QuantityError, *_ERRORS) as error:
        raise CodecError(f"Pod {key}: {error}") from error
    deleted = metadata.deletion_timestamp
    if deleted is None:
        return Pod(key, footprint)
    return Pod(key, footprint, pod_usage.gone_at(deleted.timestamp(), metadata.deletion_grace_period_seconds))


def pod_terms(body: Encoded) -> PodTerms:
    """What a pod says that its usage depends on."""
    found = _decode(_POD, body, "Pod")
    return _pod_terms(_said(found.spec or _NO_POD_SPEC, found.status or _NO_POD_STATUS))


def decode_cluster(body: Encoded) -> wire.ClusterShape:
    """A Cluster of the federation, as it is spelled there."""
    return _decode(_CLUSTER, body, "Cluster")


def decode_secret(body: Encoded) -> dict[str, str]:
    """A Secret's data, in base64 as it comes. What cannot be read is not repeated in the error."""
    try:
        return _SECRET.decode(body).data or {}
    except _ERRORS:
        raise CodecError("a Secret that cannot be read") from None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


# Made once: a decoder works out its types when it is made.
_BINDING: Final = msgspec.json.Decoder(wire.BindingShape)
_IDENTITY: Final = msgspec.json.Decoder(wire.Identified)
_JOB_STATUS: Final = msgspec.json.Decoder(wire.JobStatus)
_REVIEW: Final = msgspec.json.Decoder(_Review)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any], float_hook=str)
_WORK: Final = msgspec.json.Decoder(wire.WorkShape, float_hook=str)
_CLUSTER: Final = msgspec.json.Decoder(wire.ClusterShape)
_SECRET: Final = msgspec.json.Decoder(wire.SecretShape)
_POD: Final = msgspec.json.Decoder(wire.PodShape)
_RESOURCED: Final = msgspec.json.Decoder(wire.Resourced | None)
_AMOUNTS: Final = msgspec.json.Decoder(dict[str, str | int] | None)

NO_CLUSTER_SPEC: Final = wire.ClusterSpec()
_NO_POD_SPEC: Final = wire.PodSpec()
_NO_POD_STATUS: Final = wire.PodStatus()
_NULL: Final = bytes(wire.NOTHING)
# How many sorts of pods are remembered to be shared.
_MOST_FOOTPRINTS: Final = 16384

# What decoding raises: RecursionError for brackets nested deeper than Python's stack.
_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _decode(decoder: msgspec.json.Decoder[T], body: Encoded, what: str) -> T:
    try:
        return decoder.decode(body)
    except _ERRORS as error:
        name = what
        try:
            found = _IDENTITY.decode(body).metadata
            name = f"{what} {found.namespace}/{found.name}"
        except _ERRORS:
            pass
        raise CodecError(f"{name}: {error}") from error


def _binding(shape: wire.BindingShape, tariff: Tariff) -> Binding:
    metadata, spec = shape.metadata, shape.spec
    ours = _stamp(metadata.annotations, spec)
    is_suspended = spec.suspension is not None and spec.suspension.scheduling is True
    is_held = is_suspended and metadata.labels is not None and metadata.labels.held == stamp.TRUE
    terms = _terms(spec, shape.status, is_held)
    fault = ""
    try:
        amounts = charge.cost(terms, ours, tariff)
    except charge.Unchargeable as error:
        amounts, fault = error.at_least, str(error)
    return Binding(
        key=ObjectKey(intern(metadata.namespace), metadata.name),
        uid=metadata.uid,
        version=parse_version(metadata.resource_version),
        template=template_ref(spec.resource),
        demand=amounts.demand,
        assigned=amounts.assigned,
        request=amounts.request,
        replicas=terms.replicas,
        components=amounts.components,
        clusters=tuple([_share(*target) for target in terms.targets]),
        evicted=terms.evicted,
        is_held=is_held,
        is_suspended=is_suspended,
        is_deleting=metadata.deletion_timestamp is not None,
        is_preserved=spec.preserve_resources_on_deletion is True,
        is_preemptible=metadata.labels is None or metadata.labels.preemptible != stamp.FALSE,
        capacity=intern(metadata.labels.capacity) if metadata.labels is not None else "",
        stamp=ours,
        scheduled_reason=_scheduled_reason(shape.status),
        pending=pending.decode(metadata.annotations.pending) if metadata.annotations is not None else None,
        said_pending=_said_pending(shape.status),
        created=metadata.creation_timestamp or "",
        fault=fault,
    )


def _stamp(annotations: wire.BindingAnnotations | None, spec: wire.BindingSpec) -> stamp.Stamp:
    """What is stamped on a binding, or what it says itself."""
    if annotations is not None and annotations.stamp is not None:
        return stamp.decode(annotations.stamp)
    needs = spec.replica_requirements
    if needs is None or not needs.namespace or needs.priority_class_name:
        return stamp.NO_STAMP
    return stamp.implied(spec.resource.api_version, spec.resource.kind)


def _terms(spec: wire.BindingSpec, status: wire.BindingStatus | None, is_held: bool) -> Terms:
    placement = spec.placement
    scheduling = placement.replica_scheduling if placement else None
    constraints = (placement.spread_constraints if placement else None) or ()
    components = spec.components or ()
    tasks = spec.graceful_eviction_tasks or ()
    return Terms(
        api_version=spec.resource.api_version,
        kind=spec.resource.kind,
        replicas=spec.replicas or 0,
        request=_request(spec.replica_requirements),
        components=tuple([_component(component) for component in components]),
        targets=tuple([_target(target) for target in spec.clusters or ()]),
        evicted=tuple([_share(task.from_cluster, task.replicas or 0) for task in tasks]),
        is_divided=scheduling is not None and scheduling.replica_scheduling_type == "Divided",
        minimum_clusters=max([constraint.min_groups or 1 for constraint in constraints], default=1),
        is_required=any(snapshot.clusters for snapshot in spec.required_by or ()),
        is_held=is_held,
        finished=_finished(status) if spec.resource.kind == "Job" else _NONE,
    )


def _component(component: wire.ComponentShape) -> ComponentTerms:
    return ComponentTerms(component.name, component.replicas, _request(component.replica_requirements))


def _request(requirements: wire.Requirements | None) -> charge.Request:
    request = requirements.resource_request if requirements else None
    return tuple(request.items()) if request else ()


def _target(target: wire.TargetCluster) -> Target:
    components = tuple([(component.name, component.replicas) for component in target.components or ()])
    return Target(intern(target.name), target.replicas or 0, components or None)


@lru_cache(maxsize=8192)
def _share(name: str, replicas: int, components: tuple[tuple[str, int], ...] | None = None) -> ClusterShare:
    return ClusterShare(intern(name), replicas, components)


def template_ref(reference: wire.Reference) -> TemplateRef:
    """The object that a binding names."""
    return TemplateRef(
        api_version=intern(reference.api_version),
        kind=intern(reference.kind),
        namespace=intern(reference.namespace or ""),
        name=reference.name,
        uid=reference.uid or "",
        version=_number(reference.resource_version) or 0,
    )


def _finished(status: wire.BindingStatus | None) -> frozenset[str]:
    """The clusters whose Job says that it has ended; what is not a Job's status says nothing."""
    ended = set()
    for item in (status.aggregated_status if status else None) or ():
        try:
            conditions = _JOB_STATUS.decode(item.status).conditions or ()
        except _ERRORS:
            continue
        if any(condition.type in ("Complete", "Failed") and condition.status == "True" for condition in conditions):
            ended.add(item.cluster_name)
    return frozenset(ended)


def _scheduled_reason(status: wire.BindingStatus | None) -> str:
    for condition in (status.conditions if status else None) or ():
        if condition.type == "Scheduled" and condition.status == "False":
            return intern(condition.reason or "")
    return ""


def _said_pending(status: wire.BindingStatus | None) -> str:
    for condition in (status.conditions if status else None) or ():
        if condition.type == pending.CONDITION:
            return condition.message or " "
    return ""


def parse_version(text: str | None) -> int:
    """A resourceVersion as the number it is, so that versions can be compared; 0 for what is not stored."""
    version = _number(text)
    if version is None:
        raise CodecError(f"resourceVersion: {(text or '')[:40]!r} is not a number")
    return version


def _number(text: str | None) -> int | None:
    if not text:
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_VERSION else None


class _SaidContainer(NamedTuple):
    """What a pod says about one container, undecoded."""

    wanted: bytes
    actual: bytes
    allocated: bytes
    is_sidecar: bool


class _Said(NamedTuple):
    """What a pod says about amounts, undecoded. Where this is equal, so is what it comes to."""

    containers: tuple[_SaidContainer, ...]
    init_containers: tuple[_SaidContainer, ...]
    whole: bytes
    overhead: bytes
    is_resize_infeasible: bool


def _said(spec: wire.PodSpec, status: wire.PodStatus) -> _Said:
    return _Said(
        _said_containers(spec.containers, status.container_statuses),
        _said_containers(spec.init_containers, status.init_container_statuses),
        bytes(spec.resources),
        bytes(spec.overhead),
        any(one.type == "PodResizePending" and one.reason == "Infeasible" for one in status.conditions or ()),
    )


def _said_containers(
    containers: list[wire.PodContainer] | None, statuses: list[wire.ContainerStatus] | None
) -> tuple[_SaidContainer, ...]:
    if not containers:
        return ()
    known = {one.name: one for one in statuses} if statuses else {}
    said = []
    for one in containers:
        status = known.get(one.name)
        actual = bytes(status.resources) if status else _NULL
        allocated = bytes(status.allocated_resources) if status else _NULL
        said.append(_SaidContainer(bytes(one.resources), actual, allocated, one.restart_policy == "Always"))
    return tuple(said)


def _workload(metadata: wire.PodMetadata) -> tuple[str, str]:
    """Kind and name of what the pod was made by: of a Deployment, whose ReplicaSet is called after it."""
    for owner in metadata.owner_references or ():
        if owner.controller:
            tail = f"-{metadata.labels.template_hash}" if metadata.labels and metadata.labels.template_hash else ""
            if tail and owner.kind == "ReplicaSet" and owner.name.endswith(tail):
                return "Deployment", owner.name.removesuffix(tail)
            return owner.kind, owner.name
    return "", ""


@lru_cache(maxsize=_MOST_FOOTPRINTS)
def _footprint(said: _Said, priority_class: str, kind: str, name: str, is_running: bool, tariff: Tariff) -> Footprint:
    workload = Workload(intern(kind), name) if name else None
    return Footprint(_pod_usage(said, tariff), intern(priority_class), workload, is_running)


@lru_cache(maxsize=_MOST_FOOTPRINTS)
def _pod_usage(said: _Said, tariff: Tariff) -> Resources:
    used = pod_usage.usage(_pod_terms(said))
    return charge.with_gpu_memory(Resources((name, used[name]) for name in used if not name.startswith(COUNT)), tariff)


def _pod_terms(said: _Said) -> PodTerms:
    return PodTerms(
        containers=tuple([_container(one) for one in said.containers]),
        init_containers=tuple([_container(one) for one in said.init_containers]),
        whole=_requirements(said.whole) or pod_usage.NONE,
        overhead=_amounts(_AMOUNTS.decode(said.overhead)),
        is_resize_infeasible=said.is_resize_infeasible,
    )


def _container(said: _SaidContainer) -> Container:
    return Container(
        wanted=_requirements(said.wanted) or pod_usage.NONE,
        actual=_requirements(said.actual),
        allocated=_amounts(_AMOUNTS.decode(said.allocated)),
        is_sidecar=said.is_sidecar,
    )


def _requirements(body: bytes) -> Requirements | None:
    found = _RESOURCED.decode(body)
    return None if found is None else Requirements(_amounts(found.requests), _amounts(found.limits))


def _amounts(texts: dict[str, str | int] | None) -> Resources:
    return Resources.parse({canonical(name): text for name, text in texts.items()}) if texts else NOTHING
