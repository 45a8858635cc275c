"""Whether the limits of a node fit below those above it, and above those below it.

Whoever is limited on a node is limited further down to no more: by the entry that names them above or, where none
does, by the wildcard there. So every limit can be reached, and none only seems to allow something. Nodes beside each
other are not added up: together they may promise a user more than there is above, and the first to come has it.

- All levels above count, not the nearest alone, and of each all resources that it names.
- What a node and all above it may have at most binds its limits, too: a max further up, and what the tree has in all.
- A wildcard that allows more than somebody named above has is no fault, because the lower limit counts; it is told.

Only what one change is about is judged: what stood before it is not its fault. Pure; the whole tree is given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from federation_quota.field_error import ErrorKind, FieldError, at_key
from federation_quota.limits.limit import WILDCARD, Limit
from federation_quota.limits.validation import PATH
from federation_quota.quantity import Quantity

ROOT: Final = ""
"""The root's name among the levels of a tree."""

UNLIMITED: Final = "no limit"

_KINDS: Final = ("user", "group")


@dataclass(frozen=True, slots=True)
class Level:
    """A node of a tree: what it says of limits, and the most that it may have itself."""

    name: str
    parent: str = ROOT
    limits: tuple[Limit, ...] = ()
    most: Mapping[str, Quantity] = field(default_factory=dict)
    """By canonical name."""

    def names(self, kind: str) -> Iterator[tuple[int, str, Limit]]:
        """Every user, or group, that it names, with its entry."""
        for index, one in enumerate(self.limits):
            for name in one.users if kind == "user" else one.groups:
                yield index, name, one

    def entry(self, kind: str, name: str) -> tuple[int, Limit] | None:
        """The entry that names somebody."""
        return next(((index, one) for index, own, one in self.names(kind) if own == name), None)

    def __str__(self) -> str:
        return self.name or "the tree"


Levels = Mapping[str, Level]


def check(levels: Levels, changed: str, *, is_moved: bool = False) -> list[FieldError]:
    """What stands against a change of one node in the tree as it will be; `is_moved`: it has come below another."""
    above = _above(levels, changed)
    here = levels[changed]
    found = [error for one in above for error in _pair(one, here, changed)]
    for lower in _below(levels, changed):
        found += _pair(here, lower, changed)
        if is_moved:
            found += [error for one in above for error in _pair(one, lower, changed)]
    return found


def warnings(levels: Levels, changed: str) -> list[str]:
    """What whoever makes the change should hear."""
    here, told = levels[changed], []
    for kind in _KINDS:
        wild = here.entry(kind, WILDCARD)
        for one in _above(levels, changed) if wild else ():
            for _, name, limit in one.names(kind):
                is_named = name == WILDCARD or here.entry(kind, name) is not None
                if wild and not is_named and list(_excess(wild[1], limit)):
                    told.append(
                        f"{PATH}[{wild[0]}]: '*' allows {kind} {name} more than {one}, above it, does: "
                        "the lower limit counts"
                    )
    return told


def _pair(upper: Level, lower: Level, changed: str) -> Iterator[FieldError]:
    """What is wrong between two nodes of which one is above the other."""
    for kind in _KINDS:
        for index, name, limit in lower.names(kind):
            found = upper.entry(kind, name)
            whose = f"{kind} {name}"
            if found is None and name != WILDCARD:
                found = upper.entry(kind, WILDCARD)
                whose = f"{'every user' if kind == 'user' else 'the groups'} not named there"
            if found is not None:
                place = _Place(upper, lower, changed, found[0], index, f"{kind} {name}", whose)
                yield from place.errors(limit, found[1])
    yield from _most_errors(upper, lower, changed)


def _excess(limit: Limit, above: Limit) -> Iterator[str]:
    """The resources of which it allows more."""
    for name, most in above.resources.items():
        if name in limit.resources and limit.resources[name] > most:
            yield name


@dataclass(frozen=True, slots=True)
class _Place:
    """Two entries for the same, one above the other, of which the changed node has one."""

    upper: Level
    lower: Level
    changed: str
    upper_index: int
    lower_index: int
    who: str
    whose: str

    def errors(self, limit: Limit, above: Limit) -> Iterator[FieldError]:
        for name in sorted(_excess(limit, above)):
            field_name = at_key("maxResources", name)
            yield self._error(field_name, str(limit.resources[name]), str(above.resources[name]))
        most = above.applications
        if most is not None and (limit.applications is None or limit.applications > most):
            shown = UNLIMITED if limit.applications is None else str(limit.applications)
            yield self._error("maxApplications", shown, str(most))

    def _error(self, field_name: str, wanted: str, most: str) -> FieldError:
        if self.lower.name == self.changed:
            path = f"{PATH}[{self.lower_index}].{field_name}"
            detail = f"{self.who} may have no more than {self.whose} on {self.upper}, above it: {most}"
            kind = ErrorKind.REQUIRED if wanted == UNLIMITED else ErrorKind.INVALID
            return FieldError(path, kind, wanted, detail)
        detail = f"{self.who} has {wanted} on {self.lower}, below it: lower that first"
        if self.upper.name == self.changed:
            return FieldError(f"{PATH}[{self.upper_index}].{field_name}", ErrorKind.INVALID, most, detail)
        detail = f"{self.who} has {wanted} on {self.lower}, and {self.whose} {most} on {self.upper}, above it then"
        return FieldError("spec.parent", ErrorKind.INVALID, self.upper.name, f"{detail}: {field_name}")


def _most_errors(upper: Level, lower: Level, changed: str) -> Iterator[FieldError]:
    """Limits of the lower node that are above all that the upper one may have."""
    field_name = "spec.max" if upper.name else "spec.total"
    for index, limit in enumerate(lower.limits):
        for name, amount in sorted(limit.resources.items()):
            if name not in upper.most or amount <= upper.most[name]:
                continue
            most = upper.most[name]
            if lower.name == changed:
                path = at_key(f"{PATH}[{index}].maxResources", name)
                detail = f"must not be above all that {upper}, above it, may have: {most}"
                yield FieldError(path, ErrorKind.INVALID, str(amount), detail)
            elif upper.name == changed:
                detail = f"a limit on {lower}, below it, allows {amount}: lower that first"
                yield FieldError(at_key(field_name, name), ErrorKind.INVALID, str(most), detail)
            else:
                detail = f"may have {most} of {name} at most, and a limit on {lower} allows {amount}"
                yield FieldError("spec.parent", ErrorKind.INVALID, upper.name, detail)


def _above(levels: Levels, name: str) -> list[Level]:
    """The nodes above one, the nearest first, the root last; it ends where a parent is missing or comes again."""
    found: list[Level] = []
    if name == ROOT:
        return found
    parent = levels[name].parent
    while parent != ROOT and parent in levels and all(one.name != parent for one in found) and parent != name:
        found.append(levels[parent])
        parent = levels[parent].parent
    return [*found, levels[ROOT]] if ROOT in levels else found


def _below(levels: Levels, name: str) -> list[Level]:
    """The nodes below one that have limits, by name."""
    others = (levels[one] for one in sorted(levels) if one not in (name, ROOT) and levels[one].limits)
    return [one for one in others if any(upper.name == name for upper in _above(levels, one.name))]
