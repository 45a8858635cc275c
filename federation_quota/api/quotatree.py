"""QuotaTree: the root of an elastic tree: which clusters are shared, and how."""

from typing import Annotated, Final, Literal

from pydantic import Field

from federation_quota.api.elastic import LabelSelector, NamespaceName
from federation_quota.api.limit import UserLimit
from federation_quota.api.meta import (
    CATEGORY,
    GROUP,
    VERSION,
    Amounts,
    Conditions,
    Limits,
    Model,
    Name,
    atomic_list,
    filled_in,
)
from federation_quota.bounds import LONGEST_SUMMARY, MOST_CLUSTERS, MOST_LIMITS, MOST_NAMESPACES
from federation_quota.crd import AGE, Column, CustomResource


class Reclaim(Model):
    """What happens to a quota that uses more than it may."""

    enabled: bool = True
    """Whether anything is taken back at all."""
    delay_seconds: Annotated[int, Field(ge=0, le=86400)] = 120
    """How long it may use more before its least important workloads give way."""


class SystemGroup(Model):
    """Namespaces that no quota binds; what they use is not shared."""

    namespaces: list[NamespaceName] = atomic_list(MOST_NAMESPACES)
    """Namespaces by name."""
    namespace_selector: LabelSelector | None = None
    """Namespaces by their labels."""


class QuotaTreeSpec(Model):
    """Which clusters are shared, and how."""

    cluster_selector: LabelSelector | None = None
    """The member clusters that the tree has, by the labels of their Cluster objects. The default tree without a
    selector has those that no other tree selects."""
    total: Limits | None = None
    """What there is to share; by default what the clusters that are Ready have, less what the system group uses."""
    mode: Literal["Runtime", "FairShare"] = "Runtime"
    """Runtime works out what each quota may use at any moment. FairShare lets quotas use whatever all were promised,
    and makes those that borrowed too much give way when it is wanted; it knows one level."""
    scale_min: bool = True
    """Whether mins shrink in proportion while there is less than all of them together."""
    keep_used: bool = False
    """Whether what a quota uses is guaranteed to it like its min, so that nothing is taken back."""
    reclaim: Reclaim = filled_in(Reclaim)
    """What happens to a quota that uses more than it may."""
    system_group: SystemGroup | None = None
    """Namespaces that no quota binds."""
    default_group: Name | None = None
    """The CompositeElasticQuota for workloads that fall under no other. Without one they are under no tree."""
    limits: list[UserLimit] = atomic_list(MOST_LIMITS)
    """What users and groups may have of the whole tree."""


class QuotaTreeStatus(Model):
    """What there is, and what of it is taken. Written by the system alone."""

    total: Amounts = Field(default_factory=dict)
    """What there is to share."""
    request: Amounts = Field(default_factory=dict)
    """What all of it is asked for."""
    used: Amounts = Field(default_factory=dict)
    """What all quotas use."""
    system_used: Amounts = Field(default_factory=dict)
    """What the system group uses."""
    min: Amounts = Field(default_factory=dict)
    """What the quotas of the first level were promised together: where that is more than there is, mins shrink."""
    clusters: list[Name] = atomic_list(MOST_CLUSTERS)
    """The member clusters that it has."""
    absent: list[Name] = atomic_list(MOST_CLUSTERS)
    """Those of them that are not Ready, and add nothing."""
    summary: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """Used and total of each resource, as kubectl get shows them."""
    conditions: Conditions = Field(default_factory=list)
    """The state of the tree, for programs that wait for it."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that the status is for."""


class QuotaTree(Model):
    """QuotaTree says which member clusters a tree of elastic quotas shares, and how. There is one called default even
    where nobody made it."""

    spec: QuotaTreeSpec = filled_in(QuotaTreeSpec)
    """Which clusters are shared, and how."""
    status: QuotaTreeStatus | None = None
    """What there is, and what of it is taken. Written by the system alone."""


RESOURCE: Final = CustomResource(
    model=QuotaTree,
    group=GROUP,
    version=VERSION,
    plural="quotatrees",
    scope="Cluster",
    short_names=("qt",),
    categories=(CATEGORY,),
    columns=(
        Column("Used", ".status.summary", "Used and total of each resource."),
        Column("Mode", ".spec.mode", "How it is shared."),
        AGE,
    ),
)
