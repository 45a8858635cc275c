"""A kind of object by group and plural, whatever its version, as kubectl takes it: `deployments.apps`, `pods`."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_WRITTEN: Final = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?)((?:\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)")


class GroupResource(NamedTuple):
    """One kind."""

    group: str  # empty for the core
    plural: str

    @classmethod
    def parse(cls, text: str) -> "GroupResource":
        """PLURAL or PLURAL.GROUP; ValueError where it is neither. No wildcards: each kind is named."""
        found = _WRITTEN.fullmatch(text)
        if not found:
            raise ValueError(f"{text!r} is not of the form PLURAL.GROUP: deployments.apps, or pods")
        return cls(found[3].removeprefix("."), found[1])

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


WORKLOADS: Final = tuple(
    GroupResource.parse(text)
    for text in (
        "pods",
        "daemonsets.apps",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "cronjobs.batch",
        "jobs.batch",
    )
)
"""Kubernetes' own kinds with pods that people propagate."""


def by_group(resources: Iterable[GroupResource]) -> dict[str, list[str]]:
    """The plurals of each group, sorted."""
    found: dict[str, list[str]] = {}
    for resource in sorted(set(resources)):
        found.setdefault(resource.group, []).append(resource.plural)
    return found
