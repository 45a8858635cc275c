"""YuniKorn's rules for limits: of one queue, and of queues below each other.

The rules below each other are YuniKorn's own, gaps and all: whoever is named below a wildcard keeps only what the entry
that names them says, and what is not limited above makes it unlimited below. Our `limits.hierarchy` has none of these.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from federation_quota.limits.limit import WILDCARD
from federation_quota.yunikorn import amount
from federation_quota.yunikorn.amount import Amounts
from federation_quota.yunikorn.config import ROOT, Limit, Queue
from federation_quota.yunikorn.document import ConfigError

_USER: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")


def check_queue(queue: Queue) -> None:
    """The limits of one queue, entry by entry."""
    users: set[str] = set()
    groups: set[str] = set()
    for limit in queue.limits:
        _check(limit, queue, users, groups)


def _check(limit: Limit, queue: Queue, users: set[str], groups: set[str]) -> None:
    if not limit.users and not limit.groups:
        raise ConfigError(f"empty user and group lists defined in limit '{limit.label}'")
    _check_names("user", limit.users, users, _USER, ", already exists")
    _check_names("group", limit.groups, groups, _GROUP, "")
    if groups == {WILDCARD}:
        raise ConfigError(
            "should not specify only one group limit that is using the wildcard. "
            "There must be at least one limit with a group name defined "
        )
    resources = amount.read(limit.resources)
    if limit.resources and not any(resources.values()):
        raise ConfigError(f"MaxResources should be greater than zero in '{limit.label}' limit")
    if not limit.applications and not resources:
        raise ConfigError(f"invalid resource combination for limit {limit.label} all resource limits are null")
    if queue.applications and queue.applications < limit.applications:
        raise ConfigError(
            f"invalid MaxApplications settings for limit {limit.label} exceed current the queue MaxApplications"
        )
    if queue.name == ROOT:
        return
    try:
        most = amount.read(queue.most)
    except ConfigError as error:
        raise ConfigError(f"parse queue {queue.name} max resource failed: {error}") from None
    if not amount.fits(resources, most):
        raise ConfigError(
            f"invalid MaxResources settings for limit {limit.label} exeecd current the queue MaxResources"
        )


def _check_names(kind: str, names: Iterable[str], known: set[str], form: re.Pattern[str], ending: str) -> None:
    for name in names:
        if name != WILDCARD and not form.fullmatch(name):
            raise ConfigError(f"invalid limit {kind} name '{name}' in limit definition")
        if name in known:
            raise ConfigError(f"duplicated {kind} name '{name}'{ending}")
        known.add(name)
        if WILDCARD in known and name != WILDCARD:
            raise ConfigError(f"should not set no wildcard {kind} {name} after wildcard {kind} limit")


Carried = Mapping[tuple[str, str], Amounts]
"""Of users and groups by kind and name, the least that they may have up to here."""
Names = Callable[[Limit], Iterable[tuple[str, str]]]


def check_resources(queue: Queue, above: Carried | None = None) -> None:
    """That nobody may have more below than above: resources."""
    above = above or {}
    carried = dict(above)
    for limit in queue.limits:
        own = amount.read(limit.resources)
        for kind, name in _named(limit):
            most, wild = above.get((kind, name)), above.get((kind, WILDCARD))
            begin = f"{kind} {name} max resource {amount.shown(own)} of queue {queue.name} is greater than"
            if most is not None and not amount.fits(own, most):
                raise ConfigError(f"{begin} immediate or ancestor parent maximum resource {amount.shown(most)}")
            if most is None and wild is not None and not amount.fits(own, wild):
                text = f"wildcard maximum resource {amount.shown(wild)} of immediate or ancestor parent queue"
                raise ConfigError(f"{begin} {text}")
            carried[kind, name] = own if most is None else amount.least(own, most)
    for child in queue.queues:
        check_resources(child, carried)


def check_applications(queue: Queue, above: Mapping[tuple[str, str], int] | None = None) -> None:
    """The same of applications, of which zero is any number."""
    above = above or {}
    carried = dict(above)
    for limit in queue.limits:
        own = limit.applications
        for kind, name in _named(limit):
            most, wild = above.get((kind, name)), above.get((kind, WILDCARD))
            begin = f"{kind} {name} max applications {own} of queue {queue.name} is greater than"
            if most and (own > most or not own):
                raise ConfigError(f"{begin} immediate or ancestor parent max applications {most}")
            if most is None and wild and (own > wild or not own):
                raise ConfigError(f"{begin} wildcard max applications {wild} of immediate or ancestor parent queue")
            carried[kind, name] = own if most is None else min(own, most)
    for child in queue.queues:
        check_applications(child, carried)


def _named(limit: Limit) -> list[tuple[str, str]]:
    return [*(("user", name) for name in limit.users), *(("group", name) for name in limit.groups)]
