"""The kinds of the API group `quota.karmada.io`: their models, which are the source of `crds/`.

What stands here is what a client sees: fields, their bounds, what `kubectl explain` says of them, and the rules that
the API server can check by itself. The domain never imports these models: it works on values of its own, and what
cannot be said in a schema is in `federation_quota.validation`.
"""

from typing import Final

from federation_quota.api import compositeelasticquota, elasticquota, karmadaquota, quotatree, usageaccount
from federation_quota.crd import CustomResource

RESOURCES: Final[tuple[CustomResource, ...]] = (
    karmadaquota.RESOURCE,
    quotatree.RESOURCE,
    elasticquota.RESOURCE,
    compositeelasticquota.RESOURCE,
    usageaccount.RESOURCE,
)
"""Every kind, all of them installed."""
