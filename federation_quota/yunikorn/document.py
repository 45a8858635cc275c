"""YAML in which every field is known: a document as typed values, or every place where it is not what it should be.

As strict as Go's decoder with known fields: names are exact, a field comes once, a number is a number. Where text is
wanted any plain value is text, as it was written. What is empty is absent.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import yaml

_INTEGER: Final = re.compile(r"\+?(0|[1-9][0-9]*)")
_TRUE: Final = frozenset({"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE: Final = frozenset({"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"})
_NULL: Final = "tag:yaml.org,2002:null"
_MOST: Final = 2**64 - 1
_MOST_DIGITS: Final = len(f"+{_MOST}")


class ConfigError(ValueError):
    """A configuration that YuniKorn would refuse; the text is YuniKorn's."""


class Faults:
    """What was found to be wrong, in order."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, node: yaml.Node, what: str) -> None:
        """At a place in the document."""
        self._found.append(f"line {node.start_mark.line + 1}: {what}")

    def unfit(self, node: yaml.Node, wanted: str) -> None:
        """Something else than what should be there."""
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        value = f" `{node.value[:32]}`" if isinstance(node, yaml.ScalarNode) else ""
        self.add(node, f"cannot unmarshal !!{kind}{value} into {wanted}")

    def check(self) -> None:
        """ConfigError where there are any."""
        if self._found:
            raise ConfigError(f"yaml: unmarshal errors: {', '.join(self._found)}")


Read = Callable[[yaml.Node, Faults], object]
"""What makes a value of a node; None where it is empty, or unfit, which is noted."""


def decode(text: str, read: Read) -> tuple[object, bool]:
    """The first document of a text, which is all that YuniKorn reads, and whether there are more."""
    faults = Faults()
    try:
        loader = yaml.SafeLoader(text)
        nodes: list[yaml.Node] = []
        while len(nodes) <= 1 and loader.check_node():
            nodes += [node] if (node := loader.get_node()) is not None else []
        found = read(nodes[0], faults) if nodes else None
    except yaml.YAMLError as problem:
        raise ConfigError(f"yaml: {' '.join(str(problem).split())}") from None
    except RecursionError:
        raise ConfigError("yaml: an anchor contains itself") from None
    faults.check()
    return found, len(nodes) > 1


def is_empty(node: yaml.Node) -> bool:
    """Whether nothing stands there."""
    return node.tag == _NULL


def text(node: yaml.Node, faults: Faults) -> str | None:
    """As it was written."""
    if is_empty(node):
        return None
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    faults.unfit(node, "string")
    return None


def count(node: yaml.Node, faults: Faults) -> int | None:
    """A whole number that is not negative."""
    if is_empty(node):
        return None
    is_plain = isinstance(node, yaml.ScalarNode) and node.style is None and len(node.value) <= _MOST_DIGITS
    if is_plain and _INTEGER.fullmatch(node.value) and int(node.value) <= _MOST:
        return int(node.value)
    faults.unfit(node, "uint64")
    return None


def number(node: yaml.Node, faults: Faults) -> float | None:
    """Any number."""
    if is_empty(node):
        return None
    try:
        if isinstance(node, yaml.ScalarNode) and node.style is None:
            return float(node.value)
    except ValueError:
        pass
    faults.unfit(node, "float64")
    return None


def flag(node: yaml.Node, faults: Faults) -> bool | None:
    """True or false."""
    if is_empty(node):
        return None
    if isinstance(node, yaml.ScalarNode) and node.style is None and node.value in _TRUE | _FALSE:
        return node.value in _TRUE
    faults.unfit(node, "bool")
    return None


def each(read: Read, wanted: str) -> Read:
    """A list of these."""

    def found(node: yaml.Node, faults: Faults) -> list[object] | None:
        if is_empty(node):
            return None
        if not isinstance(node, yaml.SequenceNode):
            faults.unfit(node, f"[]{wanted}")
            return None
        return [read(one, faults) for one in node.value]

    return found


def table(read: Read, wanted: str) -> Read:
    """A map of these, by whatever names."""

    def found(node: yaml.Node, faults: Faults) -> dict[str, object] | None:
        if is_empty(node):
            return None
        pairs = _pairs(node, faults, f"map[string]{wanted}")
        return None if pairs is None else {name: read(one, faults) for name, (_, one) in pairs.items()}

    return found


def fields(known: Mapping[str, Read], wanted: str) -> Read:
    """A map that has these fields and no others."""

    def found(node: yaml.Node, faults: Faults) -> dict[str, object] | None:
        if is_empty(node):
            return None
        pairs = _pairs(node, faults, wanted)
        if pairs is None:
            return None
        for name, (key, _) in pairs.items():
            if name not in known:
                faults.add(key, f"field {name} not found in type {wanted}")
        return {name: known[name](one, faults) for name, (_, one) in pairs.items() if name in known}

    return found


def _pairs(node: yaml.Node, faults: Faults, wanted: str) -> dict[str, tuple[yaml.Node, yaml.Node]] | None:
    if not isinstance(node, yaml.MappingNode):
        faults.unfit(node, wanted)
        return None
    own: dict[str, int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in own:
                faults.add(key, f'mapping key "{key.value}" already defined at line {own[key.value]}')
            own.setdefault(key.value, key.start_mark.line + 1)
    yaml.constructor.SafeConstructor().flatten_mapping(node)
    found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            found[str(key.value)] = (key, value)
        else:
            faults.unfit(key, "string")
    return found
