"""What a workload will cost once Karmada has bound it, and what its quotas will do then: the word before the deed.

A binding is made after the workload was accepted, by Karmada, out of sight of whoever applied it. Here the same amounts
are worked out from the workload itself, and the outcome is put into one line for a terminal. What is said is about the
future and says so: without a policy nothing is propagated at all, and with one that duplicates, a workload that has no
clusters yet may cost more than is known here.

Pure: no more than an estimate is made, nothing is reserved, and nobody is bound by it.
"""

from collections.abc import Sequence
from typing import Final

from federation_quota import charge, identity, workload
from federation_quota.binding import Binding
from federation_quota.charge import Terms
from federation_quota.elastic import unit
from federation_quota.elastic.prospect import ADMISSION, MAX, MIN, RUNTIME, Shortage
from federation_quota.identity import IdentityError
from federation_quota.karmadaquota import HOLD, WARN, quota
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.judging import Ask, Exceeded
from federation_quota.ledger.level import split
from federation_quota.limits import usage
from federation_quota.resource_name import canonical
from federation_quota.resources import Resources
from federation_quota.stamp import OWNER_ANNOTATION, QUOTA_NAME_LABEL, Owner, Stamp
from federation_quota.workload import Manifest

LIMITED: Final = "Limited"
"""What a limit of a user or group does, beside what quotas say they do."""

LONGEST: Final = 256
"""What an API server passes on of a warning in any case."""


def binding_name(kind: str, name: str) -> str:
    """The name that Karmada gives the binding of an object."""
    return f"{name.replace(':', '.')}-{kind}".lower()


def demand(manifest: Manifest, plural: str, copies: int = 1) -> Resources:
    """What a workload of that resource asks for, its object included, when so many clusters have all of it."""
    replicas = workload.replicas(manifest) or 0
    request = workload.request(manifest)
    terms = Terms(
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        replicas=replicas * copies,
        request=tuple(request.to_json().items()),
    )
    return charge.cost(terms, Stamp(resource=plural)).demand


def ask(manifest: Manifest, plural: str, existing: Binding | None, leaf: str = "") -> Ask:
    """What the quotas will be asked for this workload, given the binding that it has already, and its elastic quota.

    WorkloadError where the manifest cannot be read.
    """
    new = _claim(demand(manifest, plural, copies(existing)), workload.priority_class(manifest), leaf, _owner(manifest))
    old = NO_CLAIM
    if existing:
        stamp = existing.stamp
        old = _claim(existing.charge, stamp.priority_class, stamp.leaf, stamp.owner)
    name = binding_name(manifest["kind"], manifest["metadata"]["name"])
    return Ask(
        id="forecast",
        binding=name,
        new=new,
        old=old,
        uid=None if existing else "not known yet",
        base=existing.version if existing else None,
    )


def _claim(cost: Resources, priority_class: str, leaf: str, owner: Owner | None) -> Claim:
    """What is under no elastic quota is under no limit of anybody's."""
    return Claim(cost, priority_class, leaf, owner) if leaf and owner else Claim(cost, priority_class)


def _owner(manifest: Manifest) -> Owner | None:
    """Whose it is, as the hook for owners has just written."""
    text = ((manifest.get("metadata") or {}).get("annotations") or {}).get(OWNER_ANNOTATION)
    try:
        return identity.decode(text) if text else None
    except IdentityError:
        return None


def asks_more(manifest: Manifest, before: Manifest | None, plural: str) -> bool:
    """Whether a workload asks for more than it did, or of somebody else, whatever it was given."""
    if before is None or _asks_of(manifest) != _asks_of(before):
        return True
    asked = demand(before, plural)
    return any(amount > asked[name] for name, amount in demand(manifest, plural).items())


def _asks_of(manifest: Manifest) -> tuple[str, str]:
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    return workload.priority_class(manifest), labels.get(QUOTA_NAME_LABEL, "")


def word(account: Account, wanted: Ask, exceeded: Sequence[Exceeded], *, is_running: bool, only_warns: bool) -> str:
    """One line on what a quota that this would exceed is going to do about it.

    `is_running`: it has clusters, and this is a change. `only_warns`: the whole system does, whatever the quota says.
    """
    cost = account.lens.cost(wanted.new)
    is_hopeless = any(cost[canonical(one.name)] > one.limit for one in exceeded)
    is_limit = usage.is_usage(account)
    on_exceeded = LIMITED if is_limit else quota(account).on_exceeded
    outcome = _outcome(on_exceeded, is_running=is_running, is_hopeless=is_hopeless)
    if only_warns:
        outcome = "let through, federation-quota only warns for now"
    told = [
        f"{one.requested} more {_called(one.name) if is_limit else one.name} asked for, {one.used} of {one.limit} used"
        for one in exceeded
    ]
    return _fitted(f"{account.title}: ", told, f": {outcome}")


def _called(name: str) -> str:
    resource, node = split(name)
    return f"{resource} on {node}" if node else resource


def leaf_word(name: str, short: Sequence[Shortage], *, is_running: bool, only_warns: bool) -> str:
    """One line on what an elastic quota that has too little is going to do about it."""
    told = [_LEAF_WORDS[one.limit].format(*_amounts(one), name=one.resource) for one in short]
    if only_warns:
        return _fitted(f"quota {name}: ", told, ": let through, federation-quota only warns for now")
    if any(one.limit == ADMISSION for one in short):
        return _fitted(f"quota {name}: ", told, ": if propagated, it is refused")
    happens = "the change will not reach the members" if is_running else "it is held"
    until = "something of this quota ends"
    if any(one.is_hopeless for one in short):
        until = "the quota is raised"
    elif any(one.limit == RUNTIME for one in short):
        until = "others in its tree need less, or something ends"
    return _fitted(f"quota {name}: ", told, f": if propagated, {happens} until {until}")


_LEAF_WORDS: Final = {
    MAX: "{0} more {name} asked for, {1} of {2} used, its max",
    RUNTIME: "{0} more {name} asked for, {1} of the {2} used that it could have now",
    MIN: "{0} more {name} asked for and not preemptible, {1} of {2} used so, its min",
    ADMISSION: "{0} more {name} asked for, {1} of {2} asked for already, all that it takes in",
}


def unassociated(problem: str) -> str:
    """One line on a quota that a workload names and cannot have."""
    return _fitted("", [problem], ": if propagated, it is refused")


def _amounts(one: Shortage) -> list[str]:
    return [str(unit.quantities({one.resource: steps})[one.resource]) for steps in (one.asked, one.used, one.most)]


def _outcome(on_exceeded: str, *, is_running: bool, is_hopeless: bool) -> str:
    if on_exceeded == WARN:
        return "let through, this quota only warns"
    raised = "the limit is raised" if on_exceeded == LIMITED else "the quota is raised"
    until = raised if is_hopeless else "something is freed"
    if on_exceeded == HOLD:
        return f"if propagated, {'the change waits' if is_running else 'it is held'} until {until}"
    happens = "the change will not reach the members" if is_running else "it will not be scheduled"
    return f"if propagated, {happens} until {until}"


def _fitted(start: str, told: list[str], end: str) -> str:
    """As much as fits, and how much does not: the outcome is always told."""
    for count in range(len(told), 0, -1):
        rest = f"; and {len(told) - count} more" if count < len(told) else ""
        text = start + "; ".join(told[:count]) + rest + end
        if len(text) <= LONGEST:
            return text
    return text[: LONGEST - len(end)] + end


def copies(existing: Binding | None) -> int:
    """How many clusters will have all replicas: as many as have them all now. A policy may change; then this is old."""
    if existing is None or not existing.replicas or not existing.clusters:
        return 1
    is_duplicated = all(share.replicas == existing.replicas for share in existing.clusters)
    return len(existing.clusters) if is_duplicated else 1
