"""What a workload will cost once Karmada has bound it, and what its quotas will do then: the word before the deed.

A binding is made after the workload was accepted, by Karmada, out of sight of whoever applied it. Here the same amounts
are worked out from the workload itself, and the outcome is put into one line for a terminal. What is said is about the
future and says so: without a policy nothing is propagated at all, and with one that duplicates, a workload that has no
clusters yet may cost more than is known here.

Pure: no more than an estimate is made, nothing is reserved, and nobody is bound by it.
"""

from typing import Final

from federation_quota import charge, workload
from federation_quota.binding import Binding
from federation_quota.charge import Terms
from federation_quota.karmadaquota import HOLD
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.denial import Denial
from federation_quota.ledger.judging import Ask, Exceeded
from federation_quota.resource_name import canonical
from federation_quota.resources import NOTHING, Resources
from federation_quota.stamp import Stamp
from federation_quota.workload import Manifest

LONGEST: Final = 256
"""What an API server passes on of a warning in any case."""


def binding_name(kind: str, name: str) -> str:
    """The name that Karmada gives the binding of an object."""
    return f"{name.replace(':', '.')}-{kind}".lower()


def demand(manifest: Manifest, plural: str, copies: int = 1) -> Resources:
    """What a workload of that resource asks for, its object included, when so many clusters have all of it."""
    replicas = workload.replicas(manifest) or 0
    request = workload.request(manifest)
    terms = Terms(
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        replicas=replicas * copies,
        request=tuple(request.to_json().items()),
    )
    return charge.cost(terms, Stamp(resource=plural)).demand


def ask(manifest: Manifest, plural: str, existing: Binding | None) -> Ask:
    """What the quotas will be asked for this workload, given the binding that it has already.

    WorkloadError where the manifest cannot be read.
    """
    new = Claim(demand(manifest, plural, _copies(existing)), workload.priority_class(manifest))
    old = Claim(existing.charge, existing.stamp.priority_class) if existing else NO_CLAIM
    return Ask(
        id="", binding=binding_name(manifest["kind"], manifest["metadata"]["name"]), new=new, old=old
    )


def asks_more(manifest: Manifest, before: Manifest | None, plural: str) -> bool:
    """Whether a workload asks for more than it did, whatever it was given."""
    if before is None or workload.priority_class(manifest) != workload.priority_class(before):
        return True
    asked = demand(before, plural)
    return any(amount > asked[name] for name, amount in demand(manifest, plural).items())


def word(account: Account, wanted: Ask, exceeded: tuple[Exceeded, ...], *, only_warns: bool, has_clusters: bool) -> str:
    """One line on what an account that this exceeds will do."""
    

def _copies(existing: Binding | None) -> int:
    """How many clusters will have all replicas: as many as have them all now. A policy may change; then this is old."""
    if existing is None or not existing.replicas or not existing.clusters:
        return 1
    is_duplicated = all(share.replicas == existing.replicas for share in existing.clusters)
    return len(existing.clusters) if is_duplicated else 1
