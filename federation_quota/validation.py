"""Whether a KarmadaQuota may be stored: what its schema cannot say.

Kubernetes' own rules for a ResourceQuota, less what cannot be known of a ResourceBinding. A limit that nobody could
ever enforce is refused with the reason, because a quota that looks as if it held and does not is worse than none.
Types, enumerations and unknown fields are the API server's business (`crds/`); objects that got past it in no shape at
all are refused here too, never a crash.

Never here: who may write, what is used at the moment, HTTP. Called by the webhook that reviews quotas, and by whoever
wants to know before sending.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federation_quota import scope
from federation_quota.field_error import ErrorKind, FieldError, at_key, echo, not_supported
from federation_quota.quantity import ZERO, Quantity, QuantityError, parse
from federation_quota.resource_name import COUNT, GPU_MEMORY, OBJECT_COUNTS, PODS, REQUESTS, canonical
from federation_quota.scope import Selector

# The texts that the CRD's own rules give too: whoever looks first, the answer is one.
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
IMMUTABLE: Final = "field is immutable"
UNSUPPORTED_SCOPE: Final = (
    "unsupported scope: of a ResourceBinding only the PriorityClass is known, what other scopes ask about is in pods"
)
VALUES_REQUIRED: Final = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
VALUES_FORBIDDEN: Final = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"

_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES: Final = "hugepages-"
_NOT_STANDARD: Final = "must be a standard resource for quota"
_UNSUPPORTED_WITH_SCOPE: Final = (
    "unsupported scope applied to resource: with scope PriorityClass a quota limits pods, cpu, memory and extended "
    "resources; put other limits into a quota without scopes"
)

# What stands in no binding, by how the name begins or ends.
_LIMITS: Final = "limits."
_NOT_IN_A_BINDING: Final = {
    "storage": "a ResourceBinding does not say how much storage a claim asks for",
    "requests.storage": "a ResourceBinding does not say how much storage a claim asks for",
    "services.nodeports": "a ResourceBinding does not say of which type a Service is: limit services",
    "services.loadbalancers": "a ResourceBinding does not say of which type a Service is: limit services",
}
_NOT_IN_A_BINDING_BY_PREFIX: Final = {
    ".storageclass.storage.k8s.io": "a ResourceBinding does not say which storage class a claim is for",
    ".deviceclass.resource.k8s.io": "a ResourceBinding does not say which devices are claimed",
}

# A count without a group is of Kubernetes' core group, which is closed: `count/deployments` counts nothing, ever.
_CORE_RESOURCES: Final = OBJECT_COUNTS | {
    "endpoints", "events", "limitranges", "pods", "podtemplates", "serviceaccounts",
}  # fmt: skip

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LONGEST_NAME: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_QUALIFIED: Final = (
    "must be a qualified name: letters, digits, '-', '_' and '.', at most 63 characters, beginning and ending with a "
    "letter or digit; before it, if anything, a DNS subdomain and '/', as in nvidia.com/gpu"
)
_CLASS_NAME: Final = (
    "must be the name of a priority class that fits a label: letters, digits, '-', '_' and '.', 1 to 63 characters, "
    "beginning and ending with a letter or digit; for workloads without a class use DoesNotExist"
)

Object = Mapping[str, Any]


def validate(new: Object, old: Object | None = None) -> list[FieldError]:
    """Everything that is wrong with a quota to be created, or to be stored in the old one's place.

    A specification that does not change is not judged again: what an earlier release let in can still be labelled,
    finalised and deleted.
    """
    errors = list(_name_errors(_map(new.get("metadata")))) if old is None else []
    spec, before = new.get("spec"), None if old is None else old.get("spec")
    if old is not None and spec == before:
        return errors
    if spec is not None and not isinstance(spec, Mapping):
        return [*errors, FieldError("spec", ErrorKind.INVALID, spec, "must be a map")]
    spec = _map(spec)
    errors += _scope_errors(spec)
    is_scoped = bool(_list(spec.get("scopes")) or _match_expressions(spec))
    for name, amount, path in amounts(spec, "hard", "spec.hard", errors):
        fault = name_fault(name) or (_UNSUPPORTED_WITH_SCOPE if is_scoped and not _may_be_scoped(name) else None)
        if fault is not None:
            errors.append(FieldError(path, ErrorKind.INVALID, name, fault))
        elif amount is not None and is_integer(name) and amount != parse(amount.whole()):
            errors.append(FieldError(path, ErrorKind.INVALID, str(amount), "must be an integer"))
    if old is not None and _scope_set(spec) != _scope_set(_map(before)):
        errors.append(FieldError("spec.scopes", ErrorKind.INVALID, spec.get("scopes"), IMMUTABLE))
    return errors


def validate_status(new: Object) -> list[FieldError]:
    """Everything that is wrong with the `hard` and `used` of a status to be stored.

    Which names may be limited is a matter of the specification alone: a status that could not follow it would stop
    the account.
    """
    status = new.get("status")
    if status is not None and not isinstance(status, Mapping):
        return [FieldError("status", ErrorKind.INVALID, status, "must be a map")]
    errors: list[FieldError] = []
    for field in ("hard", "used"):
        for name, _, path in amounts(_map(status), field, f"status.{field}", errors):
            if not _is_qualified(name):
                errors.append(FieldError(path, ErrorKind.INVALID, name, _QUALIFIED))
    return errors


def warnings(new: Object, old: Object | None = None) -> list[str]:
    """What whoever stores this valid quota should hear about it, each a line of its own."""
    spec, before = _map(new.get("spec")), _map(_map(old).get("spec"))
    if old is not None and spec == before:
        return []
    hard = {name: parse(text) for name, text in sorted(_map(spec.get("hard")).items())}
    told = [] if hard else ["spec.hard is empty: this quota limits nothing"]
    if Selector.from_spec(spec).matches_nothing:
        told.append("spec.scopeSelector selects nothing: no priority class satisfies all of its expressions")
    for name, limit in hard.items():
        path = at_key("spec.hard", name)
        for other, tighter in hard.items():
            if other != name and canonical(other) == canonical(name) and tighter < limit:
                told.append(f"{path}: {name} and {other} are one resource, and the lower limit decides: {tighter}")
        resource = canonical(name).removeprefix(COUNT)
        if name.startswith(COUNT) and "." not in resource and resource not in _CORE_RESOURCES:
            told.append(
                f"{path}: Kubernetes' core group has no {resource}; name the group, as in count/deployments.apps"
            )
    return told + list(_limits_below_use(hard, _map(before.get("hard")), _map(_map(old).get("status"))))


def _limits_below_use(hard: Mapping[str, Quantity], before: Object, status: Object) -> Iterator[str]:
    used = _map(status.get("used"))
    for name, limit in hard.items():
        try:
            is_changed = name not in before or _parse(before[name]) != limit
            use = _parse(used[name]) if name in used else ZERO
        except QuantityError:
            continue  # what the store holds is not this request's fault
        if is_changed and use > limit:
            path = at_key("spec.hard", name)
            yield f"{path}: {use} used already, above the limit of {limit}; what runs is not stopped"


def _name_errors(metadata: Object) -> Iterator[FieldError]:
    name = metadata.get("name")
    if name is None:
        return  # generateName, or the API server's to refuse
    if not isinstance(name, str) or not is_subdomain(name):
        detail = "must be a DNS subdomain: lower case letters, digits, '-' and '.', at most 253 characters"
        yield FieldError("metadata.name", ErrorKind.INVALID, name, detail)


def amounts(
    parent: Object, field: str, path: str, errors: list[FieldError]
) -> Iterator[tuple[str, Quantity | None, str]]:
    """Each entry of a map of amounts, with its path; an amount that is wrong is None, and why goes to the errors."""
    given = parent.get(field)
    if given is not None and not isinstance(given, Mapping):
        errors.append(FieldError(path, ErrorKind.INVALID, given, "must be a map of resource names to quantities"))
    for name, text in sorted(_map(given).items()):
        entry = at_key(path, name)
        amount = None
        try:
            amount = _parse(text)
        except QuantityError as error:
            errors.append(FieldError(entry, ErrorKind.INVALID, text, str(error)))
        if amount is not None and amount < ZERO:
            errors.append(FieldError(entry, ErrorKind.INVALID, str(amount), NOT_NEGATIVE))
            amount = None
        yield name, amount, entry


def _parse(text: object) -> Quantity:
    if not isinstance(text, str | int):
        raise QuantityError("must be a quantity, as text or as an integer: for example 2, 500m, 1.5Gi")
    return parse(text)


def name_fault(name: str) -> str | None:
    """Why nothing of that name can be limited; None if it can."""
    if not _is_qualified(name):
        return _QUALIFIED
    return _missing_in_bindings(name) or (_slashed_fault(name) if "/" in name else _bare_fault(name))


def _missing_in_bindings(name: str) -> str | None:
    if name.startswith(_LIMITS):
        wanted = name.removeprefix(_LIMITS)
        return f"a ResourceBinding carries what its pods request, not their limits: limit {REQUESTS}{wanted}"
    for ending, reason in _NOT_IN_A_BINDING_BY_PREFIX.items():
        if name.partition("/")[0].endswith(ending):
            return reason
    return _NOT_IN_A_BINDING.get(name)


def _bare_fault(name: str) -> str | None:
    asked = name.removeprefix(REQUESTS)
    is_standard = asked in _COMPUTE or asked.startswith(_HUGE_PAGES) or name == PODS or name in OBJECT_COUNTS
    return None if is_standard else _NOT_STANDARD


def _slashed_fault(name: str) -> str | None:
    asked = name.removeprefix(REQUESTS)
    prefix, _, rest = asked.partition("/")
    if asked.startswith(COUNT) and (asked != name or not is_subdomain(rest)):
        return "must be count/<resource>.<group> in lower case, as in count/deployments.apps or count/services"
    if prefix == GPU_MEMORY.partition("/")[0] and asked != GPU_MEMORY:
        return f"{_NOT_STANDARD}: {GPU_MEMORY} is the only name with that prefix"
    return None


def _may_be_scoped(name: str) -> bool:
    """Whether a quota with scope PriorityClass can limit it: as Kubernetes, and nothing that counts objects."""
    bare = canonical(name)
    return bare in (PODS, "cpu", "memory") or ("/" in bare and not bare.startswith(COUNT))


def is_integer(name: str) -> bool:
    """Whether there are only whole ones of what goes by that name."""
    bare = canonical(name)
    return bare == PODS or "/" in bare


def _scope_errors(spec: Object) -> Iterator[FieldError]:
    scopes, selector = spec.get("scopes"), spec.get("scopeSelector")
    if scopes is not None and not isinstance(scopes, list):
        yield FieldError("spec.scopes", ErrorKind.INVALID, scopes, "must be a list of scopes")
    if selector is not None and not isinstance(selector, Mapping):
        yield FieldError("spec.scopeSelector", ErrorKind.INVALID, selector, "must be a map with matchExpressions")
    expressions = _map(selector).get("matchExpressions")
    if expressions is not None and not isinstance(expressions, list):
        path = "spec.scopeSelector.matchExpressions"
        yield FieldError(path, ErrorKind.INVALID, expressions, "must be a list of expressions")
    for index, name in enumerate(_list(scopes)):
        if name != scope.PRIORITY_CLASS:
            yield FieldError(f"spec.scopes[{index}]", ErrorKind.INVALID, name, UNSUPPORTED_SCOPE)
    for index, expression in enumerate(_match_expressions(spec)):
        yield from _expression_errors(expression, f"spec.scopeSelector.matchExpressions[{index}]")


def _expression_errors(expression: object, path: str) -> Iterator[FieldError]:
    if not isinstance(expression, Mapping):
        yield FieldError(path, ErrorKind.INVALID, expression, "must have a scopeName, an operator and perhaps values")
        return
    name, operator, values = (expression.get(field) for field in ("scopeName", "operator", "values"))
    if name != scope.PRIORITY_CLASS:
        yield FieldError(f"{path}.scopeName", ErrorKind.INVALID, name, UNSUPPORTED_SCOPE)
    if values is not None and not isinstance(values, list):
        yield FieldError(f"{path}.values", ErrorKind.INVALID, values, "must be a list of priority class names")
    elif operator not in scope.OPERATORS:
        yield not_supported(f"{path}.operator", operator, scope.OPERATORS)
    elif operator not in scope.OPERATORS_WITH_VALUES:
        if values:
            yield FieldError(f"{path}.values", ErrorKind.INVALID, values, VALUES_FORBIDDEN)
    elif not values:
        yield FieldError(f"{path}.values", ErrorKind.REQUIRED, values, VALUES_REQUIRED)
    for index, value in enumerate(_list(values)):
        if not isinstance(value, str) or len(value) > _LONGEST_NAME or not _NAME.fullmatch(value):
            yield FieldError(f"{path}.values[{index}]", ErrorKind.INVALID, value, _CLASS_NAME)


def _match_expressions(spec: Object) -> list[Any]:
    return _list(_map(spec.get("scopeSelector")).get("matchExpressions"))


def _scope_set(spec: Object) -> set[str]:
    return {echo(name) for name in _list(spec.get("scopes"))}


def _is_qualified(name: str) -> bool:
    prefix, slash, rest = name.rpartition("/")
    has_good_prefix = not slash or is_subdomain(prefix)
    return has_good_prefix and len(rest) <= _LONGEST_NAME and _NAME.fullmatch(rest) is not None


def is_subdomain(name: str) -> bool:
    """Whether it can be the name of an object."""
    return len(name) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def _map(value: object) -> Object:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
