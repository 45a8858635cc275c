"""Who uses what of a tree: of every user and group, on every node, worked out anew from the bindings.

For people and programs that ask; nobody is judged by it. Users are in it whether or not they are limited, groups where
something counts for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from federation_quota.ledger.claim import Claim
from federation_quota.limits.scheme import Scheme
from federation_quota.limits.subject import GROUP, USER, Subject
from federation_quota.resource_name import PODS
from federation_quota.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Use:
    """What is used on a node, and what runs there."""

    resources: Resources = NOTHING
    applications: tuple[str, ...] = ()
    """By name, in order."""
    users: tuple[str, ...] = ()
    """Whose all of that is, by name, in order: also of who has no application there."""


Survey = Mapping[Subject, Mapping[str, Use]]
"""By node, the root's name being empty."""


def survey(scheme: Scheme, claims: Mapping[str, Claim]) -> Survey:
    """Of one tree; `claims` are by the name of the binding, those of other trees among them."""
    amounts: dict[Subject, dict[str, list[Resources]]] = {}
    applications: dict[Subject, dict[str, list[str]]] = {}
    users: dict[Subject, dict[str, set[str]]] = {}
    for name, claim in claims.items():
        if claim.owner is None or claim.leaf not in scheme.parents or not claim.charge:
            continue
        subjects = [Subject(scheme.tree, USER, claim.owner.user)]
        if group := scheme.group_of(claim.owner.groups, claim.leaf):
            subjects.append(Subject(scheme.tree, GROUP, group))
        for subject in subjects:
            for node in scheme.path(claim.leaf):
                amounts.setdefault(subject, {}).setdefault(node, []).append(claim.charge)
                running = applications.setdefault(subject, {}).setdefault(node, [])
                running += [name] if PODS in claim.charge else []
                users.setdefault(subject, {}).setdefault(node, set()).add(claim.owner.user)
    return {
        subject: {
            node: Use(
                Resources.sum(charges),
                tuple(sorted(applications[subject][node])),
                tuple(sorted(users[subject][node])),
            )
            for node, charges in nodes.items()
        }
        for subject, nodes in amounts.items()
    }
