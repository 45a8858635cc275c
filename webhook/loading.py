"""Validators from installed packages: found by their entry points, imported, made, and checked.

Done before anything else is: what does not fit ends the start with one line. Which fit is `validators.registry`'s.
"""

from collections.abc import Sequence
from importlib import metadata

from federation_quota.validators import Validator, registry
from federation_quota.validators.registry import Registration, ValidatorError


def load(wanted: Sequence[str]) -> tuple[Validator, ...]:
    """The validators of those names, in order; ValidatorError where one cannot be had."""
    points = {_registration(one): one for one in metadata.entry_points(group=registry.GROUP)}
    chosen = registry.choose(wanted, points)
    made = []
    for registration in chosen:
        where = f"validator {registration.name!r} of {registration.package} ({registration.target})"
        try:
            found = points[registration].load()
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            raise ValidatorError(f"{where} cannot be imported: {_said(problem)}") from None
        try:
            one = found() if isinstance(found, type) else found
        except Exception as problem:
            raise ValidatorError(f"{where} cannot be made: {_said(problem)}") from None
        made.append(registry.fit(registration, one))
    return tuple(made)


def _registration(point: metadata.EntryPoint) -> Registration:
    return Registration(point.name, point.value, point.dist.name if point.dist else "a package without a name")


def _said(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
