"""What a quota's status says of the member clusters: what is bound to each, what was seen there, what exceeds it.

From sightings (what the controller knows of each member now) and from what the status said before, which is all that is
known of a member that has been out of reach since this process started. What was seen stays until it is seen
otherwise; what was never seen is not there, and never zero.

Pure. Only what pods use is compared: objects are the federation's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from federation_quota.bounds import LONGEST_MESSAGE, MOST_CLUSTERS
from federation_quota.condition import Finding
from federation_quota.grace import Grace
from federation_quota.ledger.account import Account
from federation_quota.quantity import Quantity, QuantityError
from federation_quota.resource_name import COUNT, canonical
from federation_quota.resources import NOTHING, Resources

MEMBERS_READY: Final = "MembersReady"
UNBOUND_USAGE: Final = "UnboundUsage"
_MOST_TOLD: Final = 8


@dataclass(frozen=True, slots=True)
class Sighting:
    """What is known of one member cluster now, through one quota's lens."""

    name: str
    bound: Resources
    observed: Resources | None = None
    """None: nothing has been seen since this process started."""
    last_seen: str = ""
    problem: str = ""
    """Why it cannot be seen now; empty where it can, or where the first look has yet to end."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One entry of `status.clusters`; amounts by canonical names."""

    name: str
    bound: Resources = NOTHING
    observed: Resources | None = None
    unbound: Resources = NOTHING
    last_seen: str = ""
    is_stale: bool = False
    message: str = ""

    @property
    def excess(self) -> Resources:
        """What is observed beyond what is bound."""
        return beyond(self.observed, self.bound) if self.observed is not None else NOTHING


@dataclass(slots=True)
class Watch:
    """How one quota's excess in each cluster has lasted, as long as it looks at the same."""

    shape: str
    graces: dict[str, Grace] = field(default_factory=dict)


def beyond(observed: Resources, bound: Resources) -> Resources:
    """What is more than is bound, resource by resource."""
    return Resources((name, amount - bound[name]) for name, amount in observed.items() if amount > bound[name])


def names_of_pods(account: Account) -> list[str]:
    """The limits that pods can use something of."""
    return sorted(name for name in account.limits if not canonical(name).startswith(COUNT))


def read(status: Mapping[str, Any]) -> dict[str, Figures]:
    """The figures that a status has, by cluster; one that cannot be read is left out."""
    found = {}
    for one in status.get("clusters") or ():
        try:
            found[one["name"]] = Figures(
                name=one["name"],
                bound=_amounts(one.get("bound")) or NOTHING,
                observed=_amounts(one.get("observed")),
                unbound=_amounts(one.get("unbound")) or NOTHING,
                last_seen=one.get("lastSeen") or "",
                is_stale=bool(one.get("stale")),
                message=one.get("message") or "",
            )
        except (QuantityError, KeyError, TypeError):
            continue
    return found


def compile_figures(
    account: Account,
    before: Mapping[str, Figures],
    sightings: Iterable[Sighting],
    watch: Watch,
    *,
    now: float,
    grace_seconds: float,
    is_old: Callable[[str], bool],
) -> list[Figures]:
    """The figures of every cluster that has any, by name.

    `is_old` tells of a time in the status whether it is to be brought up to date although nothing else has changed.
    """
    found, members = [], set()
    for sighting in sightings:
        members.add(sighting.name)
        known = before.get(sighting.name)
        figures = _figures(sighting, known)
        grace = watch.graces.setdefault(sighting.name, Grace(known.unbound if known else NOTHING))
        excess = figures.excess
        if figures.is_stale or sighting.observed is None:
            # What leaves its bindings meanwhile may have left the cluster as well: nobody can tell.
            excess = Resources((name, min(amount, grace.current[name])) for name, amount in excess.items())
        grace.note(excess, now)
        figures = replace(figures, unbound=grace.lasting(now, grace_seconds))
        grace.forget(now, grace_seconds)
        if figures.is_stale or figures.bound or figures.observed:
            found.append(_settled(figures, known, is_old))
    for name in watch.graces.keys() - members:
        del watch.graces[name]
    if len(found) > MOST_CLUSTERS:
        # What is used goes before what is merely not known.
        found.sort(key=lambda one: (not (one.bound or one.observed), one.name))
    return sorted(found[:MOST_CLUSTERS], key=lambda one: one.name)


def next_change(watch: Watch, now: float, grace_seconds: float) -> float | None:
    """In how many seconds more will have lasted, if nothing happens meanwhile."""
    turns = [grace.next_change(now, grace_seconds) for grace in watch.graces.values()]
    return min((turn for turn in turns if turn is not None), default=None)


def total_unbound(figures: Iterable[Figures]) -> Resources:
    """What has lasted beyond what is bound, in all clusters together."""
    total = NOTHING
    for one in figures:
        total += one.unbound
    return total


def write(account: Account, figures: Iterable[Figures]) -> list[dict[str, Any]]:
    """`status.clusters`: amounts under the names of the limits, each in its limit's format."""
    written = []
    for one in figures:
        entry: dict[str, Any] = {"name": one.name, "bound": shown(account, one.bound), "stale": one.is_stale}
        if one.observed is not None:
            entry["observed"] = shown(account, one.observed)
        if one.unbound:
            entry["unbound"] = shown(account, one.unbound, leave_out_zeros=True)
        if one.last_seen:
            entry["lastSeen"] = one.last_seen
        if one.message:
            entry["message"] = one.message
        written.append(entry)
    return written


def shown(account: Account, amounts: Resources, *, leave_out_zeros: bool = False) -> dict[str, str]:
    """Amounts as the status has them."""
    return {
        name: Quantity(amounts[canonical(name)].nano, account.limits[name].format).to_json()
        for name in names_of_pods(account)
        if not leave_out_zeros or canonical(name) in amounts
    }


def members_ready(figures: Sequence[Figures]) -> Finding:
    """Whether every member is seen; if not, which are not, and why."""
    unseen = [one for one in figures if one.is_stale]
    if not unseen:
        return Finding(MEMBERS_READY, True, "AllObserved", "the pods of every member cluster are observed")
    told = [
        f"{one.name} is {'out of reach since ' + one.last_seen if one.observed is not None else 'not observed'}"
        f" ({one.message})"
        for one in unseen
    ]
    reason = "MembersStale" if any(one.observed is not None for one in unseen) else "MembersNotObserved"
    return Finding(MEMBERS_READY, False, reason, _listed(told))


def unbound_usage(
    account: Account, figures: Sequence[Figures], *, is_charged: bool, undercounts: Sequence[str] = ()
) -> Finding:
    """Whether members use more than what is bound to them, where and how much."""
    over = [one for one in figures if one.unbound]
    if not over:
        return Finding(UNBOUND_USAGE, False, "NothingUnbound", "pods use no more than bindings account for")
    told = []
    for one in over:
        amounts = ", ".join(
            f"{name}: {observed} observed, {bound} bound"
            for name, observed, bound in _sides(account, one)
            if canonical(name) in one.unbound
        )
        told.append(f"{one.name} ({amounts})")
    effect = "counted as used" if is_charged else "not counted: spec.memberUsage.policy is Report"
    message = f"more runs than bindings account for, {effect}: {_listed(told)}"
    return Finding(UNBOUND_USAGE, True, "ObservedBeyondBound", "; ".join((message, *undercounts[:_MOST_TOLD])))


def _figures(sighting: Sighting, known: Figures | None) -> Figures:
    is_pending = sighting.observed is None and not sighting.problem
    if sighting.observed is not None:
        observed: Resources | None = sighting.observed
        last_seen = sighting.last_seen
    else:
        # Seen by nobody since this process started: what was known before it stands.
        observed = known.observed if known else None
        last_seen = known.last_seen if known else ""
    message = sighting.problem[:LONGEST_MESSAGE]
    is_stale = bool(sighting.problem)
    if is_pending and known is not None:
        is_stale, message = known.is_stale, known.message
    return Figures(sighting.name, sighting.bound, observed, NOTHING, last_seen, is_stale, message)


def _settled(figures: Figures, known: Figures | None, is_old: Callable[[str], bool]) -> Figures:
    """With the time that the status has, as long as that is all that would change."""
    if known is None or not known.last_seen or figures.is_stale or is_old(known.last_seen):
        return figures
    is_same = replace(known, last_seen=figures.last_seen) == figures
    return known if is_same else figures


def _sides(account: Account, figures: Figures) -> list[tuple[str, str, str]]:
    observed, bound = shown(account, figures.observed or NOTHING), shown(account, figures.bound)
    return [(name, observed[name], bound[name]) for name in names_of_pods(account)]


def _listed(told: Sequence[str]) -> str:
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    return ", ".join(told[:_MOST_TOLD]) + more


def _amounts(texts: Mapping[str, str | int] | None) -> Resources | None:
    if texts is None:
        return None
    return Resources.parse({canonical(name): text for name, text in texts.items()})
