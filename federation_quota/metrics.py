"""What Prometheus is told: every metric of both deployables, defined here and nowhere else.

Plumbing and deployables import this and count; `accounting` and the domain know nothing of it, and say what they do
through callbacks (`accounting.meter`). `docs/metrics.md` is made from the definitions: each says what it means and,
where it can alarm, what to do then.

Labels are bounded. No metric is labelled with a binding or anything else that people make at will; only what a quota
has and may use stands under the quota's own name, and goes when the quota does; and of users and groups so many are
told of, and no more.

What names people is kept apart from all else: it is for who has said who they are, and may know.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from federation_quota import karmadaquota
from federation_quota.ledger.account import Account
from federation_quota.limits import gauges
from federation_quota.quantity import Quantity, QuantityError, parse

PREFIX: Final = "federation_quota_"
REGISTRY: Final = CollectorRegistry()
"""What whoever reaches the process may know."""
PEOPLE: Final = CollectorRegistry()
"""What names people, and what is about that alone."""

WEBHOOK: Final = "webhook"
CONTROLLERS: Final = "controllers"
BOTH: Final = "both"

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW: Final = (*_FAST, 30.0, 60.0)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric, for people."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str
    served_by: str
    remedy: str = ""  # what to do when it alarms
    is_guarded: bool = False  # told for a token alone

    @property
    def registry(self) -> CollectorRegistry:
        """The one that it is in."""
        return PEOPLE if self.is_guarded else REGISTRY


class Everything(Collector):
    """All that the process has to tell."""

    def collect(self) -> Iterator[Metric]:
        """Both registries', as they are now."""
        yield from REGISTRY.collect()
        yield from PEOPLE.collect()


_COLLECTORS: Final[dict[Definition, Collector]] = {}
# A second series for each, with its birthday, is of no use to anybody.
disable_created_metrics()  # type: ignore[no-untyped-call]


def definitions() -> list[Definition]:
    """Every metric, as defined below."""
    return list(_COLLECTORS)


def keep(process: str) -> None:
    """From now on only what that deployable has to tell: a zero of somebody else's would say something untrue."""
    for definition, collector in list(_COLLECTORS.items()):
        if definition.served_by not in (process, BOTH):
            with contextlib.suppress(KeyError):  # two may come from one collector
                definition.registry.unregister(collector)


def _counter(name: str, text: str, *labels: str, by: str, remedy: str = "") -> Counter:
    made = Counter(PREFIX + name, text, labels, registry=REGISTRY)
    _COLLECTORS[Definition(f"{PREFIX}{name}_total", "counter", labels, text, by, remedy)] = made
    return made


def _gauge(name: str, text: str, *labels: str, by: str, remedy: str = "") -> Gauge:
    made = Gauge(PREFIX + name, text, labels, registry=REGISTRY)
    _COLLECTORS[Definition(PREFIX + name, "gauge", labels, text, by, remedy)] = made
    return made


def _histogram(
    name: str, text: str, *labels: str, by: str, remedy: str = "", buckets: Sequence[float] = _FAST
) -> Histogram:
    made = Histogram(PREFIX + name, text, labels, registry=REGISTRY, buckets=buckets)
    _COLLECTORS[Definition(PREFIX + name, "histogram", labels, text, by, remedy)] = made
    return made


# Admission.

admissions = _counter(
    "admissions",
    "Reviews answered, by hook, result (allowed, refused, later, failed) and reason.",
    "hook",
    "result",
    "reason",
    by=WEBHOOK,
    remedy='`result="failed"`: the log says why under `review.failed`, with the review\'s uid; report it. Many '
    "`later`: clients come again by themselves, but something is slow: see view lag, conflicts and the API server's "
    'own latency. `reason="QuotaExceeded"` is the product at work.',
)
admission_seconds = _histogram(
    "admission_seconds",
    "How long reviews took to answer.",
    "hook",
    by=WEBHOOK,
    remedy="An admission that increases something costs one write of the quota's status: look at the API server's and "
    "etcd's latency first, then at the webhook's CPU. API servers give up after 10 s.",
)
denied = _counter(
    "denied",
    "Refusals for want of quota, each counted once however often the same is tried again.",
    "hook",
    by=WEBHOOK,
    remedy="People are being refused: the log's `review.denied` names quota, binding and amounts.",
)
batch_size = _histogram(
    "batch_size",
    "Admissions that one write of a quota's status carried.",
    by=WEBHOOK,
    buckets=_SIZES,
    remedy="Large batches mean that many requests meet in one namespace; they are answered together, not refused.",
)
advance_admissions = _counter(
    "advance_admissions",
    "Admissions from room that the replica held already, without a write of their own.",
    by=WEBHOOK,
    remedy="",
)
conflicts = _counter(
    "conflicts",
    "Writes of a quota's status that somebody else's write had overtaken; they are judged again.",
    by=BOTH,
    remedy="Some are normal. A rate near that of status writes means many replicas in one namespace: fewer replicas "
    "of the webhook are faster then.",
)
status_writes = _counter("status_writes", "Writes of a quota's status that were stored.", by=BOTH)

# The books.

reservations = _gauge(
    "reservations",
    "Admitted increases whose writes have not been seen in the store yet, over all quotas; the leader's count.",
    by=CONTROLLERS,
    remedy="It follows the load. One quota holds 1024 at most, and answers 429 beyond.",
)
reservation_oldest_seconds = _gauge(
    "reservation_oldest_seconds",
    "How long the oldest reservation has been seen, by the leader's own clock; 0 without any.",
    by=CONTROLLERS,
    remedy="Above 120: reservations that should have ended after 60 s do not. Is the API server reachable for the "
    "controllers (`account.not_written` in the log), does the view move (view lag)?",
)
increases_without_reservation = _counter(
    "increases_without_reservation",
    "Stored increases of bindings that an active quota has never reserved, as each controllers replica finds them.",
    by=CONTROLLERS,
    remedy="Something was stored past the quota: `audit.unreserved` in the log names it. Were the webhook "
    "configurations removed or changed, is a webhook of another version running, was an API server paused for more "
    "than a minute? What is used is counted all the same.",
)
view_lag_seconds = _gauge(
    "view_lag_seconds",
    "For how long this replica has yet to see bindings that others have seen; 0 where it is up to date.",
    by=BOTH,
    remedy="Above 5: the replica's watch of bindings stalls, and increases are answered 429 by it. See watch errors, "
    "the network between it and the API server, and its CPU.",
)
held = _gauge("held", "Bindings that are held until their quota has room; the leader's count.", by=CONTROLLERS)
waiting = _gauge(
    "waiting",
    "Bindings that were refused and wait for room on their quotas' lists; the leader's count.",
    by=CONTROLLERS,
)
unowned = _gauge(
    "unowned",
    "Workloads under elastic quotas that have no owner, so that limits for users pass them by; the leader's count.",
    by=CONTROLLERS,
    remedy="They are older than the webhook that writes owners, of a kind that `--workloads` does not name, or of "
    "somebody in `--ownerless-users` or `--ownerless-groups`: `docs/identity.md` says how they are adopted.",
)
displaced = _counter(
    "displaced", "Bindings that were taken from their clusters to make room in an elastic tree.", by=CONTROLLERS
)
woken = _counter(
    "woken",
    "Attempts to bring back what was refused or held, by way (template, schedule, release) and outcome.",
    "way",
    "outcome",
    by=CONTROLLERS,
    remedy="Many `failed`: `alarm.failed` and `binding.not_patched` in the log say why.",
)
member_stale = _gauge(
    "member_stale",
    "Whether a member cluster's figures are old (1) or current (0).",
    "cluster",
    by=CONTROLLERS,
    remedy="The member cannot be reached: its last figures stay in force. Check its API server, and the Secret that "
    "its Cluster object names.",
)

# Tenants and validators.

tenants = _gauge("tenants", "Tenants whose requests this replica judges, or lately has.", by=WEBHOOK)
tenant_wait_seconds = _histogram(
    "tenant_wait_seconds",
    "How long a request waited until it was its tenant's turn, or until it gave up, with validators on.",
    by=WEBHOOK,
    buckets=_SLOW,
    remedy="Requests of one tenant are judged one at a time. Long waits with short holds: one tenant asks for much at "
    "once, or its requests come through several replicas in turn. With long holds: a validator is slow.",
)
tenant_hold_seconds = _histogram(
    "tenant_hold_seconds",
    "How long a request kept its tenant's turn: validators, then quotas.",
    by=WEBHOOK,
    buckets=_SLOW,
    remedy="Look at `validator_seconds`, then at what quotas need (`admission_seconds` without validators).",
)
tenant_handovers = _counter(
    "tenant_handovers",
    "Titles of tenants that this replica passed on to another, or gave up.",
    by=WEBHOOK,
    remedy="A few a second for a busy tenant are normal with several replicas.",
)
validator_seconds = _histogram(
    "validator_seconds", "How long a validator took to answer.", "validator", by=WEBHOOK, buckets=_SLOW
)
validator_answers = _counter(
    "validator_answers",
    "What validators answered (allowed, refused), or that they did not (cut-off, failed).",
    "validator",
    "result",
    by=WEBHOOK,
    remedy="`cut-off` and `failed`: clients are told to come again, and nothing of the tenant is admitted meanwhile: "
    "`validator.cut_off` and `validator.failed` in the log say which, and why.",
)
validator_hanging = _gauge(
    "validator_hanging",
    "Calls of validators that were cut off and have not come back.",
    "validator",
    by=WEBHOOK,
    remedy="The validator hangs. Each call keeps one tenant from being judged until it comes back, and no other. Mend "
    "the validator; restarting the replica ends the calls.",
)

# The process and its ties.

leader = _gauge(
    "leader",
    "Whether this replica leads (1) or stands by (0).",
    by=CONTROLLERS,
    remedy="A sum of 0 for more than 10 s: nobody leads, statuses are not kept and nothing is woken; admission goes "
    "on. `elector.unreachable` in the log says why. A sum of 2 for longer than a scrape apart is a bug.",
)
certificate_expiry_timestamp_seconds = _gauge(
    "certificate_expiry_timestamp_seconds",
    "When the certificate expires that a listener serves (admission, metrics), in Unix time.",
    "listener",
    by=BOTH,
    remedy="Certificates of the system's own are renewed after two thirds of their life. Less than a day left: does "
    "a controllers replica lead (`authority.failed` in its log)? Given ones: renew the files, they are read anew.",
)
workqueue_depth = _gauge(
    "workqueue_depth",
    "Keys whose time has come and that nobody works on yet; 0 where this replica stands by.",
    "queue",
    by=BOTH,
    remedy="Growing without end: the work fails (`workqueue.failed` in the log) or the API server is slow.",
)
workqueue_latency_seconds = _histogram(
    "workqueue_latency_seconds", "From when a key was due to when it was taken.", "queue", by=BOTH, buckets=_SLOW
)
workqueue_work_seconds = _histogram(
    "workqueue_work_seconds", "How long the work on one key took.", "queue", by=BOTH, buckets=_SLOW
)
workqueue_retries = _counter(
    "workqueue_retries",
    "Work that failed and is tried again.",
    "queue",
    by=BOTH,
    remedy="`workqueue.failed` in the log says why.",
)
relists = _counter(
    "relists",
    "Whole lists that a mirror of the API server read, the first included.",
    "resource",
    by=BOTH,
    remedy="More than a few an hour: watches fall so far behind that the server has forgotten where they were.",
)
watch_errors = _counter(
    "watch_errors",
    "Watches and lists of a mirror that broke; those that the server ended in good order are not counted.",
    "resource",
    by=BOTH,
    remedy="`reflector.reconnecting` in the log says why. A few come with every restart of an API server.",
)
undecodable = _counter(
    "undecodable",
    "Stored objects that could not be read.",
    "resource",
    by=BOTH,
    remedy="`reflector.undecodable` in the log names the object. A quota that cannot be read is not in force.",
)
api_requests = _counter(
    "api_requests",
    "Requests to API servers, by HTTP method (WATCH for watches) and status code (`none`: no answer came).",
    "verb",
    "code",
    by=BOTH,
    remedy="401 and 403: the identity lost its rights, see the roles in the chart. 429 and 5xx: the API server is "
    "overloaded. `none`: it cannot be reached.",
)
authorizations = _counter(
    "authorizations",
    "Requests to a listener that needs a token, by result (allowed, unauthenticated, forbidden, unavailable).",
    "result",
    by=BOTH,
    remedy="`unavailable`: TokenReviews cannot be made: may this process create them on the host cluster?",
)


MOST_USAGE_SERIES: Final = 10_000


class UsageAmounts(Collector):
    """What users and groups use of what they may."""

    def __init__(self) -> None:
        self._accounts: Sequence[Account] = ()

    def show(self, accounts: Sequence[Account]) -> None:
        """These are the accounts, and no others. The sequence must not change afterwards: it is read by a thread."""
        self._accounts = accounts

    def describe(self) -> list[GaugeMetricFamily]:
        """The families, without amounts."""
        return [_family(one) for one in (_USAGE_USED, _USAGE_LIMIT, _USAGE_UNTOLD)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The amounts as the accounts' statuses have them."""
        used, limit, untold = _family(_USAGE_USED), _family(_USAGE_LIMIT), _family(_USAGE_UNTOLD)
        told, left_out = gauges.gauges(self._accounts, MOST_USAGE_SERIES)
        for one in told:
            labels = [one.subject.tree, one.subject.kind, one.subject.name, one.node, one.resource]
            used.add_metric(labels, _number(one.used))
            limit.add_metric(labels, _number(one.limit))
        untold.add_metric([], left_out)
        yield used
        yield limit
        yield untold


class QuotaAmounts(Collector):
    """What every quota has used and may use: written out when asked, so that one that is gone is gone here."""

    def __init__(self) -> None:
        self._accounts: Sequence[Account] = ()

    def show(self, accounts: Sequence[Account]) -> None:
        """These are the quotas, and no others. The sequence must not change afterwards: it is read by a thread."""
        self._accounts = accounts

    def describe(self) -> list[GaugeMetricFamily]:
        """The families, without amounts."""
        return [_family(one) for one in (_USED, _HARD)]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The amounts as the quotas' statuses and specs have them."""
        used, hard = _family(_USED), _family(_HARD)
        for account in self._accounts:
            place = (account.namespace, account.name)
            stored = karmadaquota.quota(account).status.get("used") or {}
            for resource, limit in account.limits.items():
                hard.add_metric([*place, resource], _number(limit))
                with contextlib.suppress(KeyError, QuantityError):  # not written yet
                    used.add_metric([*place, resource], _number(parse(stored[resource])))
        yield used
        yield hard


def _family(definition: Definition) -> GaugeMetricFamily:
    return GaugeMetricFamily(definition.name, definition.help, labels=definition.labels)


def _number(amount: Quantity) -> float:
    return amount.nano / 10**9


_USED: Final = Definition(
    f"{PREFIX}used",
    "gauge",
    ("namespace", "quota", "resource"),
    "What a quota's status says is used, in the resource's base unit; by the leader.",
    CONTROLLERS,
    "Near `hard`: people will be refused. Raise the quota, or free something.",
)
_HARD: Final = Definition(
    f"{PREFIX}hard",
    "gauge",
    ("namespace", "quota", "resource"),
    "What a quota allows, in the resource's base unit; by the leader.",
    CONTROLLERS,
    "`used` above it: the limit was lowered, or the quota is younger than what it counts. Nothing is stopped; nothing "
    "more is admitted.",
)
_WHO: Final = ("tree", "kind", "name", "node", "resource")
_USAGE_USED: Final = Definition(
    f"{PREFIX}usage_used",
    "gauge",
    _WHO,
    "What a user or group uses of what is limited for them on a quota (`node`, empty for the whole tree), in the "
    "resource's base unit, applications among them; by the leader, for a token alone.",
    CONTROLLERS,
    "Near `usage_limit`: they will be refused. `kubectl fedquota usage users` shows what they use, and where. Not "
    "there at all: the controllers are started without `--metrics-authorization=token`.",
    is_guarded=True,
)
_USAGE_LIMIT: Final = Definition(
    f"{PREFIX}usage_limit",
    "gauge",
    _WHO,
    "What a user or group may use there at most; by the leader, for a token alone.",
    CONTROLLERS,
    is_guarded=True,
)
_USAGE_UNTOLD: Final = Definition(
    f"{PREFIX}usage_untold",
    "gauge",
    (),
    f"Users and groups that are left out of these two, of which {MOST_USAGE_SERIES} series at most are told: those "
    "furthest from their limits. For a token alone.",
    CONTROLLERS,
    is_guarded=True,
)
quota_amounts: Final = QuotaAmounts()
usage_amounts: Final = UsageAmounts()
_COLLECTORS.update({_USED: quota_amounts, _HARD: quota_amounts})
_COLLECTORS.update({_USAGE_USED: usage_amounts, _USAGE_LIMIT: usage_amounts, _USAGE_UNTOLD: usage_amounts})
REGISTRY.register(quota_amounts)
PEOPLE.register(usage_amounts)
for _standard in (ProcessCollector, PlatformCollector, GCCollector):
    _standard(registry=REGISTRY)
