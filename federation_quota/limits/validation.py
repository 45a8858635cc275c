"""Whether the limits of one node may be stored, as far as it can be told from that node alone.

Each fault is named by its place, and none hides another. What a node may say below what others say is `hierarchy`'s.
Shapes that got past the API server are refused here too, never a crash.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federation_quota.field_error import ErrorKind, FieldError
from federation_quota.limits.limit import WILDCARD
from federation_quota.quantity import Quantity, parse
from federation_quota.resource_name import canonical
from federation_quota.validation import amounts, is_integer, name_fault

PATH: Final = "spec.limits"

USER_FORM: Final = (
    "must be a user as the API server knows them, or '*' for everybody who is not named: letters, digits and "
    ":#/_.@-, beginning with a letter or '_', perhaps a '$' at the end"
)
GROUP_FORM: Final = (
    "must be a group as the API server knows it, or '*' for all that are not named: letters, digits and :_.-, "
    "beginning with a letter or '_'"
)
ALONE: Final = (
    "would be a limit for everybody together, which the node's own max is: name at least one group before '*'"
)
NOBODY: Final = "must list users or groups that it is for"
NOTHING: Final = "must limit something: maxResources, maxApplications or both"
ALL_ZERO: Final = "must allow some of at least one resource; to keep somebody out, give them no permissions"
APPLICATIONS_FORM: Final = "must be a whole number of at least 1; leave it out for no limit"

_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
_KINDS: Final = (("user", "users", _USER, USER_FORM), ("group", "groups", _GROUP, GROUP_FORM))

Object = Mapping[str, Any]


def validate(spec: Object, most: Mapping[str, Quantity], most_field: str) -> list[FieldError]:
    """Everything that is wrong with the limits in a spec; `most`, by canonical name, is what the node may have itself,
    as the field of that name says."""
    given = spec.get("limits")
    if given is None:
        return []
    if not isinstance(given, list):
        return [FieldError(PATH, ErrorKind.INVALID, given, "must be a list of limits")]
    errors: list[FieldError] = []
    listed: dict[str, dict[str, str]] = {kind: {} for kind, *_ in _KINDS}  # by name, where
    for index, one in enumerate(given):
        path = f"{PATH}[{index}]"
        if isinstance(one, Mapping):
            errors += _name_errors(one, path, listed)
            errors += _amount_errors(one, path, most, most_field)
        else:
            errors.append(FieldError(path, ErrorKind.INVALID, one, NOBODY))
    return errors


def _name_errors(one: Object, path: str, listed: dict[str, dict[str, str]]) -> Iterator[FieldError]:
    if not one.get("users") and not one.get("groups"):
        yield FieldError(path, ErrorKind.REQUIRED, None, NOBODY)
    for kind, field, form, text in _KINDS:
        names, seen = one.get(field), listed[kind]
        if names is not None and not isinstance(names, list):
            yield FieldError(f"{path}.{field}", ErrorKind.INVALID, names, f"must be a list of {field}")
            continue
        for index, name in enumerate(names or ()):
            place = f"{path}.{field}[{index}]"
            if not isinstance(name, str) or (name != WILDCARD and not form.fullmatch(name)):
                yield FieldError(place, ErrorKind.INVALID, name, text)
            elif name in seen:
                detail = f"has a limit on this node already, in {seen[name]}"
                yield FieldError(place, ErrorKind.INVALID, name, detail)
            elif WILDCARD in seen:
                detail = f"comes after '*', in {seen[WILDCARD]}, which is for all that are not named before it"
                yield FieldError(place, ErrorKind.INVALID, name, detail)
            elif kind == "group" and name == WILDCARD and not seen:
                yield FieldError(place, ErrorKind.INVALID, name, ALONE)
            if isinstance(name, str):
                seen.setdefault(name, place)


def _amount_errors(one: Object, path: str, most: Mapping[str, Quantity], most_field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    found: dict[str, Quantity | None] = {}
    for name, amount, place in amounts(one, "maxResources", f"{path}.maxResources", errors):
        fault, resource = name_fault(name), canonical(name)
        if fault is not None:
            errors.append(FieldError(place, ErrorKind.INVALID, name, fault))
        elif resource in found:
            errors.append(FieldError(place, ErrorKind.INVALID, name, f"names {resource} a second time"))
        elif amount is not None and is_integer(name) and amount != parse(amount.whole()):
            errors.append(FieldError(place, ErrorKind.INVALID, str(amount), "must be an integer"))
        elif amount is not None and resource in most and amount > most[resource]:
            detail = f"must not be above {most_field}, {most[resource]}"
            errors.append(FieldError(place, ErrorKind.INVALID, str(amount), detail))
        found[resource] = amount
    if found and all(amount is not None and amount.is_zero for amount in found.values()):
        errors.append(FieldError(f"{path}.maxResources", ErrorKind.INVALID, one.get("maxResources"), ALL_ZERO))
    count = one.get("maxApplications")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        errors.append(FieldError(f"{path}.maxApplications", ErrorKind.INVALID, count, APPLICATIONS_FORM))
    if not one.get("maxResources") and not count:
        errors.append(FieldError(path, ErrorKind.REQUIRED, None, NOTHING))
    return errors
