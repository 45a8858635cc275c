"""ElasticQuota: a namespace's place in an elastic tree."""

from typing import Final

from federation_quota.api.elastic import COLUMNS, Offer, SharingSpec, SharingStatus
from federation_quota.api.meta import CATEGORY, GROUP, VERSION, Model, filled_in
from federation_quota.crd import CustomResource


class ElasticQuotaSpec(SharingSpec):
    """What the namespace is promised, what it may have, and how it shares."""

    offered_to: Offer | None = None
    """Namespaces beside its own whose workloads may choose it with the label quota.karmada.io/quota-name."""


class ElasticQuota(Model):
    """ElasticQuota promises the workloads of a namespace a min in all member clusters together, lets them borrow what
    others leave idle up to max, and takes back what was borrowed when it is wanted."""

    spec: ElasticQuotaSpec = filled_in(ElasticQuotaSpec)
    """What the namespace is promised, what it may have, and how it shares."""
    status: SharingStatus | None = None
    """How it stands. Written by the system alone."""


RESOURCE: Final = CustomResource(
    model=ElasticQuota,
    group=GROUP,
    version=VERSION,
    plural="elasticquotas",
    scope="Namespaced",
    short_names=("eq",),
    categories=(CATEGORY,),
    columns=COLUMNS,
)
