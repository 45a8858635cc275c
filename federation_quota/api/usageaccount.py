"""UsageAccount: what one user, or one group, uses of a tree. Made, kept and removed by the system."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from federation_quota.api.elastic import LeafReservation, TreeName
from federation_quota.api.karmadaquota import Advance, Joined, Shape, Waiting
from federation_quota.api.limit import SubjectName
from federation_quota.api.meta import CATEGORY, GROUP, VERSION, Amounts, Model, ResourceVersion, atomic_list, rules
from federation_quota.bounds import (
    LONGEST_QUALIFIED,
    LONGEST_SUMMARY,
    MOST_JOINED,
    MOST_NODES,
    MOST_RESERVATIONS,
    MOST_WAITING,
)
from federation_quota.crd import AGE, Column, CustomResource
from federation_quota.validation import IMMUTABLE

Qualified = Annotated[str, Field(max_length=LONGEST_QUALIFIED)]


class UsageAccountSpec(Model):
    """Whose account it is."""

    model_config = ConfigDict(json_schema_extra=rules(("self == oldSelf", IMMUTABLE)))

    tree: TreeName
    """The QuotaTree."""
    kind: Literal["User", "Group"]
    """What it is the name of."""
    name: SubjectName
    """The user or the group as the API server knows it; '*' is all groups that no limit names."""


class UsageReservation(LeafReservation):
    """An admitted increase whose write has not been seen in the store yet."""

    leaf: Qualified
    """The quota that the workload is charged to."""


class NodeUsage(Model):
    """One quota of the tree on which there is a limit."""

    node: Qualified
    """The quota; empty for the tree itself."""
    used: Amounts
    """What is used of each resource that is limited here, in all below this quota."""
    max_resources: Amounts
    """The limit of each."""
    applications: Annotated[int, Field(ge=0)] | None = None
    """How many workloads with replicas there are, where that is limited."""
    max_applications: Annotated[int, Field(ge=0)] | None = None
    """How many there may be."""


class UsageWaiting(Waiting):
    """A workload that was refused, and is tried again when something is freed."""

    binding: Qualified
    """The namespace and name of its ResourceBinding, which may not exist yet."""
    leaf: Qualified
    """The quota that it would be charged to."""


class UsageAccountStatus(Model):
    """What is limited and used."""

    nodes: list[NodeUsage] = atomic_list(MOST_NODES)
    """The quotas that name it in a limit, and those where something is used of one."""
    summary: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """Used and limit of each, as kubectl get shows them: "vision: cpu 3/10, applications 1/2; tree lab: cpu 3/20"."""
    exceeded: Annotated[str, Field(max_length=LONGEST_SUMMARY)] | None = None
    """What is above its limit, as kubectl get shows it: "cpu on vision"; empty if nothing is."""
    reservations: list[UsageReservation] = atomic_list(MOST_RESERVATIONS)
    """Admitted increases that are not yet seen in the store; they count as used."""
    advances: list[Advance] = atomic_list(MOST_JOINED)
    """Room that webhook replicas hold in busy times, far from the limits; it does not count as used."""
    observed_binding_version: ResourceVersion | None = None
    """The resourceVersion of bindings that every replica must have seen before it decides for this account."""
    shape: Shape | None = None
    """A digest of the limits that are in force: those that all webhook replicas have joined for."""
    joined: list[Joined] = atomic_list(MOST_JOINED)
    """The webhook replicas that have joined."""
    waiting: list[UsageWaiting] = atomic_list(MOST_WAITING)
    """Workloads that were refused and are tried again, highest priority first."""


class UsageAccount(Model):
    """UsageAccount is what one user, or the members of one group, use of a tree, beside their limits. The system makes
    it when it is first needed, keeps it true, and removes it when nobody needs it any more."""

    spec: UsageAccountSpec
    """Whose account it is."""
    status: UsageAccountStatus | None = None
    """What is limited and used."""


RESOURCE: Final = CustomResource(
    model=UsageAccount,
    group=GROUP,
    version=VERSION,
    plural="usageaccounts",
    scope="Cluster",
    short_names=("ua",),
    categories=(CATEGORY,),
    columns=(
        Column("Tree", ".spec.tree", "The tree."),
        Column("Kind", ".spec.kind", "User or Group."),
        Column("Who", ".spec.name", "The user or the group."),
        Column("Used", ".status.summary", "Used and limit on each quota where there is one."),
        Column("Exceeded", ".status.exceeded", "What is above its limit."),
        AGE,
    ),
)
