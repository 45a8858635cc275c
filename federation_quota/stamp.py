"""The stamp on a binding, the marker of a held one, and the names of every label and annotation of ours.

A ResourceBinding does not say everything its cost and its place in a queue depend on: who asked, with which priority,
how the template's resource is called. The mutating webhook writes that once, as compact JSON in one annotation, and
the validating webhook lets nobody else touch it. From then on a binding speaks for itself. One that does so already,
because Karmada wrote that its pods have no priority class, and nothing else is known of it, carries none: most patches
would say nothing, and each costs an API server more than the decision does.

Held is a *label* beside `spec.suspension.scheduling`, not an annotation: administrators list what is held with
`kubectl get resourcebindings -A -l quota.karmada.io/held=true`, and Karmada keeps labels it does not know (its
detector and its dependencies distributor merge, they never replace).

Reading never fails: a stamp that cannot be read says so in `fault`, and is otherwise the stamp of a binding that has
none. Whoever decides on it must look there; whoever sums up must not stop. Never here: how a stamp comes about (the
webhook), what it means for an account (ledger, limits, elastic).
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

STAMP_ANNOTATION: Final = "quota.karmada.io/stamp"
"""On a binding: the stamp."""
OWNER_ANNOTATION: Final = "quota.karmada.io/owner"
"""On a template: who created it, from where the binding's stamp takes it."""
HELD_LABEL: Final = "quota.karmada.io/held"
"""On a binding: its scheduling is suspended by us. What others suspended does not carry it, and is theirs."""
PREEMPTIBLE_LABEL: Final = "quota.karmada.io/preemptible"
"""On a template and its binding: `"false"` for what is never displaced."""
CAPACITY_LABEL: Final = "quota.karmada.io/capacity"
"""On a binding under a tree: `in-quota` or `over-quota`."""
QUOTA_NAME_LABEL: Final = "quota.karmada.io/quota-name"
"""On a template: the elastic quota it wants to be charged to."""
PENDING_ANNOTATION: Final = "quota.karmada.io/pending"
"""On a binding: that a validator refused what it asks for, and when to ask again (`pending`)."""
TENANT_LABEL: Final = "quota.karmada.io/tenant"
"""On a namespace: its tenant, where that is not the namespace itself; on a tenant's Lease: the tenant."""

TRUE: Final = "true"
FALSE: Final = "false"

_INT32: Final = 2**31
_LONGEST_NAME: Final = 253
_LONGEST_LEAF: Final = 317  # a namespace, and a name in it

# Stamps repeat, a namespace's mostly differ in nothing; ones with very many groups are read each time.
_MOST_REMEMBERED: Final = 4096
_LONGEST_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class Owner:
    """Who asked for a template."""

    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the webhook knew of a binding when it came. All empty where there was no stamp, or none to be read."""

    priority_class: str = ""
    priority: int = 0
    resource: str = ""
    """The plural of the template's kind, as in a URL: `deployments`."""
    owner: Owner | None = None
    leaf: str = ""
    """The elastic leaf it is charged to."""
    fault: str = ""
    """Why what stood there could not be read."""

    def encode(self) -> str:
        """The annotation's text: equal stamps have equal texts."""
        if self.fault:
            raise ValueError(f"a stamp that could not be read is not written again: {self.fault}")
        fields: dict[str, object] = {
            "class": self.priority_class,
            "priority": self.priority,
            "resource": self.resource,
        }
        if self.owner is not None:
            fields["owner"] = {"user": self.owner.user, "groups": list(self.owner.groups)}
        if self.leaf:
            fields["leaf"] = self.leaf
        return json.dumps(fields, separators=(",", ":"))


NO_STAMP: Final = Stamp()

# The stamps of bindings that say themselves that their pods have no priority class, by what they propagate.
_IMPLIED: Final = {
    ("apps/v1", "Deployment"): Stamp(resource="deployments"),
    ("apps/v1", "ReplicaSet"): Stamp(resource="replicasets"),
    ("apps/v1", "StatefulSet"): Stamp(resource="statefulsets"),
    ("batch/v1", "Job"): Stamp(resource="jobs"),
}


def implied(api_version: str, kind: str) -> Stamp:
    """What a binding without a stamp means that says that its pods have no priority class; NO_STAMP: it needs one."""
    return _IMPLIED.get((api_version, kind), NO_STAMP)


def decode(text: str | None) -> Stamp:
    """The stamp in an annotation's text, None where there is no annotation. Fields of later versions are left out."""
    if text is None:
        return NO_STAMP
    return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _read(text)


@lru_cache(maxsize=_MOST_REMEMBERED)
def _remembered(text: str) -> Stamp:
    return _read(text)


def _read(text: str) -> Stamp:
    try:
        # RecursionError: brackets nested deeper than Python's stack. ValueError: all else, numbers too long included.
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError(f"it is a {type(fields).__name__}, not an object")
        owner = fields.get("owner")
        return Stamp(
            priority_class=_text(fields, "class"),
            priority=_priority(fields.get("priority", 0)),
            resource=_text(fields, "resource"),
            owner=None if owner is None else read_owner(owner),
            leaf=_text(fields, "leaf", _LONGEST_LEAF),
        )
    except (ValueError, RecursionError) as error:
        return Stamp(fault=f"the stamp cannot be read: {error}")


def _text(fields: dict[str, object], name: str, longest: int = _LONGEST_NAME) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} is a {type(value).__name__}, not text")
    if len(value) > longest:
        raise ValueError(f"{name} has more than {longest} characters")
    value.encode()  # half a surrogate has a spelling in JSON, and none in what is written to the API server
    return value


def _priority(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT32 <= value < _INT32:
        raise ValueError("priority is not an integer of 32 bits")
    return value


def read_owner(value: object) -> Owner:
    """The owner that a JSON value describes; ValueError where it describes none."""
    if not isinstance(value, dict) or not isinstance(value.get("user"), str):
        raise ValueError("owner is not an object with a user")
    groups = value.get("groups", [])
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise ValueError("owner's groups are not a list of texts")
    for name in (value["user"], *groups):
        name.encode()
    return _shared(value["user"], tuple(groups))


@lru_cache(maxsize=_MOST_REMEMBERED)
def _shared(user: str, groups: tuple[str, ...]) -> Owner:
    """One object for all bindings of an owner: some people are in hundreds of groups."""
    return Owner(user, groups)
