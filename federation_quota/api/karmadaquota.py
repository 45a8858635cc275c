"""KarmadaQuota: hard limits on what a namespace uses in all member clusters together.

`spec` and `status` have every field of Kubernetes' ResourceQuota, with its meaning. What goes beyond is ours.
"""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from federation_quota.api.meta import (
    ATOMIC_MAP,
    CATEGORY,
    GROUP,
    VERSION,
    Amounts,
    Conditions,
    Limits,
    Model,
    Name,
    ResourceVersion,
    Time,
    Uid,
    atomic_list,
    filled_in,
    rules,
)
from federation_quota.bounds import (
    LONGEST_MESSAGE,
    LONGEST_SHAPE,
    LONGEST_SUMMARY,
    MOST_CLUSTERS,
    MOST_JOINED,
    MOST_RESERVATIONS,
    MOST_WAITING,
)
from federation_quota.crd import AGE, Column, CustomResource
from federation_quota.validation import IMMUTABLE, UNSUPPORTED_SCOPE, VALUES_FORBIDDEN, VALUES_REQUIRED

# Not an enumeration: that would refuse without a reason.
ScopeName = Annotated[
    str, Field(max_length=64, json_schema_extra=rules(("self == 'PriorityClass'", UNSUPPORTED_SCOPE)))
]
Shape = Annotated[str, Field(max_length=LONGEST_SHAPE)]


class ScopedResourceSelectorRequirement(Model):
    """One condition on the priority class of a workload."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
                VALUES_REQUIRED,
            ),
            (
                "self.operator in ['In', 'NotIn'] || !has(self.values) || size(self.values) == 0",
                VALUES_FORBIDDEN,
            ),
            fieldPath=".values",
        )
    )

    scope_name: ScopeName
    """What is looked at: PriorityClass is the only scope."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In and NotIn compare with the values; NotIn selects workloads without a class too. Exists selects workloads with
    any class, DoesNotExist those without."""
    values: list[Annotated[str, Field(max_length=63)]] = atomic_list(128)
    """Names of priority classes. In and NotIn need at least one, Exists and DoesNotExist take none."""


class ScopeSelector(Model):
    """Conditions that must all hold."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    match_expressions: list[ScopedResourceSelectorRequirement] = atomic_list(16)
    """Conditions on the priority class of a workload. All must hold."""


class MemberUsage(Model):
    """What to do about pods that no binding accounts for."""

    policy: Literal["Report", "Charge"] = "Report"
    """Report shows what members use beyond what was bound to them; Charge counts it against the limits too."""
    grace_seconds: Annotated[int, Field(ge=0, le=86400)] = 300
    """How long use may stand above what was bound before it is reported or charged: rollouts surge for a while."""


class KarmadaQuotaSpec(Model):
    """What is limited, and for what."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(has(self.scopes) ? self.scopes : []).all(s, has(oldSelf.scopes) && s in oldSelf.scopes) && "
                "(has(oldSelf.scopes) ? oldSelf.scopes : []).all(s, has(self.scopes) && s in self.scopes)",
                IMMUTABLE,
            ),
            fieldPath=".scopes",
        )
    )

    hard: Limits = Field(default_factory=dict)
    """The limits, by resource: cpu, memory, ephemeral-storage, pods, hugepages-2Mi, extended resources such as
    nvidia.com/gpu, and counts of objects: services, secrets, configmaps, persistentvolumeclaims,
    count/deployments.apps. requests.cpu is cpu. A limit counts for all member clusters together. Refused, because a
    binding does not carry them: limits.*, storage, and the types of services."""
    scopes: list[ScopeName] = atomic_list(8)
    """With PriorityClass, the quota is only for workloads that have a priority class. Cannot be changed: use
    scopeSelector for what may change."""
    scope_selector: ScopeSelector | None = None
    """Which workloads the quota is for, by their priority class; all of them if absent. A quota with a scope limits
    pods, cpu, memory and extended resources, and counts no objects."""
    on_exceeded: Literal["Deny", "Hold", "Warn"] = "Deny"
    """What happens to a workload that does not fit. Deny refuses it with the reason. Hold accepts it and keeps it
    unscheduled until it fits. Warn lets it through, counts it and reports it."""
    member_usage: MemberUsage = filled_in(MemberUsage)
    """What to do about pods in the members that no binding accounts for."""


class ClusterUsage(Model):
    """The part of one member cluster."""

    name: Name
    """The name of the Cluster."""
    bound: Amounts = Field(default_factory=dict)
    """What bindings give to it, or had given to it where they are being evicted."""
    observed: Amounts = Field(default_factory=dict)
    """What its pods were last seen to request; absent where they were never seen, which is not the same as nothing."""
    unbound: Amounts = Field(default_factory=dict)
    """How much more was observed than was bound, all the time of spec.memberUsage.graceSeconds."""
    last_seen: Time | None = None
    """When the pods were last seen: brought up to date every few minutes, and when anything changes."""
    stale: bool | None = None
    """Whether the cluster is out of reach or not observed at all, and `observed`, if there, what was seen before."""
    message: Annotated[str, Field(max_length=LONGEST_MESSAGE)] | None = None
    """Why it is not observed."""


class Reservation(Model):
    """An admitted increase whose write has not been seen in the store yet."""

    id: Annotated[str, Field(max_length=64)]
    """One per admission review, never used again."""
    binding: Name
    """The name of the ResourceBinding."""
    uid: Uid | None = None
    """The binding's uid, where it is being created."""
    base: ResourceVersion | None = None
    """The binding's resourceVersion that the increase was judged against, where it is being updated."""
    charge: Amounts
    """All that the binding costs once the write is stored."""
    priority_class: Annotated[Name, Field(alias="class")]
    """The priority class of the workload; empty for none."""
    time: Time
    """When it was admitted."""


class Advance(Model):
    """Room that one webhook replica may give away without writing the quota each time."""

    id: Annotated[str, Field(max_length=64)]
    """Another one whenever the replica writes it."""
    replica: Name
    """The replica's name."""
    amounts: Amounts
    """How much it holds: nobody else can use it meanwhile."""
    granted: bool | None = None
    """Another replica has taken it for this one."""
    recalled: bool | None = None
    """Somebody needs the room: the replica gives back what it does not need."""


class Joined(Model):
    """One replica of the webhook that enforces this quota."""

    replica: Name
    """The replica's name."""
    shape: Shape
    """The shape that it joined for."""


class Waiting(Model):
    """A workload that was refused, and is tried again when something is freed."""

    binding: Name
    """The name of its ResourceBinding, which may not exist yet."""
    api_version: Annotated[str, Field(max_length=317)]
    """The apiVersion of the workload."""
    kind: Annotated[str, Field(max_length=63)]
    """The kind of the workload."""
    name: Name
    """The name of the workload."""
    priority_class: Annotated[Name, Field(alias="class")]
    """Its priority class; empty for none."""
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1, json_schema_extra={"format": "int32"})]
    """The value of that class: the highest is tried first."""
    charge: Amounts
    """All that it would cost."""
    since: Time
    """When it was first refused: among equals the oldest is tried first."""
    message: Annotated[str, Field(max_length=LONGEST_MESSAGE)]
    """What the refusal said."""


class KarmadaQuotaStatus(Model):
    """What is enforced and used. Written by the system alone."""

    hard: Amounts = Field(default_factory=dict)
    """The limits that are enforced."""
    used: Amounts = Field(default_factory=dict)
    """What is used of each limit, in all member clusters together: bindings, increases under way, and what is unbound
    where spec.memberUsage.policy is Charge."""
    summary: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """Used and limit of each resource, as kubectl get shows them: "cpu: 3/10, memory: 4Gi/20Gi"."""
    exceeded: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """The resources whose use is above their limit, as kubectl get shows them: "cpu, memory"; empty if none is."""
    clusters: list[ClusterUsage] = atomic_list(MOST_CLUSTERS)
    """How the use spreads over the member clusters. A cluster that is observed and has nothing is not listed."""
    unbound: Amounts = Field(default_factory=dict)
    """What member clusters use beyond what bindings account for, for longer than spec.memberUsage.graceSeconds: pods
    made there directly, or by DaemonSets, and what workloads ask for without saying so to Karmada."""
    reservations: list[Reservation] = atomic_list(MOST_RESERVATIONS)
    """Admitted increases that are not yet seen in the store; they count as used."""
    advances: list[Advance] = atomic_list(MOST_JOINED)
    """Room that webhook replicas hold in busy times, far from the limits; it does not count as used."""
    observed_binding_version: ResourceVersion | None = None
    """The resourceVersion of bindings that every replica must have seen before it decides for this quota."""
    shape: Shape | None = None
    """A digest of the selector and the limited resources that the replicas have joined for. Where the specification
    says something else by now, increases wait until all have joined again."""
    joined: list[Joined] = atomic_list(MOST_JOINED)
    """The webhook replicas that have joined."""
    waiting: list[Waiting] = atomic_list(MOST_WAITING)
    """Workloads that were refused and are tried again, highest priority first."""
    conditions: Conditions = Field(default_factory=list)
    """The state of the quota, for programs that wait for it."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that the status is for."""


class KarmadaQuota(Model):
    """KarmadaQuota limits what the workloads of a namespace use in all member clusters of the federation together. It
    reads like a ResourceQuota, but is decided once, at the control plane, before anything is scheduled."""

    spec: KarmadaQuotaSpec = filled_in(KarmadaQuotaSpec)
    """What is limited, and for what."""
    status: KarmadaQuotaStatus | None = None
    """What is enforced and used. Written by the system alone."""


RESOURCE: Final = CustomResource(
    model=KarmadaQuota,
    group=GROUP,
    version=VERSION,
    plural="karmadaquotas",
    scope="Namespaced",
    short_names=("kq",),
    categories=(CATEGORY,),
    columns=(
        Column("Request", ".status.summary", "Used and limit of each resource, in all member clusters together."),
        Column("Exceeded", ".status.exceeded", "The resources whose use is above their limit."),
        Column("On Exceeded", ".spec.onExceeded", "What happens to a workload that does not fit.", priority=1),
        AGE,
    ),
)
