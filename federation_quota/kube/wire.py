"""The shapes of what is read: the few fields of ResourceBindings, their lists and Works that are used, as they are
spelled on the wire.

Only `kube.codec` knows these; everything else sees values of the domain. Go leaves out what is empty and clients may
write `null` for it, so that whatever is optional may be either. Labels and annotations are declared by name: a
binding's others, a whole placement among them, are passed over without being built.
"""

from typing import Any

import msgspec

from federation_quota.stamp import HELD_LABEL, PREEMPTIBLE_LABEL, STAMP_ANNOTATION


class Shape(msgspec.Struct, gc=False, rename="camel"):
    """Fields named as Kubernetes names them. None can be part of a cycle: the collector need not look."""


class Identity(Shape):
    """What every stored object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str | None = None


class Identified(Shape):
    """Any object, by its metadata alone."""

    metadata: Identity


class BindingLabels(msgspec.Struct, gc=False):
    """Our labels on a binding."""

    held: str = msgspec.field(name=HELD_LABEL, default="")
    preemptible: str = msgspec.field(name=PREEMPTIBLE_LABEL, default="")


class BindingAnnotations(msgspec.Struct, gc=False):
    """Our annotation on a binding."""

    stamp: str | None = msgspec.field(name=STAMP_ANNOTATION, default=None)


class BindingMetadata(Shape):
    """A binding's metadata."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: BindingLabels | None = None
    annotations: BindingAnnotations | None = None


class Reference(Shape):
    """`spec.resource`."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class Requirements(Shape):
    """What one replica needs."""

    resource_request: dict[str, str | int] | None = None


class ComponentShape(Shape):
    """An entry of `spec.components`."""

    name: str
    replicas: int
    replica_requirements: Requirements | None = None


class ComponentReplicas(Shape):
    """An entry of `spec.clusters[].components`."""

    name: str
    replicas: int = 0


class TargetCluster(Shape):
    """An entry of `spec.clusters`."""

    name: str
    replicas: int | None = None
    components: list[ComponentReplicas] | None = None


class EvictionTask(Shape):
    """An entry of `spec.gracefulEvictionTasks`."""

    from_cluster: str
    replicas: int | None = None


class Snapshot(Shape):
    """An entry of `spec.requiredBy`."""

    clusters: list[TargetCluster] | None = None


class Suspension(Shape):
    """`spec.suspension`."""

    scheduling: bool | None = None


class ReplicaScheduling(Shape):
    """How replicas are placed; the field is always there, because the CRD fills it in."""

    replica_scheduling_type: str = ""


class SpreadConstraint(Shape):
    """Among how many clusters or regions."""

    min_groups: int | None = None


class Placement(Shape):
    """What of the policy decides how much must be placed."""

    replica_scheduling: ReplicaScheduling | None = None
    spread_constraints: list[SpreadConstraint] | None = None


class BindingSpec(Shape):
    """A binding's spec."""

    resource: Reference
    replicas: int | None = None
    replica_requirements: Requirements | None = None
    components: list[ComponentShape] | None = None
    clusters: list[TargetCluster] | None = None
    placement: Placement | None = None
    graceful_eviction_tasks: list[EvictionTask] | None = None
    required_by: list[Snapshot] | None = None
    suspension: Suspension | None = None
    preserve_resources_on_deletion: bool | None = None


class Condition(Shape):
    """A condition, a binding's or a Job's."""

    type: str = ""
    status: str = ""
    reason: str | None = None


class JobStatus(Shape):
    """What a member says of a Job."""

    conditions: list[Condition] | None = None


class AggregatedStatus(Shape):
    """An entry of `status.aggregatedStatus`; what it holds depends on the template's kind."""

    cluster_name: str
    status: msgspec.Raw = msgspec.Raw(b"null")


class BindingStatus(Shape):
    """A binding's status."""

    conditions: list[Condition] | None = None
    aggregated_status: list[AggregatedStatus] | None = None


class BindingShape(Shape):
    """A ResourceBinding."""

    metadata: BindingMetadata
    spec: BindingSpec
    status: BindingStatus | None = None


class WorkAnnotations(msgspec.Struct, gc=False):
    """Which binding a Work belongs to."""

    namespace: str = msgspec.field(name="resourcebinding.karmada.io/namespace", default="")
    name: str = msgspec.field(name="resourcebinding.karmada.io/name", default="")


class WorkMetadata(Shape):
    """A Work's metadata."""

    name: str
    namespace: str
    deletion_timestamp: str | None = None
    annotations: WorkAnnotations | None = None


class Workload(Shape):
    """`spec.workload`."""

    manifests: list[dict[str, Any]] | None = None


class WorkSpec(Shape):
    """A Work's spec."""

    workload: Workload


class WorkShape(Shape):
    """A Work."""

    metadata: WorkMetadata
    spec: WorkSpec
