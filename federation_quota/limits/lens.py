"""What the account of a user or group sees of a claim: what it costs them on every node where they are limited.

A claim costs the same on each node from its leaf to the root: its charge, and one application where it has replicas.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from federation_quota.ledger.claim import Claim
from federation_quota.ledger.lens import Lens
from federation_quota.ledger.level import APPLICATIONS, qualified
from federation_quota.limits.scheme import Scheme, digest
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.quantity import Quantity, parse
from federation_quota.resource_name import PODS
from federation_quota.resources import NOTHING, Resources
from federation_quota.scope import EVERYTHING

_ONE: Final = parse(1)


@dataclass(frozen=True, eq=False)
class UsageLens(Lens):
    """One subject's, by one scheme.

    Its shape is about everything that decides what is admitted: who is limited where and to how much, which leaves are
    below that, and of a group who counts for it. An account of whom anything of this changes is one that every
    replica has to join anew: so none of them admits by limits that others have left behind.
    """

    subject: Subject
    scheme: Scheme
    limits: Mapping[str, Quantity]
    """By resource and node (`ledger.level`)."""

    @classmethod
    def of(cls, subject: Subject, scheme: Scheme) -> "UsageLens":
        """The lens of a subject."""

        def make() -> UsageLens:
            limits = dict(_limits(subject, scheme))
            return cls(EVERYTHING, frozenset(limits), subject, scheme, limits)

        return scheme.remembered(subject, make)

    def cost(self, claim: Claim) -> Resources:
        """What the claim costs on each node: nothing where it is somebody else's."""
        if claim.owner is None or claim.leaf not in self.scheme.parents:
            return NOTHING
        if self.subject not in self.scheme.subjects(claim.owner, claim.leaf):
            return NOTHING
        charge, has_replicas = claim.charge, PODS in claim.charge
        amounts = {}
        for resource, name in self.limited(claim.leaf):
            if resource == APPLICATIONS:
                if has_replicas:
                    amounts[name] = _ONE
            elif resource in charge:
                amounts[name] = charge[resource]
        return Resources(amounts)

    def resources(self, leaf: str) -> frozenset[str]:
        """What is limited of a binding under that leaf, by canonical names."""
        return frozenset(resource for resource, _ in self.limited(leaf)) - {APPLICATIONS}

    @cached_property
    def shape(self) -> str:
        """A short text that is equal exactly when what is admitted is."""
        subject, scheme = self.subject, self.scheme
        described = [subject.tree, subject.kind, subject.name]
        described += [f"{name}={amount.nano}" for name, amount in sorted(self.limits.items())]
        described += [scheme.subtree_digest(node) for node in sorted(scheme.limits_of(subject))]
        return digest([*described, scheme.groups_digest if subject.kind == GROUP else ""])

    @cached_property
    def own_names(self) -> Mapping[str, tuple[str, ...]]:
        """Of everything that is limited, under which name."""
        return {name: (name,) for name in self.limits}

    @cached_property
    def naming(self) -> frozenset[str]:
        """The nodes whose limit names the subject, and not everybody else."""
        is_user, name = self.subject.kind == USER, self.subject.name
        limits = self.scheme.limits_of(self.subject).items()
        return frozenset(node for node, one in limits if name in (one.users if is_user else one.groups))

    def limited(self, leaf: str) -> tuple[tuple[str, str], ...]:
        """What is limited on the way from a leaf to the root, and by which name."""
        known = self._levels.get(leaf)
        if known is None:
            found = []
            limits = self.scheme.limits_of(self.subject)
            for node in self.scheme.path(leaf):
                if (limit := limits.get(node)) is not None:
                    found += [(resource, qualified(resource, node)) for resource in limit.resources]
                    found += [(APPLICATIONS, qualified(APPLICATIONS, node))] if limit.applications else []
            known = self._levels[leaf] = tuple(found)
        return known

    @cached_property
    def _levels(self) -> dict[str, tuple[tuple[str, str], ...]]:
        return {}

    def __eq__(self, other: object) -> bool:
        # By an older scheme it may know less of where leaves stand, although its shape is the same.
        return isinstance(other, UsageLens) and other.scheme is self.scheme and other.subject == self.subject

    def __hash__(self) -> int:
        return hash(self.subject)


def _limits(subject: Subject, scheme: Scheme) -> Iterator[tuple[str, Quantity]]:
    for node, limit in scheme.limits_of(subject).items():
        for resource, amount in limit.resources.items():
            yield qualified(resource, node), amount
        if limit.applications:
            yield qualified(APPLICATIONS, node), parse(limit.applications)
