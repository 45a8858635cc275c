"""What a replica leaves behind when it goes in good order.

A new account waits for everybody who may have admitted something without it. One that is gone can bring nothing, and
would have to be waited for until every write it let through must be over; one that wrote down what it would have
brought is joined by whoever is there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from federation_quota.ledger import domain, joining, settling
from federation_quota.ledger.account import Account
from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import View


@dataclass(frozen=True, slots=True)
class Legacy:
    """One replica's admissions that its view had not seen stored, and the latest binding event that it had seen."""

    observed: int
    admissions: Mapping[str, tuple[Reservation, ...]]  # by namespace


def execute(account: Account, replicas: Mapping[str, Legacy | None], view: View) -> Account:
    """The account, joined by all who left something for it; the others have to come themselves.

    What this view has seen stored since is no longer brought: who left in a hurry may have left much of that.
    """
    for replica, legacy in sorted(replicas.items()):
        if legacy is not None and not joining.has_joined(account, replica):
            left = _left_for(account.namespace, legacy, view)
            proofs = {one.id: settling.proved(account.namespace, one, view) for one in left}
            brought = [one for one in left if proofs[one.id] is None]
            observed = max([legacy.observed, *(proof for proof in proofs.values() if proof is not None)])
            account = joining.join(account, replica, brought, observed)
    return account


def _left_for(place: str, legacy: Legacy, view: View) -> list[Reservation]:
    if not domain.is_usage(place):
        return list(legacy.admissions.get(place, ()))
    charged = (
        joining.charged(place, namespace, one, view) for namespace, here in legacy.admissions.items() for one in here
    )
    return [one for one in charged if one is not None]
