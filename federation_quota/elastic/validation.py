"""Whether an ElasticQuota, a CompositeElasticQuota or a QuotaTree may be stored, as far as it can be told from itself.

What its schema cannot say. How it fits beside the others is `topology`'s business. Objects that got past the API server
in no shape at all are refused here too, never a crash; a specification that does not change is not judged again.

Never here: who may write, HTTP. Called by the webhook that reviews these kinds, and by whoever wants to know before.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federation_quota import label_selector
from federation_quota.elastic import unit
from federation_quota.elastic.forest import FAIR_SHARE, RUNTIME
from federation_quota.elastic.quota import COMPOSITE
from federation_quota.field_error import ErrorKind, FieldError, at_key, not_supported
from federation_quota.limits import validation as limit_rules
from federation_quota.quantity import ZERO, Quantity
from federation_quota.resource_name import COUNT, canonical
from federation_quota.validation import amounts, is_subdomain, name_fault

Object = Mapping[str, Any]

MIN_ABOVE_MAX: Final = "must not be above max"
_NAMESPACE_FORM: Final = "must be the name of a namespace: lower case letters, digits and '-', at most 63 characters"
_QUOTA_FORM: Final = "must be the name of a CompositeElasticQuota: lower case letters, digits, '-' and '.'"
_TREE_FORM: Final = "must be the name of a QuotaTree: lower case letters, digits, '-' and '.'"
_LONGEST_NAMESPACE: Final = 63
_LONGEST_TREE: Final = 63
_SUBJECTS: Final = ("User", "Group")


def validate_quota(new: Object, old: Object | None = None) -> list[FieldError]:
    """Everything that is wrong with a quota to be created, or to be stored in the old one's place."""
    if old is not None and new.get("spec") == old.get("spec"):
        return []
    errors = list(_name_errors(new)) if old is None else []
    spec = new.get("spec")
    if spec is not None and not isinstance(spec, Mapping):
        return [*errors, FieldError("spec", ErrorKind.INVALID, spec, "must be a map")]
    spec = _map(spec)
    is_composite = new.get("kind") == COMPOSITE
    errors += _tree_errors(spec)
    errors += _parent_errors(spec, _map(new.get("metadata")).get("name") if is_composite else None)
    limits = {field: _limits(spec, field, errors) for field in ("min", "max", "sharedWeight", "admission")}
    for name, least in limits["min"].items():
        most = limits["max"].get(name)
        if most is not None and least > most:
            errors.append(
                FieldError(at_key("spec.min", name), ErrorKind.INVALID, str(least), f"{MIN_ABOVE_MAX}, {most}")
            )
    errors += limit_rules.validate(spec, limits["max"], "spec.max")
    errors += _strict_errors(spec, limits["max"], _map(_map(new.get("status")).get("used")))
    if is_composite:
        errors += _reach_errors(spec, "spec")
        errors += _manager_errors(spec)
    offered = spec.get("offeredTo")
    if offered is not None and not isinstance(offered, Mapping):
        errors.append(FieldError("spec.offeredTo", ErrorKind.INVALID, offered, "must have namespaces or a selector"))
    errors += _reach_errors(_map(offered), "spec.offeredTo")
    return errors


def validate_root(new: Object, old: Object | None = None) -> list[FieldError]:
    """Everything that is wrong with a QuotaTree to be created, or to be stored in the old one's place."""
    if old is not None and new.get("spec") == old.get("spec"):
        return []
    errors = list(_name_errors(new)) if old is None else []
    spec = new.get("spec")
    if spec is not None and not isinstance(spec, Mapping):
        return [*errors, FieldError("spec", ErrorKind.INVALID, spec, "must be a map")]
    spec = _map(spec)
    errors += limit_rules.validate(spec, _limits(spec, "total", errors), "spec.total")
    if spec.get("mode", RUNTIME) not in (RUNTIME, FAIR_SHARE):
        errors.append(not_supported("spec.mode", spec.get("mode"), (RUNTIME, FAIR_SHARE)))
    if spec.get("clusterSelector") is not None:
        errors += label_selector.validate(spec["clusterSelector"], "spec.clusterSelector")
    group = spec.get("defaultGroup")
    if group is not None and not (isinstance(group, str) and is_subdomain(group)):
        errors.append(FieldError("spec.defaultGroup", ErrorKind.INVALID, group, _QUOTA_FORM))
    system = spec.get("systemGroup")
    if system is not None and not isinstance(system, Mapping):
        errors.append(FieldError("spec.systemGroup", ErrorKind.INVALID, system, "must have namespaces or a selector"))
    errors += _reach_errors(_map(system), "spec.systemGroup")
    return errors


def warnings(new: Object) -> list[str]:
    """What whoever stores this valid quota should hear about it, each a line of its own."""
    spec = _map(new.get("spec"))
    named = {canonical(name) for field in ("min", "max") for name in _map(spec.get(field))}
    told = [] if named else ["spec names no resource in min or max: this quota limits nothing, and is promised nothing"]
    for name in sorted(_map(spec.get("sharedWeight"))):
        if canonical(name) not in named:
            told.append(
                f"{at_key('spec.sharedWeight', name)}: the quota names no {name} in min or max: it has no effect"
            )
    return told


def _limits(spec: Object, field: str, errors: list[FieldError]) -> dict[str, Quantity]:
    """The amounts of a field that are right, by canonical name; what is wrong with the others goes to the errors."""
    found: dict[str, Quantity] = {}
    for name, amount, path in amounts(spec, field, f"spec.{field}", errors):
        fault = name_fault(name)
        resource = canonical(name)
        if fault is None and resource.startswith(COUNT):
            fault = "objects are not shared among quotas: limit their number with a KarmadaQuota"
        if fault is not None:
            errors.append(FieldError(path, ErrorKind.INVALID, name, fault))
        elif resource in found:
            errors.append(FieldError(path, ErrorKind.INVALID, name, f"names {resource} a second time"))
        elif amount is not None and not unit.is_whole(name, amount):
            step = "thousandths" if resource == "cpu" else "whole units"
            errors.append(FieldError(path, ErrorKind.INVALID, str(amount), f"must be in {step}"))
        elif amount is not None:
            found[resource] = amount
    return found


def _strict_errors(spec: Object, most: Mapping[str, Quantity], used: Object) -> Iterator[FieldError]:
    strict = spec.get("strictMax")
    if strict is not None and not isinstance(strict, list):
        yield FieldError("spec.strictMax", ErrorKind.INVALID, strict, "must be a list of resource names")
    use: dict[str, Quantity] = {}
    for name, amount, _ in amounts({"used": used}, "used", "status.used", []):
        use[canonical(name)] = ZERO if amount is None else amount  # what the store holds is not this request's fault
    for index, name in enumerate(_list(strict)):
        path, resource = f"spec.strictMax[{index}]", canonical(name) if isinstance(name, str) else ""
        if resource not in most:
            yield FieldError(path, ErrorKind.INVALID, name, "must be a resource that spec.max names")
        elif use.get(resource, ZERO) > most[resource]:
            detail = f"must not be below what is used, {use[resource]}, as spec.strictMax names {name}"
            yield FieldError(at_key("spec.max", name), ErrorKind.INVALID, str(most[resource]), detail)


def _name_errors(new: Object) -> Iterator[FieldError]:
    name = _map(new.get("metadata")).get("name")
    if name is not None and not (isinstance(name, str) and is_subdomain(name)):
        detail = "must be a DNS subdomain: lower case letters, digits, '-' and '.', at most 253 characters"
        yield FieldError("metadata.name", ErrorKind.INVALID, name, detail)


def _tree_errors(spec: Object) -> Iterator[FieldError]:
    tree = spec.get("tree")
    if tree is not None and not (isinstance(tree, str) and is_subdomain(tree) and len(tree) <= _LONGEST_TREE):
        yield FieldError("spec.tree", ErrorKind.INVALID, tree, _TREE_FORM)


def _parent_errors(spec: Object, own: object) -> Iterator[FieldError]:
    parent = spec.get("parent")
    if parent is not None and not (isinstance(parent, str) and is_subdomain(parent)):
        yield FieldError("spec.parent", ErrorKind.INVALID, parent, _QUOTA_FORM)
    elif parent is not None and parent == own:
        yield FieldError("spec.parent", ErrorKind.INVALID, parent, "a quota cannot be its own parent")


def _reach_errors(fields: Object, path: str) -> Iterator[FieldError]:
    namespaces = fields.get("namespaces")
    if namespaces is not None and not isinstance(namespaces, list):
        yield FieldError(f"{path}.namespaces", ErrorKind.INVALID, namespaces, "must be a list of namespaces")
    seen: set[str] = set()
    for index, name in enumerate(_list(namespaces)):
        entry = f"{path}.namespaces[{index}]"
        if not isinstance(name, str) or not is_subdomain(name) or "." in name or len(name) > _LONGEST_NAMESPACE:
            yield FieldError(entry, ErrorKind.INVALID, name, _NAMESPACE_FORM)
        elif name in seen:
            yield FieldError(entry, ErrorKind.INVALID, name, "is listed a second time")
        else:
            seen.add(name)
    if fields.get("namespaceSelector") is not None:
        yield from label_selector.validate(fields["namespaceSelector"], f"{path}.namespaceSelector")


def _manager_errors(spec: Object) -> Iterator[FieldError]:
    managers = spec.get("managers")
    if managers is not None and not isinstance(managers, list):
        yield FieldError("spec.managers", ErrorKind.INVALID, managers, "must be a list of users and groups")
    for index, one in enumerate(_list(managers)):
        path = f"spec.managers[{index}]"
        if not isinstance(one, Mapping):
            yield FieldError(path, ErrorKind.INVALID, one, "must have a kind and a name")
            continue
        if one.get("kind") not in _SUBJECTS:
            yield not_supported(f"{path}.kind", one.get("kind"), _SUBJECTS)
        if not isinstance(one.get("name"), str) or not one["name"]:
            yield FieldError(f"{path}.name", ErrorKind.REQUIRED, one.get("name"), "must name a user or a group")
    managed = spec.get("managedNamespaces")
    if managed is not None and not isinstance(managed, Mapping):
        detail = "must have namespaces or a selector"
        yield FieldError("spec.managedNamespaces", ErrorKind.INVALID, managed, detail)
    yield from _reach_errors(_map(managed), "spec.managedNamespaces")
    is_leaf = any(spec.get(field) for field in ("namespaces", "offeredTo")) or spec.get("namespaceSelector") is not None
    for field, value in (("managers", _list(managers)), ("managedNamespaces", managed)):
        if value and is_leaf:
            detail = "a quota for namespaces has nothing below it to manage"
            yield FieldError(f"spec.{field}", ErrorKind.FORBIDDEN, value, detail)


def _map(value: object) -> Object:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
