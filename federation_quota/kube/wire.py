"""The shapes of what is read: the few fields of ResourceBindings, Works, Clusters and pods that are used, as they are
spelled on the wire.

Only `kube.codec` knows these; everything else sees values of the domain. Go leaves out what is empty and clients may
write `null` for it, so that whatever is optional may be either. Labels and annotations are declared by name: a
binding's others, a whole placement among them, are passed over without being built.
"""

import datetime
from typing import Any, Final

import msgspec

from federation_quota.stamp import CAPACITY_LABEL, HELD_LABEL, PENDING_ANNOTATION, PREEMPTIBLE_LABEL, STAMP_ANNOTATION


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
    capacity: str = msgspec.field(name=CAPACITY_LABEL, default="")


class BindingAnnotations(msgspec.Struct, gc=False):
    """Our annotations on a binding."""

    stamp: str | None = msgspec.field(name=STAMP_ANNOTATION, default=None)
    pending: str | None = msgspec.field(name=PENDING_ANNOTATION, default=None)


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
    """What one replica needs. Karmada writes a namespace where it has looked for a priority class, too."""

    resource_request: dict[str, str | int] | None = None
    namespace: str | None = None
    priority_class_name: str | None = None


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
    message: str | None = None


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


class OwnerReference(Shape):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class PodLabels(msgspec.Struct, gc=False):
    """What a Deployment's ReplicaSet writes on its pods: the end of its own name."""

    template_hash: str = msgspec.field(name="pod-template-hash", default="")


class PodMetadata(Shape):
    """A pod's metadata."""

    name: str
    namespace: str = ""
    deletion_timestamp: datetime.datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: PodLabels | None = None
    owner_references: list[OwnerReference] | None = None


class Resourced(Shape):
    """`resources`, a container's or a pod's."""

    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None


# What pods say about amounts is left as it came: as bytes it tells at once whether another pod said the same.
NOTHING: Final = msgspec.Raw(b"null")


class PodContainer(Shape):
    """An entry of `spec.containers` or `spec.initContainers`."""

    name: str = ""
    resources: msgspec.Raw = NOTHING
    restart_policy: str | None = None


class PodSpec(Shape):
    """A pod's spec."""

    containers: list[PodContainer] | None = None
    init_containers: list[PodContainer] | None = None
    resources: msgspec.Raw = NOTHING
    overhead: msgspec.Raw = NOTHING
    priority_class_name: str = ""


class ContainerStatus(Shape):
    """An entry of `status.containerStatuses` or `status.initContainerStatuses`."""

    name: str = ""
    resources: msgspec.Raw = NOTHING
    allocated_resources: msgspec.Raw = NOTHING


class PodStatus(Shape):
    """A pod's status."""

    phase: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodShape(Shape):
    """A Pod."""

    metadata: PodMetadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class SecretReference(Shape):
    """`spec.secretRef`."""

    namespace: str = ""
    name: str = ""


class ClusterSpec(Shape):
    """A Cluster's spec."""

    sync_mode: str = ""
    api_endpoint: str = ""
    secret_ref: SecretReference | None = None
    insecure_skip_tls_verification: bool | None = msgspec.field(name="insecureSkipTLSVerification", default=None)
    proxy_url: str | None = msgspec.field(name="proxyURL", default=None)
    proxy_header: dict[str, str] | None = None


class ClusterShape(Shape):
    """A Cluster of the federation."""

    metadata: Identity
    spec: ClusterSpec | None = None


class SecretShape(Shape):
    """A Secret's data, in base64 as it comes."""

    metadata: Identity
    data: dict[str, str] | None = None
