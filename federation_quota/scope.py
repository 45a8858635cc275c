"""Which bindings a quota selects: its scopes, reduced to a set of priority class names.

Kubernetes' semantics for scope PriorityClass, whether written as `scopes` or as `scopeSelector`. Every selector comes
down to "only these classes" or "all but these classes", no class at all being the name "". So two selectors are equal
exactly when they select the same, whatever way each was written.

Never here: which limits may stand beside a scope, and what a user is told about a bad one: that is `validation`.
Called by whoever charges a binding to an account, and by whoever asks whether an account's selector has changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

PRIORITY_CLASS: Final = "PriorityClass"

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
OPERATORS_WITH_VALUES: Final = (IN, NOT_IN)
OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)

NO_CLASS: Final = ""


class ScopeError(ValueError):
    """A selector that means nothing here. What passed the API server and validation never is one."""


@dataclass(frozen=True, slots=True)
class Selector:
    """The priority classes that a quota is for. Made by `from_spec`, so that there is one form for one meaning."""

    classes: frozenset[str] = frozenset()
    is_exclusion: bool = True  # whether `classes` are those left out, or those taken
    is_scoped: bool = False

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> "Selector":
        """The selector of a quota's `spec`; ScopeError where it has none that makes sense."""
        selector = EVERYTHING
        for operator, values in _expressions(spec):
            # No class is called "": neither In nor NotIn can say anything about workloads without a class.
            named = frozenset(values) - {NO_CLASS}
            if operator == IN:
                selector = selector._and(named, is_exclusion=False)
            elif operator == NOT_IN:
                selector = selector._and(named, is_exclusion=True)
            else:
                selector = selector._and(frozenset({NO_CLASS}), is_exclusion=operator == EXISTS)
        return selector

    def matches(self, priority_class: str) -> bool:
        """Whether it selects what has that priority class; "" is no class."""
        return (priority_class in self.classes) is not self.is_exclusion

    @property
    def counts_objects(self) -> bool:
        """Whether a quota with it counts objects at all (`services`, `count/deployments.apps`).

        As in Kubernetes, an object has no scope: a quota with any scope counts pods and what they ask for, and its
        object counts stay 0, whatever the class of the workload. `validation` refuses such limits.
        """
        return not self.is_scoped

    @property
    def matches_nothing(self) -> bool:
        """Whether no binding can ever be selected: the expressions exclude each other."""
        return not self.is_exclusion and not self.classes

    def _and(self, classes: frozenset[str], *, is_exclusion: bool) -> "Selector":
        if self.is_exclusion and is_exclusion:
            return Selector(self.classes | classes, is_exclusion=True, is_scoped=True)
        if self.is_exclusion:
            taken = classes - self.classes
        else:
            taken = self.classes - classes if is_exclusion else self.classes & classes
        return Selector(taken, is_exclusion=False, is_scoped=True)

    def __str__(self) -> str:
        """One text for one selector, for people and for comparing across processes; "" for no scope."""
        if not self.is_scoped:
            return ""
        listed = f"[{' '.join(sorted(self.classes - {NO_CLASS}))}]"
        if not self.is_exclusion:
            if self.classes == {NO_CLASS}:
                return f"{PRIORITY_CLASS} {DOES_NOT_EXIST}"
            return f"{PRIORITY_CLASS} {IN} {listed}"
        if self.classes == {NO_CLASS}:
            return f"{PRIORITY_CLASS} {EXISTS}"
        excluded = f"{PRIORITY_CLASS} {NOT_IN} {listed}"
        return f"{PRIORITY_CLASS} {EXISTS}, {excluded}" if NO_CLASS in self.classes else excluded


EVERYTHING: Final = Selector()


def _expressions(spec: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Each operator and its values; a bare scope is one that must exist."""
    for scope in spec.get("scopes") or ():
        yield _operator({"scopeName": scope, "operator": EXISTS}), []
    for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        operator = _operator(expression)
        values = expression.get("values") or []
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ScopeError("the values of a scope selector are not a list of names")
        if bool(values) is not (operator in OPERATORS_WITH_VALUES):
            raise ScopeError(f"{operator} with {len(values)} values")
        yield operator, values


def _operator(expression: Mapping[str, Any]) -> str:
    scope, operator = expression.get("scopeName"), expression.get("operator")
    if scope != PRIORITY_CLASS:
        raise ScopeError(f"scope {scope!r} is not supported, {PRIORITY_CLASS} alone is")
    if operator not in OPERATORS:
        raise ScopeError(f"{operator!r} is no operator of a scope selector")
    return str(operator)
