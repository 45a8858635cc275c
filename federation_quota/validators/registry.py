"""Which validators are to run: the rules by which a choice of names, and what is installed, fit together or do not.

Whatever is not switched on is not looked at, and its code is never run. What is switched on has to be there once, and
has to be a validator: everything else is one clear line before anything starts.
"""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation_quota.validators.validator import Validator

GROUP: Final = "federation_quota.validators"
"""The entry points that validators are found by."""


class ValidatorError(ValueError):
    """Why the validators that were asked for cannot run; the text names the one that is at fault."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A validator that is installed."""

    name: str
    target: str
    """Where its code is: `module:attribute`."""
    package: str
    """The distribution that brings it."""


def choose(wanted: Sequence[str], installed: Iterable[Registration]) -> list[Registration]:
    """The registrations of those names, in that order; ValidatorError where one is missing or is there twice."""
    found: dict[str, list[Registration]] = {}
    for one in installed:
        found.setdefault(one.name, []).append(one)
    chosen = []
    for name in wanted:
        if wanted.count(name) > 1:
            raise ValidatorError(f"validator {name!r} is switched on twice")
        match found.get(name, []):
            case []:
                known = ", ".join(sorted(found)) or "none at all"
                raise ValidatorError(f"validator {name!r} is not installed; there is {known}")
            case [only]:
                chosen.append(only)
            case several:
                places = " and ".join(sorted(f"{one.package} ({one.target})" for one in several))
                raise ValidatorError(f"validator {name!r} is there more than once: in {places}")
    return chosen


def fit(registration: Registration, made: Any) -> Validator:  # noqa: ANN401 - whatever was installed
    """That object as a validator; ValidatorError where it is none."""
    name = registration.name

    def wrong(text: str) -> ValidatorError:
        return ValidatorError(f"validator {name!r} of {registration.package} ({registration.target}): {text}")

    def attribute(wanted: str) -> Any:  # noqa: ANN401 - whatever it has there
        try:
            return getattr(made, wanted, None)
        except Exception as problem:  # of a property
            raise wrong(f"its `{wanted}` cannot be read: {_said(problem)}") from None

    found = attribute("name")
    if not isinstance(found, str) or found != name:
        raise wrong(f"its `name` is {found!r}, and must be that of its entry point")
    if not isinstance(attribute("enabled"), bool):
        raise wrong("its `enabled` is neither True nor False")
    for method, arguments in (("start", ["context"]), ("validate", ["request", "tenant"])):
        called = attribute(method)
        if not callable(called):
            raise wrong(f"it has no `{method}`")
        try:
            inspect.signature(called).bind(*arguments)
        except Exception as problem:  # a ValueError of what is built in: it does not say how it is called
            raise wrong(f"`{method}` cannot be called with ({', '.join(arguments)}): {_said(problem)}") from None
    validator: Validator = made
    return validator


def settings(text: str, chosen: Iterable[str]) -> dict[str, dict[str, str]]:
    """What was set for each validator: `budget.config-map=budgets,budget.currency=EUR`; ValidatorError for nonsense."""
    found: dict[str, dict[str, str]] = {name: {} for name in chosen}
    for part in filter(None, (one.strip() for one in text.split(","))):
        place, is_set, value = part.partition("=")
        name, dot, key = place.partition(".")
        if not is_set or not dot or not key:
            raise ValidatorError(f"{part!r} does not set anything: write VALIDATOR.KEY=VALUE")
        if name not in found:
            raise ValidatorError(f"{part!r} is for validator {name!r}, which is not switched on")
        found[name][key] = value
    return found


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
