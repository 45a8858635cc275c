"""What ElasticQuota and CompositeElasticQuota have in common: how a quota shares, and how it stands.

Never here: a kind. Called by the modules of the two kinds.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from federation_quota.api.karmadaquota import Joined, Reservation, Shape
from federation_quota.api.limit import UserLimit
from federation_quota.api.meta import (
    ATOMIC_MAP,
    Amounts,
    Conditions,
    Limits,
    Model,
    Name,
    ResourceVersion,
    Time,
    atomic_list,
)
from federation_quota.bounds import (
    LONGEST_LABEL,
    LONGEST_QUALIFIED,
    LONGEST_SUMMARY,
    MOST_ASKS,
    MOST_CLUSTERS,
    MOST_JOINED,
    MOST_LIMITS,
    MOST_NAMESPACES,
    MOST_RESERVATIONS,
    MOST_STRICT,
)
from federation_quota.crd import AGE, Column

TreeName = Annotated[str, Field(max_length=LONGEST_LABEL)]
NamespaceName = Annotated[str, Field(max_length=LONGEST_LABEL, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
LabelValue = Annotated[str, Field(max_length=LONGEST_LABEL)]
LabelKey = Annotated[str, Field(max_length=LONGEST_QUALIFIED)]


class LabelSelectorRequirement(Model):
    """One condition on a label."""

    key: LabelKey
    """The label that is looked at."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In and NotIn compare with the values; NotIn takes what has no such label too."""
    values: list[LabelValue] = atomic_list(128)
    """In and NotIn need at least one, Exists and DoesNotExist take none."""


class LabelSelector(Model):
    """Conditions on labels that must all hold; without any, everything is selected."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=64, json_schema_extra=ATOMIC_MAP)] = Field(
        default_factory=dict
    )
    """Labels, and the value that each must have."""
    match_expressions: list[LabelSelectorRequirement] = atomic_list(16)
    """Conditions on labels."""


class Offer(Model):
    """Namespaces that may choose a quota which is not theirs by itself."""

    namespaces: list[NamespaceName] = atomic_list(MOST_NAMESPACES)
    """Namespaces by name."""
    namespace_selector: LabelSelector | None = None
    """Namespaces by their labels."""


class SharingSpec(Model):
    """What a quota is promised, what it may have, and how it shares."""

    tree: TreeName = "default"
    """The QuotaTree that it is in."""
    parent: Name | None = None
    """The CompositeElasticQuota above it; without one it is on the first level of its tree."""
    min: Limits = Field(default_factory=dict)
    """What it can always have, by resource: cpu in thousandths, everything else in whole units. Below the first level
    the mins of siblings are together no more than their parent's."""
    max: Limits = Field(default_factory=dict)
    """What it can have at most. A resource that is in min and not here has no limit but what there is."""
    shared_weight: Limits = Field(default_factory=dict)
    """How strongly it competes for what others leave: as its max where nothing is said, or nothing but zeros."""
    allow_lent_resource: bool = True
    """Whether others may use what it leaves idle of its min."""
    scale_min: bool = True
    """Whether its min shrinks with the others' when there is less than all of them together."""
    admission: Limits | None = None
    """What may be asked for at most, workloads that wait included; a workload that asks for more is refused. cpu: 0
    takes in nothing new. Absent: whatever does not fit waits."""
    strict_max: list[LabelKey] = atomic_list(MOST_STRICT)
    """Resources whose max cannot be set below what is used."""
    limits: list[UserLimit] = atomic_list(MOST_LIMITS)
    """What users and groups may have of it, and of all that is below it: no more than on any quota above."""


class Ask(Model):
    """A refused increase that counts as demand until it is given, or too old."""

    binding: Annotated[str, Field(max_length=LONGEST_QUALIFIED)]
    """The namespace and name of the ResourceBinding."""
    charge: Amounts
    """All that it would have cost."""
    until: Time
    """When it no longer counts."""


class LeafReservation(Reservation):
    """An admitted increase whose write has not been seen in the store yet."""

    binding: Annotated[str, Field(max_length=LONGEST_QUALIFIED)]
    """The namespace and name of the ResourceBinding."""


class ClusterRunning(Model):
    """What runs in one member cluster."""

    name: Name
    """The name of the Cluster."""
    running: Amounts
    """What its running pods were last seen to request."""
    stale: bool | None = None
    """Whether the cluster is out of reach: what was last seen there stands."""
    last_seen: Time | None = None
    """When that was."""


class SharingStatus(Model):
    """How a quota stands. Written by the system alone."""

    request: Amounts = Field(default_factory=dict)
    """What is asked for: by workloads, running or waiting, and by what was refused lately; in a parent what those below
    ask for, each no more than its max."""
    used: Amounts = Field(default_factory=dict)
    """What was given to workloads, increases under way included; in a parent what those below it use."""
    running: Amounts = Field(default_factory=dict)
    """What running pods in the member clusters were last seen to request: less than used while they start, and more
    where something runs that no workload of the federation accounts for."""
    clusters: list[ClusterRunning] = atomic_list(MOST_CLUSTERS)
    """Where that runs; clusters in which nothing does are left out, and so is all of this in a parent."""
    runtime: Amounts = Field(default_factory=dict)
    """What it may use now. It follows what is asked for, here and elsewhere in the tree."""
    min: Amounts = Field(default_factory=dict)
    """What of its min is kept: less than spec.min only while there is less than all were promised."""
    guaranteed: Amounts = Field(default_factory=dict)
    """What cannot be taken from it; in a tree that shares fairly, its min and its part of what all leave idle."""
    borrowed: Amounts = Field(default_factory=dict)
    """How much more than its min it may use now."""
    lent: Amounts = Field(default_factory=dict)
    """How much of its min others may use meanwhile."""
    held: Annotated[int, Field(ge=0)] | None = None
    """How many workloads wait."""
    asks: list[Ask] = atomic_list(MOST_ASKS)
    """Increases that were refused lately: they count as asked for."""
    summary: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """Used and runtime of each resource, as kubectl get shows them: "cpu: 30/50, memory: 4Gi/8Gi"."""
    running_summary: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """What runs, as kubectl get shows it: "cpu: 28, memory: 4Gi"."""
    borrowing: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """What is borrowed, as kubectl get shows it: "cpu: 10"; empty if nothing is."""
    lending: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """What is lent, as kubectl get shows it; empty if nothing is."""
    reservations: list[LeafReservation] = atomic_list(MOST_RESERVATIONS)
    """Admitted increases that are not yet seen in the store; they count as used."""
    observed_binding_version: ResourceVersion | None = None
    """The resourceVersion of bindings that every replica must have seen before it decides for this quota."""
    shape: Shape | None = None
    """A digest of what the replicas have joined for."""
    joined: list[Joined] = atomic_list(MOST_JOINED)
    """The webhook replicas that have joined."""
    conditions: Conditions = Field(default_factory=list)
    """The state of the quota, for programs that wait for it."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that the status is for."""


COLUMNS: Final = (
    Column("Used", ".status.summary", "What is used of each resource, and what may be used now."),
    Column("Running", ".status.runningSummary", "What its running pods in the member clusters request."),
    Column("Borrowed", ".status.borrowing", "How much more that is than its min."),
    Column("Lent", ".status.lending", "How much of its min others may use meanwhile."),
    Column("Held", ".status.held", "How many workloads wait.", type="integer"),
    Column("Parent", ".spec.parent", "The quota above it."),
    Column("Tree", ".spec.tree", "The tree that it is in.", priority=1),
    AGE,
)
"""What lets `kubectl get eq,ceq` tell the story: who has how much, who borrows, who lends, who waits."""
