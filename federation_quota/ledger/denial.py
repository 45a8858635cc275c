"""The words of a refusal: for people in Kubernetes' own form, and field by field for machines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from federation_quota.ledger import domain
from federation_quota.ledger.judging import Exceeded
from federation_quota.ledger.level import split
from federation_quota.resource_name import ADMISSION


@dataclass(frozen=True, slots=True)
class Denial:
    """One account's refusal."""

    quota: str
    exceeded: Sequence[Exceeded]
    namespace: str = ""  # or whichever domain the quota is in
    title: str = ""  # what a limit of somebody's is called to people; a quota has its name

    @property
    def message(self) -> str:
        """`exceeded quota: NAME, requested: cpu=3, used: cpu=8, limited: cpu=10`: exceeded names only, sorted.

        Where bindings do not account for all that is used, how much that is, and where to look.
        """
        if domain.is_usage(self.namespace):
            return self._limit_message
        text = f"exceeded quota: {self.quota}, requested: {self.requested}, used: {self.used}, limited: {self.limited}"
        unbound = ",".join(f"{one.name}={one.unbound}" for one in self._sorted if not one.unbound.is_zero)
        if not unbound:
            return text
        return (
            f"{text} (used includes {unbound} that pods in member clusters use and no binding accounts for: "
            "see status.clusters of the quota)"
        )

    @property
    def _limit_message(self) -> str:
        """`exceeded limit of user alice in tree lab, on vision: requested: cpu=3, used: cpu=8, limited: cpu=10, left:
        cpu=2`, node by node, and what can be done about it."""
        nodes: dict[str, list[Exceeded]] = {}
        for one in self._sorted:
            resource, node = split(one.name)
            nodes.setdefault(node, []).append(replace(one, name=resource))
        told = [
            (f"on {node}" if node else "in the whole tree", Denial("", here)) for node, here in sorted(nodes.items())
        ]
        parts = (
            f"{where}: requested: {one.requested}, used: {one.used}, limited: {one.limited}, left: {one.left}"
            for where, one in told
        )
        return (
            f"exceeded {self.title}, {'; '.join(parts)}. Scale down or delete something else that counts for it, or "
            "have an administrator raise it."
        )

    @property
    def requested(self) -> str:
        """What was asked for beyond what was there: `cpu=3`."""
        return ",".join(f"{one.name}={one.requested}" for one in self._sorted)

    @property
    def used(self) -> str:
        """What was used: `cpu=8`."""
        return ",".join(f"{one.name}={one.used}" for one in self._sorted)

    @property
    def limited(self) -> str:
        """What is allowed: `cpu=10`."""
        return ",".join(f"{one.name}={one.limit}" for one in self._sorted)

    @property
    def left(self) -> str:
        """What there is room for: `cpu=2`."""
        return ",".join(f"{one.name}={one.left}" for one in self._sorted)

    @property
    def causes(self) -> list[dict[str, str]]:
        """Kubernetes StatusCauses: one per exceeded name, its amounts in a form that needs no parsing of sentences."""
        return [
            {
                "reason": "QuotaExceeded",
                "field": self._field(one.name),
                "message": f"requested={one.requested},used={one.used},limit={one.limit}"
                + ("" if one.unbound.is_zero else f",unbound={one.unbound}"),
            }
            for one in self._sorted
        ]

    def _field(self, resource: str) -> str:
        if domain.is_usage(self.namespace):
            return f"usageaccounts/{self.quota}/{resource}"
        if not domain.is_leaf(self.namespace):
            return f"karmadaquotas/{self.quota}/spec.hard[{resource}]"
        kind = "elasticquotas" if "/" in self.quota else "compositeelasticquotas"
        if resource.startswith(ADMISSION):
            return f"{kind}/{self.quota}/spec.admission[{resource.removeprefix(ADMISSION)}]"
        return f"{kind}/{self.quota}/status.runtime[{resource}]"

    @property
    def _sorted(self) -> list[Exceeded]:
        return sorted(self.exceeded, key=lambda one: one.name)
