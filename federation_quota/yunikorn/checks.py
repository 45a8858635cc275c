"""Whether YuniKorn would take a configuration: its rules in its order, the first that is broken in its words."""

import re
from typing import Final

from federation_quota.yunikorn import amount, limits, placement
from federation_quota.yunikorn.amount import Amounts
from federation_quota.yunikorn.config import Config, Partition, Queue, decode
from federation_quota.yunikorn.document import ConfigError

_QUEUE: Final = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
_POLICIES: Final = ("", "fair", "binpacking")
_MOST_IN_AN_ACL: Final = 2


def load(text: str) -> Config:
    """The configuration that a text holds; ConfigError where YuniKorn would refuse it."""
    config = decode(text)
    check(config)
    return config


def check(config: Config) -> None:
    """All rules; ConfigError names the first that is broken."""
    seen: set[str] = set()
    for partition in config.partitions:
        if partition.title.lower() in seen:
            raise ConfigError(f"duplicate partition name found with name {partition.title}")
        seen.add(partition.title.lower())
        _check_partition(partition)


def _check_partition(partition: Partition) -> None:
    if partition.queues is None:
        raise ConfigError("queue config is not set")
    root = partition.root
    if root.guaranteed is not None or root.most is not None:
        raise ConfigError("root queue must not have resource limits set")
    if partition.limits and root.limits != partition.limits:
        raise ConfigError("partition limits and root queue limits are not equivalent")
    _check_queue(root, 1)
    _check_resources(root, {})
    placement.check(partition, root)
    if partition.sort_policy not in _POLICIES:
        raise ConfigError(f"undefined policy: {partition.sort_policy}")
    for name, weight in sorted(partition.weights.items()):
        if weight < 0:
            raise ConfigError(f"negative resource weight for {name} is not allowed")
    _check_applications(root)
    limits.check_resources(root)
    limits.check_applications(root)


def _check_queue(queue: Queue, level: int) -> None:
    for given in (queue.admins, queue.submitters):
        if len(given.split()) > _MOST_IN_AN_ACL:
            raise ConfigError(f"multiple spaces found in ACL: '{given.strip()}'")
    limits.check_queue(queue)
    seen: set[str] = set()
    for child in queue.queues:
        if not _QUEUE.fullmatch(child.name):
            form = "a name must only have alphanumeric characters, '-', '_', ':', '#', '/' or '@'"
            raise ConfigError(f"invalid queue name '{child.name}', {form}, and be no longer than 64 characters")
        if child.name.lower() in seen:
            raise ConfigError(f"duplicate child name found with name '{child.name}', level {level}")
        seen.add(child.name.lower())
    for child in queue.queues:
        _check_queue(child, level + 1)


def _check_resources(queue: Queue, above: Amounts) -> Amounts:
    """What is guaranteed to a queue, or to those below it together, beside the most that there is above."""
    guaranteed, most = amount.read(queue.guaranteed), amount.read(queue.most)
    if not amount.fits(guaranteed, most):
        said = f"guaranteed resource {amount.shown(guaranteed)} is larger than maximum resource {amount.shown(most)}"
        raise ConfigError(f"{said} for queue {queue.name}")
    if not amount.fits(most, above):
        said = f"max resource of parent {amount.shown(above)} is smaller than maximum resource {amount.shown(most)}"
        raise ConfigError(f"{said} for queue {queue.name}")
    most = amount.least(most, above)
    below: Amounts = {}
    for child in queue.queues:
        below = amount.plus(below, _check_resources(child, most))
    ending = f"is smaller than sum of guaranteed resources {amount.shown(below)} of the children for queue {queue.name}"
    if not amount.fits(below, guaranteed):
        raise ConfigError(f"guaranteed resource of parent {amount.shown(guaranteed)} {ending}")
    if not amount.fits(below, most):
        raise ConfigError(f"max resource {amount.shown(most)} {ending}")
    return guaranteed if any(guaranteed.values()) else below


def _check_applications(queue: Queue) -> None:
    for child in queue.queues:
        if queue.applications and not 0 < child.applications <= queue.applications:
            raise ConfigError("parent maxApplications must be larger than child maxApplications")
        _check_applications(child)
