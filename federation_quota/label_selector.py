"""Kubernetes' label selectors: `matchLabels` and `matchExpressions`, all of which must hold.

An empty selector takes everything, and an absent one is no selector. Reading one that makes no sense is an error, which
`validate` finds in words for whoever wrote it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation_quota.field_error import ErrorKind, FieldError, at_key, not_supported

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)

_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_LONGEST_PREFIX: Final = 253
_VALUE_FORM: Final = (
    "must be a label's value: empty, or at most 63 letters, digits, '-', '_' and '.', beginning and ending with a "
    "letter or digit"
)
_KEY_FORM: Final = (
    "must be a label's key: at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit; "
    "before it, if anything, a DNS subdomain and '/'"
)


class SelectorError(ValueError):
    """A selector that makes no sense. What passed validation never is one."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it holds; NotIn holds of what has no such label too."""
        if self.operator == EXISTS:
            return self.key in labels
        if self.operator == DOES_NOT_EXIST:
            return self.key not in labels
        is_among = self.key in labels and labels[self.key] in self.values
        return is_among is (self.operator == IN)

    def implies(self, other: "Requirement") -> bool:
        """Whether the other holds wherever this does."""
        if self.key != other.key:
            return False
        if other.operator == EXISTS:
            return self.operator in (EXISTS, IN)
        if other.operator == DOES_NOT_EXIST:
            return self.operator == DOES_NOT_EXIST
        if other.operator == IN:
            return self.operator == IN and self.values <= other.values
        if self.operator == IN:
            return not self.values & other.values
        return self.operator == DOES_NOT_EXIST or (self.operator == NOT_IN and self.values >= other.values)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions on labels."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def read(cls, selector: Mapping[str, Any]) -> "LabelSelector":
        """The selector in an object's field; SelectorError where it makes no sense."""
        faults = validate(selector, "selector")
        if faults:
            raise SelectorError(str(faults[0]))
        labels = selector.get("matchLabels") or {}
        equal = (Requirement(key, IN, frozenset({value})) for key, value in sorted(labels.items()))
        listed = (
            Requirement(one["key"], one["operator"], frozenset(one.get("values") or ()))
            for one in selector.get("matchExpressions") or ()
        )
        return cls((*equal, *listed))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether all of it holds of these labels."""
        return all(one.matches(labels) for one in self.requirements)

    def implies(self, other: "LabelSelector") -> bool:
        """Whether the other takes all that this one takes, whatever comes; as far as single conditions show it."""
        return all(any(one.implies(wanted) for one in self.requirements) for wanted in other.requirements)


def validate(selector: object, path: str) -> list[FieldError]:
    """Everything that is wrong with a selector in a field."""
    return list(_errors(selector, path))


def _errors(selector: object, path: str) -> Iterator[FieldError]:
    if not isinstance(selector, Mapping):
        yield FieldError(path, ErrorKind.INVALID, selector, "must have matchLabels, matchExpressions or both")
        return
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    if labels is not None and not isinstance(labels, Mapping):
        yield FieldError(f"{path}.matchLabels", ErrorKind.INVALID, labels, "must be a map of labels")
    for key, value in sorted(labels.items()) if isinstance(labels, Mapping) else ():
        yield from _key_errors(key, f"{path}.matchLabels")
        yield from _value_errors(value, at_key(f"{path}.matchLabels", str(key)))
    if expressions is not None and not isinstance(expressions, list):
        yield FieldError(f"{path}.matchExpressions", ErrorKind.INVALID, expressions, "must be a list of expressions")
    for index, one in enumerate(expressions if isinstance(expressions, list) else ()):
        yield from _expression_errors(one, f"{path}.matchExpressions[{index}]")


def _expression_errors(expression: object, path: str) -> Iterator[FieldError]:
    if not isinstance(expression, Mapping):
        yield FieldError(path, ErrorKind.INVALID, expression, "must have a key, an operator and perhaps values")
        return
    operator, values = expression.get("operator"), expression.get("values")
    yield from _key_errors(expression.get("key"), f"{path}.key")
    if operator not in OPERATORS:
        yield not_supported(f"{path}.operator", operator, OPERATORS)
    elif values is not None and not isinstance(values, list):
        yield FieldError(f"{path}.values", ErrorKind.INVALID, values, "must be a list of labels' values")
    elif operator in (IN, NOT_IN) and not values:
        yield FieldError(f"{path}.values", ErrorKind.REQUIRED, values, f"must be at least one value with {operator}")
    elif operator in (EXISTS, DOES_NOT_EXIST) and values:
        yield FieldError(f"{path}.values", ErrorKind.FORBIDDEN, values, f"may not be given with {operator}")
    for index, value in enumerate(values if isinstance(values, list) else ()):
        yield from _value_errors(value, f"{path}.values[{index}]")


def _key_errors(key: object, path: str) -> Iterator[FieldError]:
    prefix, slash, name = key.rpartition("/") if isinstance(key, str) else ("", "", "")
    has_good_prefix = not slash or (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix) is not None)
    if not name or not has_good_prefix or not _VALUE.fullmatch(name):
        yield FieldError(path, ErrorKind.INVALID, key, _KEY_FORM)


def _value_errors(value: object, path: str) -> Iterator[FieldError]:
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        yield FieldError(path, ErrorKind.INVALID, value, _VALUE_FORM)
