"""What becomes of an event that was reported before: said, counted, gathered, or dropped. Pure; as client-go does.

Three steps, each per object: too many events are dropped (a bucket of tokens that refills slowly); many that differ in
their message only become one "(combined from similar events)"; the same again only raises the count of the first.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")

COMBINED = "(combined from similar events): "


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One event as it was reported."""

    about: Reference
    reason: str
    message: str
    type: str = "Normal"  # or Warning


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is too much; client-go's own numbers."""

    burst: int = 25  # events per object at once,
    refill_seconds: float = 300.0  # and one more each time this has passed
    similar: int = 10  # messages of one reason before they are combined,
    similar_seconds: float = 600.0  # counted within this time
    remembered: int = 4096


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class _Similar:
    messages: set[str]
    since: float


@dataclass(slots=True)
class Known:
    """An event that is stored; `name` is set once it is."""

    first: str
    count: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to store: the report with the message it now has, and the event to count it on, new or known."""

    report: Report
    known: Known


class _Recent(OrderedDict[Hashable, V], Generic[V]):
    """A table that forgets what was not asked for the longest."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def touch(self, key: Hashable, fresh: V) -> V:
        found = self.get(key)
        if found is None:
            self[key] = found = fresh
            if len(self) > self._most:
                self.popitem(last=False)
        self.move_to_end(key)
        return found


class Correlator:
    """The memory of one recorder."""

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self._limits = limits
        self._buckets: _Recent[_Bucket] = _Recent(limits.remembered)
        self._similar: _Recent[_Similar] = _Recent(limits.remembered)
        self._known: _Recent[Known] = _Recent(limits.remembered)

    def judge(self, report: Report, now: float, moment: str) -> Verdict | None:
        """What to store of it, None for nothing; `now` is monotonic, `moment` goes into the event."""
        if not self._has_token(report.about, now):
            return None
        message, is_combined = self._gather(report, now)
        said = Report(report.about, report.reason, message, report.type)
        # The combined ones are one event, whatever their latest message.
        key = (report.about, report.reason, report.type, COMBINED if is_combined else message)
        known = self._known.touch(key, Known(moment, 0))
        known.count += 1
        return Verdict(said, known)

    def _has_token(self, about: Reference, now: float) -> bool:
        limits = self._limits
        bucket = self._buckets.touch(about, _Bucket(limits.burst, now))
        bucket.tokens = min(limits.burst, bucket.tokens + (now - bucket.at) / limits.refill_seconds)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _gather(self, report: Report, now: float) -> tuple[str, bool]:
        similar = self._similar.touch((report.about, report.reason, report.type), _Similar(set(), now))
        if now - similar.since > self._limits.similar_seconds:
            similar.messages.clear()
            similar.since = now
        if len(similar.messages) < self._limits.similar:
            similar.messages.add(report.message)
        elif report.message not in similar.messages:
            return COMBINED + report.message, True
        return report.message, False
