"""Running sums per namespace and priority class: what any quota sees of them is a few additions away."""

from federation_quota.ledger.claim import Claim
from federation_quota.ledger.lens import Lens
from federation_quota.quantity import Quantity
from federation_quota.resources import NOTHING, Resources


class Tally:
    """Amounts that come and go. Exact: whoever takes away what was added comes back to nothing."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, dict[str, Quantity]]] = {}

    def add(self, namespace: str, priority_class: str, amounts: Resources) -> None:
        """That much more."""
        if not amounts:
            return
        total = self._namespaces.setdefault(namespace, {}).setdefault(priority_class, {})
        for name, amount in amounts.items():
            total[name] = total[name] + amount if name in total else amount

    def subtract(self, namespace: str, priority_class: str, amounts: Resources) -> None:
        """That much less: what was added before."""
        if not amounts:
            return
        here = self._namespaces[namespace]
        total = here[priority_class]
        for name, amount in amounts.items():
            left = total[name] - amount
            if left.is_zero:
                del total[name]
            else:
                total[name] = left
        if not total:
            del here[priority_class]
        if not here:
            del self._namespaces[namespace]

    def through(self, namespace: str, lens: Lens) -> Resources:
        """What a quota with that lens sees."""
        seen = NOTHING
        for priority_class, total in self._namespaces.get(namespace, {}).items():
            seen += lens.cost(Claim(Resources(total), priority_class))
        return seen

    def namespaces(self) -> set[str]:
        """Where there is anything."""
        return set(self._namespaces)
