"""A turn: one request is at the head of its tenant's line, and nobody else judges for that tenant meanwhile."""

import asyncio
from collections.abc import Callable, Iterable

from federation_quota.ledger.reservation import Reservation
from federation_quota.ledger.view import View
from federation_quota.resources import Resources
from federation_quota.tenants.grants import Grants
from webhook.call import Over
from webhook.hall import Hall


class BusyError(Exception):
    """It was not its turn in time; the text says why, for people."""


class Turn:
    """What who is at the head of the line may know and do."""

    def __init__(self, hall: Hall, view: View, is_valid: Callable[[], bool]) -> None:
        self._hall = hall
        self._view = view
        self._is_valid = is_valid

    def is_valid(self) -> bool:
        """Whether this replica still is who judges for the tenant. If not, nothing may be allowed any more."""
        return self._is_valid()

    def used(self, namespaces: Iterable[str]) -> Resources:
        """What the tenant uses there."""
        return self._grants.used(namespaces, self._view)

    def accounted(self, namespace: str, binding: str) -> Resources:
        """What one binding is counted with."""
        return self._grants.accounted(namespace, binding, self._view)

    def grant(self, namespace: str, reservation: Reservation) -> None:
        """An allow is about to be sent: it counts from now on."""
        self._grants.add(namespace, reservation, asyncio.get_running_loop().time())

    def abandon(self, call: Over) -> None:
        """A call goes on that nobody waits for any more. Until it is over, nobody else's turn comes."""
        self._hall.hung = call

    @property
    def _grants(self) -> Grants:
        if self._hall.grants is None:
            raise BusyError("the tenant is judged by another replica by now")
        return self._hall.grants
