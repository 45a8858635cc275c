"""Managers: who, beside the administrators, may change which quotas, and for which namespaces.

Whoever manages a parent changes what is below it, however deep; never the parent itself. A quota reaches into other
people's namespaces, though: whatever runs there comes under it. So a manager gives quotas only to namespaces that an
administrator assigned to that parent (`spec.managedNamespaces`), and to those that the quota has already.

- Managers further down have what was assigned to their own node and to every node with managers above it: nobody hands
  on more than they have, and what is taken away above is taken away below.
- A selector takes namespaces that are yet to come, too. So a manager's asks for at least what the assigned one does.
- To offer a quota is no claim: a workload has to choose it.

Never here: what may be stored, whoever asks (`topology`).
"""

from collections.abc import Collection, Iterable, Iterator

from federation_quota.elastic.association import NOWHERE, Reach
from federation_quota.elastic.forest import Forest
from federation_quota.elastic.quota import Quota
from federation_quota.label_selector import LabelSelector


def may_manage(forest: Forest, user: str, groups: Iterable[str], *quotas: Quota | None) -> bool:
    """Whether somebody who is no administrator may make this change: from the old to the new, either being None.

    One may change what is below a node that names one as its manager, where it was and where it will be.
    """
    member_of = set(groups)
    changed = [one for one in quotas if one is not None]
    return bool(changed) and all(any(_managed(forest, user, member_of, one)) for one in changed)


def overreach(forest: Forest, user: str, groups: Iterable[str], new: Quota, old: Quota | None = None) -> list[str]:
    """What a manager claims for a quota, and was assigned to nobody above it who names them: namespaces by name, a
    selector as such. For people."""
    before = NOWHERE if old is None else old.own
    above = [
        [one.managed for one in (node, *forest.ancestors(node)) if one.managers]
        for node in _managed(forest, user, set(groups), new)
    ]
    claimed = sorted(new.own.namespaces - before.namespaces)
    found = [f"namespace {name}" for name in claimed if not any(_is_assigned(forest, name, one) for one in above)]
    selector = new.own.selector
    if selector is not None and not any(_is_within(selector, one) for one in ([before], *above)):
        found.append("every namespace that its selector takes")
    return found


def _managed(forest: Forest, user: str, groups: Collection[str], one: Quota) -> Iterator[Quota]:
    """The nodes above a quota that name somebody as their manager."""
    for above in forest.ancestors(one):
        if any(each.name == user if each.kind == "User" else each.name in groups for each in above.managers):
            yield above


def _is_assigned(forest: Forest, namespace: str, reaches: Iterable[Reach]) -> bool:
    labels = forest.namespaces.get(namespace)
    # Of a namespace that is yet to come nobody knows the labels.
    return all(namespace in one.namespaces if labels is None else one.covers(namespace, labels) for one in reaches)


def _is_within(selector: LabelSelector, reaches: Iterable[Reach]) -> bool:
    return all(one.selector is not None and selector.implies(one.selector) for one in reaches)
