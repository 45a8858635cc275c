"""Who writes what quota is counted by: bindings Karmada, this system and administrators of the whole federation, no
tenant; the accounts of users and groups this system alone.

Karmada lets whoever may edit in a namespace write the bindings there, and their statuses. A binding is what quota is
counted by: who could make its numbers smaller would go on running for nothing. An API server brings only those here who
may not write bindings in all namespaces, or are not this system (`hooks`); all that is left is to say what they can do.
"""

from federation_quota.kube import codec
from webhook.review import Verdict, refuse


async def refuse_writer(request: codec.AdmissionRequest, _deadline: float) -> Verdict:
    """No."""
    what = "status of the binding" if request.sub_resource else "binding"
    return refuse(
        403,
        "Forbidden",
        f"the {what} {request.namespace}/{request.name} is what quota is counted by: Karmada writes it, and who may in "
        "the whole federation. Change the workload, or its policy.",
    )


async def refuse_account(request: codec.AdmissionRequest, _deadline: float) -> Verdict:
    """No."""
    return refuse(
        403,
        "Forbidden",
        f"the UsageAccount {request.name} is written by federation-quota alone: change the limits of the tree, or of a "
        "quota in it",
    )
