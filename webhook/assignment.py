"""Whose a namespace is, is said by who may: reviews of namespaces whose tenant changes.

A tenant who could move its namespaces would use up somebody else's budget, or get away from its own. The API server
itself knows who may (verb `assign` on `tenants` of our group, by name where need be), and asks only about who may not.
"""

from federation_quota.kube import codec
from federation_quota.stamp import TENANT_LABEL
from webhook.review import Verdict, refuse


async def refuse_assignment(request: codec.AdmissionRequest, _deadline: float) -> Verdict:
    """Somebody says whose a namespace is who may not."""
    text = (
        f"{request.user_info.username} may not say whose namespace {request.name} is (label {TENANT_LABEL}): that "
        "takes the verb assign on tenants.quota.karmada.io, for the tenant that it comes to and for the one that it had"
    )
    return refuse(403, "Forbidden", text)
