"""Trees that share by giving way: everybody's min is the base, and who has borrowed too much makes room.

Nothing limits a quota but its max, and all of them together the sum of the mins: what one leaves idle another uses.
When that is wanted back, bindings beyond their quota's min give way. Whoever asks within its min takes it from any
quota that is beyond its own. Whoever asks for more has a right to a part of what all leave idle, in proportion to its
min; within that it may displace those of a quota that has more than its own part. Within one quota, priority decides.

Follows nos, with what was wrong there put right: a quota over several namespaces is one quota, rights are computed once
for a decision and not while it is carried out, and nobody is taken from a quota any further than down to its part.
Amounts are in steps. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from federation_quota.elastic.unit import Steps

# Where nobody was promised any of these, nobody can have any. Of all else only what is named counts.
_ALWAYS_COUNTED: Final = frozenset({"cpu", "memory"})

MAX: Final = "max"
TOTAL: Final = "sum of min"
CAPACITY: Final = "capacity"


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota: what it was promised, what it may have, and what is used of it."""

    min: Steps = field(default_factory=dict)
    max: Steps | None = None
    """None for no limit, like everything that it does not name."""
    used: Steps = field(default_factory=dict)


Quotas = Mapping[str, Quota]


@dataclass(frozen=True, slots=True)
class Workload:
    """A binding in such a tree."""

    name: str
    quota: str | None
    """None where it belongs to no quota of the tree."""
    request: Steps = field(default_factory=dict)
    priority: int = 0
    is_over_quota: bool = False
    created: str = ""
    may_be_displaced: bool = True

    @property
    def rank(self) -> tuple[int, str, str]:
        """Its place by importance: the smallest is the most important."""
        return -self.priority, self.created.rstrip("Z"), self.name


def idle(quotas: Quotas) -> dict[str, int]:
    """What all of them together leave of their mins: what can be used beyond a min."""
    found: dict[str, int] = {}
    for quota in quotas.values():
        for resource, least in quota.min.items():
            found[resource] = found.get(resource, 0) + max(0, least - quota.used.get(resource, 0))
    return found


def fraction(quotas: Quotas, name: str) -> dict[str, Fraction]:
    """The part of what is idle that a quota has a right to, of every resource that anybody was promised."""
    promised = total_min(quotas)
    own = quotas[name].min
    return {
        resource: Fraction(own.get(resource, 0), whole) if whole else Fraction(0)
        for resource, whole in promised.items()
    }


def guaranteed(quotas: Quotas, name: str) -> dict[str, int]:
    """What a quota has a right to beyond its min, in whole steps."""
    unused = idle(quotas)
    return {resource: part * unused[resource] // 1 for resource, part in fraction(quotas, name).items()}


def total_min(quotas: Quotas) -> dict[str, int]:
    """What all of them were promised."""
    return _sum(quota.min for quota in quotas.values())


def is_over_max(quota: Quota, request: Steps) -> bool:
    """Whether a quota would use more than its max."""
    return quota.max is not None and _exceeds(_add(quota.used, request), quota.max)


def is_over_total(quotas: Quotas, request: Steps) -> bool:
    """Whether all of them together would use more than all were promised."""
    return Use(quotas).is_over_total(request)


def obstacle(quotas: Quotas, asking: Workload) -> str | None:
    """What keeps a workload from being admitted as things are: its quota's max, the sum of the mins, or nothing."""
    return Use(quotas).obstacle(asking)


class Use:
    """What is used in a tree, and what would be if some left and came back."""

    def __init__(self, quotas: Quotas, free: Steps | None = None) -> None:
        self._quotas = quotas
        self._promised = total_min(quotas)
        self._used = {name: dict(quota.used) for name, quota in quotas.items()}
        self._total = _sum(self._used.values())
        self._free = dict(free or {})

    def of(self, quota: str) -> Steps:
        """What one quota uses."""
        return self._used[quota]

    def leave(self, one: Workload) -> None:
        """A workload is gone."""
        self._move(one, -1)

    def come_back(self, one: Workload) -> None:
        """It is there again."""
        self._move(one, 1)

    def is_over_total(self, request: Steps) -> bool:
        """Whether with that more would be used than all were promised."""
        use = _add(self._total, request)
        counted = self._promised.keys() | _ALWAYS_COUNTED
        return any(use.get(resource, 0) > self._promised.get(resource, 0) for resource in counted)

    def obstacle(self, asking: Workload) -> str | None:
        """What keeps a workload from being admitted."""
        if any(asking.request.get(resource, 0) > left for resource, left in self._free.items()):
            return CAPACITY
        if asking.quota is None:
            return None
        if is_over_max(replace(self._quotas[asking.quota], used=self._used[asking.quota]), asking.request):
            return MAX
        return TOTAL if self.is_over_total(asking.request) else None

    def _move(self, one: Workload, sign: int) -> None:
        for resource, amount in one.request.items():
            if resource in self._free:
                self._free[resource] -= sign * amount
            if one.quota is not None:
                own = self._used[one.quota]
                own[resource] = own.get(resource, 0) + sign * amount
                self._total[resource] = self._total.get(resource, 0) + sign * amount


class Rights:
    """Who may displace whom, as things stood at one moment."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._most = {name: _add(quota.min, guaranteed(quotas, name)) for name, quota in quotas.items()}

    def claim(self, asking: Workload, use: Steps) -> int:
        """How well founded it is, where its quota uses that much: within its min 0, within its part 1, beyond it 2."""
        if asking.quota is None:
            return 2
        wanted = _add(use, asking.request)
        limits = (self._quotas[asking.quota].min, self._most[asking.quota])
        return sum(_exceeds(wanted, limit) for limit in limits)

    def may_displace(self, asking: Workload, other: Workload, use: Steps | None = None) -> bool:
        """Whether one may take the other's place. `use` is what the other's quota uses by now, if that has changed."""
        if not other.may_be_displaced:
            return False
        if asking.quota is None or other.quota is None:
            return asking.quota is other.quota and other.priority < asking.priority
        mine, theirs = self._quotas[asking.quota], self._quotas[other.quota]
        wanted = _add(mine.used, asking.request)
        their_use = theirs.used if use is None else use
        if not _exceeds(wanted, mine.min):
            # It claims what it was promised: from whoever is beyond its own promise, whatever the priorities.
            return asking.quota != other.quota and other.is_over_quota and _exceeds(their_use, theirs.min)
        if asking.quota == other.quota:
            return other.priority < asking.priority
        is_within_right = not _exceeds(wanted, self._most[asking.quota])
        return other.is_over_quota and is_within_right and _exceeds(their_use, self._most[other.quota])


def displaceable(quotas: Quotas, asking: Workload, running: Iterable[Workload]) -> list[Workload]:
    """Everybody who would give way, the least important first; of each quota only down to what it has a right to."""
    rights, use = Rights(quotas), Use(quotas)
    found: list[Workload] = []
    for one in sorted(running, key=lambda one: one.rank, reverse=True):
        if rights.may_displace(asking, one, None if one.quota is None else use.of(one.quota)):
            found.append(one)
            use.leave(one)
    return found


def choose(
    quotas: Quotas, asking: Workload, running: Iterable[Workload], free: Steps | None = None
) -> list[Workload] | None:
    """Who is to be displaced for a workload, the least important first; None where that would not make room.

    `free` is what the members have left, by resource, where that is known: what is not named there is not asked about.
    """
    use = Use(quotas, free)
    displaced = displaceable(quotas, asking, running)
    for one in displaced:
        use.leave(one)
    if use.obstacle(asking) is not None:
        return None
    gone: list[Workload] = []
    for one in sorted(displaced, key=lambda one: one.rank):
        use.come_back(one)
        if use.obstacle(asking) is not None:
            use.leave(one)
            gone.append(one)
    return gone[::-1]


def _exceeds(use: Steps, limit: Steps) -> bool:
    return any(use.get(resource, 0) > most for resource, most in limit.items())


def _add(one: Steps, other: Steps) -> dict[str, int]:
    return {resource: one.get(resource, 0) + other.get(resource, 0) for resource in one.keys() | other.keys()}


def _sum(tables: Iterable[Steps]) -> dict[str, int]:
    total: dict[str, int] = {}
    for table in tables:
        for resource, amount in table.items():
            total[resource] = total.get(resource, 0) + amount
    return total
