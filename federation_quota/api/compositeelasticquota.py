"""CompositeElasticQuota: one place in an elastic tree for several namespaces, or a parent of other quotas."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from federation_quota.api.elastic import COLUMNS, LabelSelector, NamespaceName, Offer, SharingSpec, SharingStatus
from federation_quota.api.meta import CATEGORY, GROUP, VERSION, Model, Name, atomic_list, filled_in, rules
from federation_quota.bounds import MOST_MANAGERS, MOST_NAMESPACES
from federation_quota.crd import CustomResource


class Manager(Model):
    """Somebody who may change what is below this quota."""

    kind: Literal["User", "Group"]
    """What it is the name of. A service account is a user: system:serviceaccount:NAMESPACE:NAME."""
    name: Annotated[Name, Field(min_length=1)]
    """The name, as the API server knows it."""


class Managed(Model):
    """Namespaces that managers may make quotas for."""

    namespaces: list[NamespaceName] = atomic_list(MOST_NAMESPACES)
    """Namespaces by name."""
    namespace_selector: LabelSelector | None = None
    """Namespaces by their labels: choose some that managers cannot set. A manager's own selector must ask for these,
    and may ask for more."""


class CompositeElasticQuotaSpec(SharingSpec):
    """For whom it is, what that is promised, what it may have, and how it shares."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.managers) || size(self.managers) == 0 || !(has(self.namespaceSelector) "
                "|| has(self.offeredTo) || (has(self.namespaces) && size(self.namespaces) > 0))",
                "managers manage the quotas below a parent, and a quota for namespaces has none below it",
            ),
            fieldPath=".managers",
        )
    )

    namespaces: list[NamespaceName] = atomic_list(MOST_NAMESPACES)
    """The namespaces whose workloads it is for. With neither these nor a selector nor an offer it is a parent, which
    has quotas below it and no workloads of its own."""
    namespace_selector: LabelSelector | None = None
    """The namespaces by their labels: for tenants who make namespaces as they like."""
    offered_to: Offer | None = None
    """Further namespaces whose workloads may choose it with the label quota.karmada.io/quota-name."""
    managers: list[Manager] = atomic_list(MOST_MANAGERS)
    """Who may make, change and delete the quotas below it, beside the administrators of the federation; not itself."""
    managed_namespaces: Managed | None = None
    """The namespaces that they may make quotas for. Without any they change what is there, and share out its min."""


class CompositeElasticQuota(Model):
    """CompositeElasticQuota is an elastic quota over several namespaces or, with none, a parent: a department whose
    teams name it as theirs, and share among each other what it has."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
                "a quota cannot be its own parent",
            ),
            fieldPath=".spec.parent",
        )
    )

    spec: CompositeElasticQuotaSpec = filled_in(CompositeElasticQuotaSpec)
    """For whom it is, what that is promised, what it may have, and how it shares."""
    status: SharingStatus | None = None
    """How it stands. Written by the system alone."""


RESOURCE: Final = CustomResource(
    model=CompositeElasticQuota,
    group=GROUP,
    version=VERSION,
    plural="compositeelasticquotas",
    scope="Cluster",
    short_names=("ceq",),
    categories=(CATEGORY,),
    columns=COLUMNS,
)
