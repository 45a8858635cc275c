"""YuniKorn's rules for placement rules: names, filters, and that queues which are named outright exist."""

import re
from collections.abc import Iterable
from typing import Final

from federation_quota.yunikorn.config import ROOT, Partition, Queue, Rule
from federation_quota.yunikorn.document import ConfigError

FIXED: Final = "fixed"
TAG: Final = "tag"
NAMESPACE: Final = "namespace"
PROVIDED: Final = "provided"

_RULE: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9_]*")
_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
_SPECIAL: Final = re.compile(r"[\^$*+?()\[{}|]")
_FILTERS: Final = ("", "allow", "deny")


def check(partition: Partition, root: Queue) -> None:
    """All of a partition's."""
    for rule in partition.rules:
        for one in reversed(rule.chain):
            _check_rule(one)
    for number, rule in enumerate(partition.rules):
        path, is_whole = static_path(rule)
        if path.startswith(ROOT):
            chain = "->".join(one.name for one in rule.chain)
            _check_path(path, root, rule.creates, is_whole, f"placement rule no. #{number} ({chain})")


def static_path(rule: Rule) -> tuple[str, bool]:
    """The queue that a rule names outright, and whether that is all of the way."""
    path = ""
    for one in rule.chain:
        if one.name != FIXED:
            return path or "<dynamic>", False
        if not one.value.startswith(ROOT):
            path = f"{path or ROOT}.{one.value}"
        elif path:
            raise ConfigError(f"illegal fully qualified 'fixed' rule with value {one.value}")
        else:
            path = one.value
    return path, True


def _check_rule(rule: Rule) -> None:
    if not _RULE.fullmatch(rule.name):
        raise ConfigError(f"invalid rule name {rule.name}, a name must be a valid identifier")
    if rule.filter_type.lower() not in _FILTERS:
        raise ConfigError(f"invalid rule filter type {rule.filter_type}, filter type  must be either '', allow or deny")
    for kind, names, form in (("user", rule.users, _USER), ("group", rule.groups, _GROUP)):
        if len(names) == 1 and not form.fullmatch(names[0]) and not _is_pattern(names[0]):
            listed = " ".join(names)
            raise ConfigError(f"invalid rule filter {kind} list is not a proper list or regexp: [{listed}]")


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return bool(_SPECIAL.search(text))


def _check_path(path: str, root: Queue, creates: bool, is_whole: bool, who: str) -> None:
    queues: Iterable[Queue] = (root,)
    last: Queue | None = None
    for part in path.lower().split("."):
        if last is not None and not last.queues and not last.is_parent:
            text = f"which cannot be created because the last queue ({last.name}) in the hierarchy is a leaf"
            raise ConfigError(f"{who} references non-existing queues ({path}) {text}")
        found = next((one for one in queues if one.name == part), None)
        if found is None:
            if creates:
                return
            raise ConfigError(f"{who} references non-existing queues ({path}) and create is 'false'")
        last, queues = found, found.queues
    if last is not None and (bool(last.queues) or last.is_parent) is is_whole:
        raise ConfigError(f"{who} references a queue ({path}) which is not a leaf")
