"""Whether quotas and trees fit beside each other: the rules that one object alone cannot break.

A change is judged as a whole, against everything that is stored, and each thing that is wrong is named by its field:

- A namespace falls under one quota. A parent exists, is a parent, and is in the same tree; there are no circles.
- Below the first level the mins of siblings are together no more than their parent's: what is promised below was
  promised above. On the first level they may be more than there is, because what there is comes and goes.
- A max may be above the parent's: so a whole department can be cut by one number.
- Parents have no workloads. A parent with quotas below it cannot become a leaf, a leaf in use cannot become a parent.
- A quota may move to another parent whenever all of that holds there.
- In a tree that keeps what is used, a min is raised only where somebody above can guarantee it.
- A default group with workloads, and that has no namespaces, stays one: it would be a parent. A namespace in which
  something runs stays in the system group: what runs there would be charged to nobody, and shared a second time.
- A namespace is not labelled into a second quota.

What a quota says about resources that its parent does not name is no error: a parent lets those through.

Never here: what can be told from an object alone (`validation`), who the caller is (`delegation`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from federation_quota.elastic.capacity import share_out
from federation_quota.elastic.forest import FAIR_SHARE, Forest, Root
from federation_quota.elastic.node import ROOT
from federation_quota.elastic.quota import COMPOSITE, Quota
from federation_quota.elastic.tree import DEFAULT, Tree
from federation_quota.elastic.unit import Steps, quantities
from federation_quota.field_error import ErrorKind, FieldError, at_key
from federation_quota.limits import hierarchy as limits

_MOST_NAMED: Final = 5

Labels = Mapping[str, str]
Busy = Callable[[str], bool]
"""Whether anything runs in a namespace that is charged to no quota."""


def _is_idle(_namespace: str) -> bool:
    return False


def check_quota(forest: Forest, new: Quota, old: Quota | None = None) -> list[FieldError]:
    """What stands against storing a quota, new or in the old one's place. `forest` is what is stored."""
    errors = [*_tree_errors(forest, new, old), *_parent_errors(forest, new)]
    errors += _turning_errors(forest, new, old)
    errors += _namespace_errors(forest, new)
    if not errors:
        errors += _min_errors(forest, new)
        errors += _guarantee_errors(forest, new, old)
        errors += _limit_errors(forest.with_quota(new), new, old)
    return errors


def check_quota_deletion(forest: Forest, old: Quota, *, is_namespace_going: bool = False) -> list[FieldError]:
    """What stands against deleting a quota. Nothing does where its whole namespace goes, and all that is in it."""
    errors: list[FieldError] = []
    children = forest.children(old.name) if old.kind == COMPOSITE else []
    if children:
        detail = f"has {_names(one.name for one in children)} below it: delete or move those first"
        errors.append(FieldError("metadata.name", ErrorKind.FORBIDDEN, old.name, detail))
    if old.is_occupied and not is_namespace_going:
        detail = "has workloads: delete them, or give them another quota first"
        errors.append(FieldError("metadata.name", ErrorKind.FORBIDDEN, old.name, detail))
    for root in forest.roots.values():
        if root.default_group == old.name and old.kind == COMPOSITE:
            detail = f"is the default group of tree {root.name}: name another there first"
            errors.append(FieldError("metadata.name", ErrorKind.FORBIDDEN, old.name, detail))
    return errors


def check_root(forest: Forest, new: Root, old: Root | None = None, is_busy: Busy = _is_idle) -> list[FieldError]:
    """What stands against storing a QuotaTree, new or in an old one's place."""
    errors = list(_default_group_errors(forest, new))
    if old is not None:
        errors += _losses(forest, old, new, is_busy)
    others = [root.claim for root in forest.roots.values() if root.name != new.name]
    if new.clusters is None and new.name != DEFAULT and new.fixed is None:
        detail = "a tree other than the default one says which clusters it has, or how much there is in spec.total"
        errors.append(FieldError("spec.clusterSelector", ErrorKind.REQUIRED, None, detail))
    if new.clusters is not None:
        taken = share_out([*others, new.claim], forest.clusters)
        clashes = dict(taken[new.name].contested)
        for other, holding in taken.items():
            clashes |= {name: other for name, owner in holding.contested.items() if owner == new.name}
        for name, other in sorted(clashes.items())[:_MOST_NAMED]:
            detail = f"takes cluster {name}, which is tree {other}'s: a cluster belongs to one tree"
            errors.append(FieldError("spec.clusterSelector", ErrorKind.INVALID, None, detail))
    errors += _root_limit_errors(forest, new)
    if new.mode == FAIR_SHARE:
        nested = [one.name for one in forest.in_tree(new.name) if one.node.parent != ROOT]
        if nested:
            detail = f"a tree that shares by giving way has one level, and {_names(nested)} have a parent"
            errors.append(FieldError("spec.mode", ErrorKind.FORBIDDEN, new.mode, detail))
    return errors


def check_root_deletion(forest: Forest, old: Root, is_busy: Busy = _is_idle) -> list[FieldError]:
    """What stands against deleting a QuotaTree. The default one exists without, and only what it says is lost."""
    inside = forest.in_tree(old.name)
    if old.name == DEFAULT:
        return list(_losses(forest, old, Root(), is_busy))
    if not inside:
        return []
    detail = f"has {_names(one.name for one in inside)} in it: delete or move those first"
    return [FieldError("metadata.name", ErrorKind.FORBIDDEN, old.name, detail)]


def check_namespace(
    forest: Forest, name: str, labels: Labels, old: Labels | None = None, is_busy: Busy = _is_idle
) -> list[FieldError]:
    """What stands against labelling a namespace so; `old` is how it was labelled, None where it is new."""
    errors = []
    claims = forest.quotas_of(name, labels)
    before = [] if old is None else forest.quotas_of(name, old)
    if len(claims) > 1 and not {one.name for one in claims} <= {one.name for one in before}:
        detail = f"{name} would fall under the quotas {_names(one.name for one in claims)}: a namespace has one quota"
        errors.append(FieldError("metadata.labels", ErrorKind.FORBIDDEN, None, detail))
    if old is None or not is_busy(name):
        return errors
    for root in forest.roots.values():
        if root.system.covers(name, old) and not root.system.covers(name, labels) and forest.in_tree(root.name):
            errors.append(_left("metadata.labels", name, root))
    return errors


def _tree_errors(forest: Forest, new: Quota, old: Quota | None) -> Iterator[FieldError]:
    root = forest.root(new.tree)
    if root is None:
        detail = "there is no such QuotaTree: make it first, or leave the field out for the default one"
        yield FieldError("spec.tree", ErrorKind.INVALID, new.tree, detail)
    elif root.mode == FAIR_SHARE and new.node.parent != ROOT:
        detail = f"tree {new.tree} shares by giving way, which knows one level: leave the parent out"
        yield FieldError("spec.parent", ErrorKind.FORBIDDEN, new.node.parent, detail)
    # Who may have how much of what is in it would change with a look at one object, and not everybody looks at once.
    if old is not None and old.tree != new.tree:
        detail = f"stays in tree {old.tree}: delete it, and make it anew in the other one"
        yield FieldError("spec.tree", ErrorKind.FORBIDDEN, new.tree, detail)


def _parent_errors(forest: Forest, new: Quota) -> Iterator[FieldError]:
    name = new.node.parent
    if name == ROOT:
        return
    parent = forest.quotas.get(name)
    if new.kind == COMPOSITE and (name == new.name or _is_above(forest.with_quota(new), new.name, name)):
        yield FieldError("spec.parent", ErrorKind.INVALID, name, "is below this quota itself: there would be a circle")
    elif parent is None:
        yield FieldError("spec.parent", ErrorKind.INVALID, name, "there is no such CompositeElasticQuota")
    elif not parent.is_parent:
        detail = "is a quota for workloads: a parent is a CompositeElasticQuota that is for no namespace"
        yield FieldError("spec.parent", ErrorKind.INVALID, name, detail)
    elif parent.tree != new.tree:
        yield FieldError("spec.parent", ErrorKind.INVALID, name, f"is in tree {parent.tree}, not in {new.tree}")


def _is_above(forest: Forest, name: str, below: str) -> bool:
    """Whether the one of that name is an ancestor of the other."""
    start = forest.quotas.get(below)
    return start is not None and any(one.name == name for one in forest.ancestors(start))


def _turning_errors(forest: Forest, new: Quota, old: Quota | None) -> Iterator[FieldError]:
    field = "spec.namespaces"
    children = forest.children(new.name) if new.kind == COMPOSITE else []
    if not new.is_parent and children:
        detail = f"has {_names(one.name for one in children)} below it, and a parent has no workloads: move those first"
        yield FieldError(field, ErrorKind.FORBIDDEN, None, detail)
    if old is not None and new.is_parent and not old.is_parent and old.is_occupied:
        detail = "has workloads, and a parent has none: delete them, or give them another quota first"
        yield FieldError(field, ErrorKind.FORBIDDEN, None, detail)


def _namespace_errors(forest: Forest, new: Quota) -> Iterator[FieldError]:
    """Every namespace that would fall under two quotas."""
    field = "spec.namespaces" if new.kind == COMPOSITE else "metadata.namespace"
    for namespace in sorted(new.own.namespaces | forest.namespaces.keys()):
        labels = forest.namespaces.get(namespace, {})
        if not new.own.covers(namespace, labels):
            continue
        for other in forest.quotas_of(namespace, labels):
            if other.name != new.name:
                detail = f"falls under the {other.kind} {other.name} already: a namespace has one quota"
                place = field if namespace in new.own.namespaces else "spec.namespaceSelector"
                yield FieldError(place, ErrorKind.INVALID, namespace, detail)


def _min_errors(forest: Forest, new: Quota) -> Iterator[FieldError]:
    after = forest.with_quota(new)
    parent = after.quotas.get(new.node.parent)
    if parent is not None:
        siblings = after.children(parent.name)
        over = _beyond(_sum(one.node.min for one in siblings), parent.node.min)
        for resource, (wanted, least) in over.items():
            # Whatever the others had before is not this change's fault.
            if new.node.min.get(resource, 0):
                detail = f"with it the mins below {parent.name} are {wanted}, more than its own min, {least}"
                yield _invalid("spec.min", resource, new.node.min, detail)
    if new.is_parent:
        over = _beyond(_sum(one.node.min for one in after.children(new.name)), new.node.min)
        for resource, (wanted, least) in over.items():
            detail = f"must be no less than the mins below it together, {wanted}, and is {least}"
            yield _invalid("spec.min", resource, new.node.min, detail)


def _guarantee_errors(forest: Forest, new: Quota, old: Quota | None) -> Iterator[FieldError]:
    """In a tree that keeps what is used, what is guaranteed to a quota and its siblings must be so further up."""
    root = forest.root(new.tree)
    if root is None or not root.keeps_used or new.node.parent == ROOT:
        return
    known = guarantees(forest.tree(new.tree, {}), {name: one.used for name, one in forest.quotas.items()})
    guaranteed = {} if old is None else known.get(new.name, {})
    raised = [name for name, least in sorted(new.node.min.items()) if least > guaranteed.get(name, 0)]
    if not raised:
        return
    needed, place = _larger(new.node.min, guaranteed), new.name
    for above in forest.ancestors(new):
        siblings = (one.name for one in forest.children(above.name) if one.name != place)
        needed = _sum([needed, *(known.get(name, {}) for name in siblings)])
        if not _beyond(needed, known.get(above.name, {})):
            return
        needed, place = _larger(above.node.min, needed), above.name
    detail = "cannot be guaranteed: what is used beside it leaves too little of what the quotas above it guarantee"
    for resource in raised:
        yield _invalid("spec.min", resource, new.node.min, detail)


def guarantees(tree: Tree, used: Mapping[str, Steps]) -> dict[str, dict[str, int]]:
    """What is guaranteed to every quota: its min, or what it uses or those below it are guaranteed, if that is more."""
    allocated: dict[str, dict[str, int]] = {}
    found: dict[str, dict[str, int]] = {}
    for node in reversed(tree.order):
        if node is not None:
            has = _sum([allocated.get(node.name, {}), {} if node.is_parent else used.get(node.name, {})])
            found[node.name] = _larger(node.min, has)
            allocated[node.parent] = _sum([allocated.get(node.parent, {}), found[node.name]])
    return found


def limit_warnings(forest: Forest, new: Quota | Root) -> list[str]:
    """What whoever stores this should hear about its limits beside those of others."""
    if not new.limits:
        return []
    if isinstance(new, Root):
        return limits.warnings(replace(forest, roots={**forest.roots, new.name: new}).levels(new.name), limits.ROOT)
    return limits.warnings(forest.with_quota(new).levels(new.tree), new.name)


def _limit_errors(after: Forest, new: Quota, old: Quota | None) -> list[FieldError]:
    levels = after.levels(new.tree)
    if not any(one.limits for one in levels.values()):
        return []
    is_moved = old is not None and (old.node.parent, old.tree) != (new.node.parent, new.tree)
    return limits.check(levels, new.name, is_moved=is_moved)


def _root_limit_errors(forest: Forest, new: Root) -> list[FieldError]:
    after = replace(forest, roots={**forest.roots, new.name: new})
    return limits.check(after.levels(new.name), limits.ROOT)


def _default_group_errors(forest: Forest, new: Root) -> Iterator[FieldError]:
    if new.default_group is None:
        return
    path, group = "spec.defaultGroup", forest.quotas.get(new.default_group)
    if new.name != DEFAULT:
        detail = "only the default tree has a group for what falls under no other quota"
        yield FieldError(path, ErrorKind.FORBIDDEN, new.default_group, detail)
    elif group is None:
        yield FieldError(path, ErrorKind.INVALID, new.default_group, "there is no such CompositeElasticQuota")
    elif group.tree != new.name:
        yield FieldError(path, ErrorKind.INVALID, new.default_group, f"is in tree {group.tree}")
    elif forest.children(group.name):
        detail = "has quotas below it: the default group is for workloads"
        yield FieldError(path, ErrorKind.INVALID, new.default_group, detail)


def _losses(forest: Forest, old: Root, new: Root, is_busy: Busy) -> Iterator[FieldError]:
    """What may not be taken from a tree while it is in use."""
    group = forest.quotas.get(old.default_group or "")
    if group is not None and new.default_group != group.name and group.is_occupied and group.leaf.is_for_nobody:
        detail = f"{group.name} has workloads, and would be a parent: delete them, or give it their namespaces first"
        yield FieldError("spec.defaultGroup", ErrorKind.FORBIDDEN, new.default_group, detail)
    if old.system.is_empty or not forest.in_tree(old.name):
        return  # nothing is shared
    for namespace in sorted(old.system.namespaces | forest.namespaces.keys()):
        labels = forest.namespaces.get(namespace, {})
        if old.system.covers(namespace, labels) and not new.system.covers(namespace, labels) and is_busy(namespace):
            yield _left("spec.systemGroup", namespace, old)


def _left(field: str, namespace: str, root: Root) -> FieldError:
    detail = (
        f"{namespace} cannot leave the system group of tree {root.name} while workloads run there: they would be "
        "charged to no quota, and what they use would be shared. Delete them first"
    )
    return FieldError(field, ErrorKind.FORBIDDEN, None, detail)


def _beyond(amounts: Steps, limit: Steps) -> dict[str, tuple[str, str]]:
    """What is more than the limit, where what it does not name is nothing: both, for people."""
    over = {resource: amount for resource, amount in amounts.items() if amount > limit.get(resource, 0)}
    shown, least = quantities(over), quantities({resource: limit.get(resource, 0) for resource in over})
    return {resource: (str(shown[resource]), str(least[resource])) for resource in sorted(over)}


def _invalid(field: str, resource: str, amounts: Steps, detail: str) -> FieldError:
    shown = str(quantities({resource: amounts.get(resource, 0)})[resource])
    return FieldError(at_key(field, resource), ErrorKind.INVALID, shown, detail)


def _larger(one: Steps, other: Steps) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


def _sum(tables: Iterable[Steps]) -> dict[str, int]:
    total: dict[str, int] = {}
    for table in tables:
        for resource, amount in table.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _names(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more
