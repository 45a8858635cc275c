"""YuniKorn's vocabulary in ours: queues are quotas, an application is a binding with one replica, an allocation more of
what that asks for, and vcore is cpu.

`World` asks the product: its schemes, its view, its accounts, its judge, as the webhook's accountant does. `Plain`
works the same out anew from the applications each time, without any of that: what is expected where YuniKorn itself is
wrong.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from federation_quota.ledger.claim import NO_CLAIM, Claim
from federation_quota.ledger.judging import Ask, Books, Refused
from federation_quota.ledger.level import APPLICATIONS, split
from federation_quota.ledger.view import Entry, View
from federation_quota.limits import report, usage
from federation_quota.limits.headroom import headroom, of_resources
from federation_quota.limits.hierarchy import ROOT, Level
from federation_quota.limits.limit import WILDCARD, Limit
from federation_quota.limits.scheme import Scheme, Schemes
from federation_quota.limits.subject import USER
from federation_quota.limits.survey import Survey, survey
from federation_quota.quantity import Quantity, parse
from federation_quota.resource_name import PODS
from federation_quota.resources import Resources
from federation_quota.stamp import Owner
from tests.conformance.vectors import Case

TREE = "default"
NAMESPACE = "applications"

Amounts = dict[str, int]


CPU, VCORE = "cpu", "vcore"


def shown(amounts: Mapping[str, Quantity]) -> Amounts:
    """As YuniKorn counts: vcore in thousandths, all else in units. It does not count an application's pods."""
    return {
        VCORE if name == CPU else name: amount.nano // (10**6 if name == CPU else 10**9)
        for name, amount in amounts.items()
        if name != PODS
    }


def parsed(given: Mapping[str, Any]) -> Resources:
    return Resources(quantities(given))


def quantities(given: Mapping[str, Any]) -> dict[str, Quantity]:
    """The same with what is zero, which says something where it is a limit."""
    return {CPU if name == VCORE else name: parse(amount) for name, amount in given.items()}


@dataclass(frozen=True)
class Application:
    """One that runs."""

    queue: str
    owner: Owner
    usage: Resources


def queues(root: Case, path: str = "") -> Iterable[tuple[str, str, Case]]:
    """Every queue of a configuration: its path, the one above it, and what it says. Paths are in lower case, once."""
    own = f"{path}.{root['name']}".removeprefix(".").lower()
    yield own, path, root
    for one in root.get("queues") or ():
        yield from queues(one, own)


def node(path: str) -> str:
    """A queue's name among our nodes: the root has none."""
    return ROOT if path == "root" else path


def limits(queue: Case) -> tuple[Limit, ...]:
    return tuple(
        Limit(
            tuple(one.get("users") or ()),
            tuple(one.get("groups") or ()),
            quantities(one.get("maxresources") or {}),
            one.get("maxapplications") or None,
        )
        for one in queue.get("limits") or ()
    )


@dataclass
class World:
    """What the product says."""

    view: View = field(default_factory=View)
    applications: dict[str, Application] = field(default_factory=dict)
    config: Case = field(default_factory=lambda: {"name": "root"})
    known: set[str] = field(default_factory=set)  # the queues that were ever named
    schemes: Schemes = field(default_factory=Schemes)
    scheme: Scheme = field(default_factory=lambda: Scheme(TREE))

    def configure(self, root: Case) -> None:
        self.config = root
        self._apply()

    def _apply(self) -> None:
        levels = {path: Level(node(path), node(above), limits(said)) for path, above, said in queues(self.config)}
        for path in sorted(self.known - levels.keys()):
            # Made when somebody runs there: a queue without limits of its own.
            levels[path] = Level(node(path), node(path.rpartition(".")[0]))
        self.scheme = Scheme.of(TREE, levels.values())
        self.schemes = Schemes.of({TREE: levels.values()})
        self.view.charge_to(self.schemes.domains if self.schemes.by_tree else None)

    def _visit(self, queue: str) -> str:
        path, missing = queue.lower(), set()
        parts = path.split(".")
        missing = {".".join(parts[:end]) for end in range(1, len(parts) + 1)} - self.known
        if missing:
            self.known |= missing
            self._apply()
        return path

    def accounts(self, claim: Claim) -> list[Books]:
        """The books of everybody who pays for it, in the order in which they are asked."""
        found = []
        for subject in sorted(self.schemes.subjects(claim), key=lambda one: one.domain):
            stored = {**usage.manifest(subject)}
            stored["metadata"] = {**stored["metadata"], "uid": subject.account, "resourceVersion": "1"}
            account = usage.fitted(usage.read(stored), self.schemes)
            found.append(Books(account, self.view))
        return found

    def claim(self, queue: str, owner: Owner, amounts: Resources) -> Claim:
        return Claim(amounts + Resources({PODS: parse(1)}), "", node(queue) or "root", owner)

    def exceeded(self, name: str, wanted: Application) -> set[str]:
        """What of it is too much, if anything, for anybody; nothing changes."""
        known = self.applications.get(name)
        old = self.claim(known.queue, known.owner, known.usage) if known else NO_CLAIM
        new = self.claim(wanted.queue, wanted.owner, wanted.usage)
        ask = Ask("id", f"{NAMESPACE}/{name}", new, old, base=self.view.version)
        found = set()
        for books in self.accounts(new):
            verdict = books.judge(ask)
            if isinstance(verdict, Refused):
                found |= {split(one.name)[0] for one in verdict.exceeded}
        return found

    def store(self, name: str, wanted: Application | None) -> None:
        version = self.view.version + 1
        if wanted is None:
            if name in self.applications:
                del self.applications[name]
                self.view.delete(NAMESPACE, name, name, version)
            return
        self.applications[name] = wanted
        claim = self.claim(wanted.queue, wanted.owner, wanted.usage)
        self.view.upsert(NAMESPACE, name, Entry(name, version, claim))

    def headroom(self, queue: str, owner: Owner) -> Amounts | None:
        path = self._visit(queue)
        claim = self.claim(path, owner, Resources())
        accounts = self.accounts(claim)
        left = of_resources(headroom(accounts, claim.leaf))
        is_limited = any(limit.resources for limit in self._limits_on(path, claim))
        return shown(left) if is_limited else None

    def _limits_on(self, path: str, claim: Claim) -> list[Limit]:
        on_path = set(self.scheme.path(node(path)))
        return [
            limit
            for subject in self.schemes.subjects(claim)
            for where, limit in self.scheme.limits_of(subject).items()
            if where in on_path
        ]

    def group(self, queue: str, groups: list[str]) -> str:
        return self.scheme.group_of(groups, node(self._visit(queue)))

    def wanted(self, step: Case) -> Application:
        """The application of a step with what the step adds to it."""
        path, owner = self._visit(step["queue"]), Owner(step["user"], tuple(step["groups"]))
        known = self.applications.get(step["app"])
        added = parsed(step.get("usage") or {})
        return Application(path, owner, (known.usage if known else Resources()) + added)

    def used(self) -> dict[str, dict[str, Any]]:
        """By users and groups, by name, by queue."""
        found: dict[str, dict[str, Any]] = {"users": {}, "groups": {}}
        for subject, nodes in self._survey().items():
            kind = "users" if subject.kind == USER else "groups"
            found[kind][subject.name] = {
                where or "root": {"usage": shown(use.resources), "apps": list(use.applications)}
                for where, use in nodes.items()
            }
        return found

    def _survey(self) -> Survey:
        claims = {name: self.claim(one.queue, one.owner, one.usage) for name, one in self.applications.items()}
        return survey(self.scheme, claims)

    def trackers(self) -> dict[str, list[str]]:
        """Who has an account: whoever is named, and whoever uses something."""
        used = self.used()
        named = self.scheme.named()
        users = {one.name for one in named if one.kind == USER} | used["users"].keys()
        groups = {one.name for one in named if one.kind != USER} | used["groups"].keys()
        return {"users": sorted(users), "groups": sorted(groups)}

    def rest(self, kind: str) -> list[Case]:
        """What the product tells programs, every user or every group."""
        if kind == "users":
            return [one.document() for one in report.users(self.scheme, self._survey())]
        return [one.document() for one in report.groups(self.scheme, self._survey())]


def body(document: Case) -> Case:
    """What the product tells of somebody, as YuniKorn's REST has it today: what is empty is left out, and a group has
    applications instead of users."""
    queues = _queue(document["queues"])
    if "userName" in document:
        said = {"userName": document["userName"], "groups": document["groups"], "queues": queues}
    else:
        running = document["queues"]["runningApplications"]
        said = {"groupName": document["groupName"], "applications": running, "queues": queues}
    return {name: value for name, value in said.items() if value}


def _queue(told: Case, above: str = "") -> Case:
    """Our nodes are called by their whole paths here, so each queue's name ends in its path."""
    said = {
        "queuePath": told["queuename"].removeprefix(f"{above}."),
        "resourceUsage": {name: amount for name, amount in told["resourceUsage"].items() if name != PODS},
        "runningApplications": told["runningApplications"],
        "maxResources": told["maxResources"],
        "maxApplications": told["maxApplications"],
        "children": [_queue(one, told["queuename"]) for one in told["children"]],
    }
    return {name: value for name, value in said.items() if value}


def _ways(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


class Plain:
    """The same worked out plainly: every figure anew from the applications, with nothing kept."""

    def __init__(self, config: Case, applications: Mapping[str, Application]) -> None:
        self._queues = {path: limits(said) for path, _, said in queues(config)}
        self._applications = applications

    def group(self, owner: Owner, queue: str) -> str:
        for path in reversed(_ways(queue)):
            listed = [group for one in self._queues.get(path, ()) for group in one.groups]
            for group in listed:
                if group in owner.groups:
                    return group
            if WILDCARD in listed:
                return WILDCARD
        return ""

    def limit(self, kind: str, name: str, path: str) -> Limit | None:
        entries = [(names, one) for one in self._queues.get(path, ()) for names in [getattr(one, kind)]]
        named = [one for names, one in entries if name in names]
        wild = [one for names, one in entries if WILDCARD in names and kind == "users"]
        return next(iter(named or wild), None)

    def charged(self, kind: str, name: str, path: str) -> list[str]:
        """The applications that somebody has running in a queue or below it."""
        return sorted(
            app
            for app, one in self._applications.items()
            if path in _ways(one.queue)
            and name == (one.owner.user if kind == "users" else self.group(one.owner, one.queue))
        )

    def left(self, queue: str, owner: Owner) -> dict[str, Quantity]:
        """What is left, applications among it."""
        found: dict[str, Quantity] = {}
        for kind, name in (("users", owner.user), ("groups", self.group(owner, queue))):
            for path in _ways(queue):
                limit = self.limit(kind, name, path) if name else None
                if limit is None:
                    continue
                apps = self.charged(kind, name, path)
                used = Resources.sum(self._applications[app].usage for app in apps)
                rest = {resource: amount - used[resource] for resource, amount in limit.resources.items()}
                if limit.applications:
                    rest[APPLICATIONS] = parse(limit.applications - len(apps))
                for resource, amount in rest.items():
                    found[resource] = min(found.get(resource, amount), amount)
        return found

    def used(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"users": {}, "groups": {}}
        for one in self._applications.values():
            for kind, name in (("users", one.owner.user), ("groups", self.group(one.owner, one.queue))):
                for path in _ways(one.queue) if name else ():
                    apps = self.charged(kind, name, path)
                    total = Resources.sum(self._applications[app].usage for app in apps)
                    found[kind].setdefault(name, {})[path] = {"usage": shown(total), "apps": apps}
        return found

    def rest(self, kind: str) -> list[Case]:
        """As YuniKorn's REST has it: everybody who uses something, or whom a limit names."""
        used = self.used()[kind]
        named = {name for path in self._queues for name in self._named(kind, path)}
        if kind == "users":
            named.discard(WILDCARD)
        return [self._told(kind, name, used.get(name, {})) for name in sorted({*used, *named})]

    def members(self, group: str) -> list[str]:
        """Whose applications count for a group."""
        apps = self.charged("groups", group, "root")
        return sorted({self._applications[app].owner.user for app in apps})

    def _named(self, kind: str, path: str) -> list[str]:
        return [name for one in self._queues[path] for name in getattr(one, kind)]

    def _told(self, kind: str, name: str, seen: Case) -> Case:
        own = {path for path in self._queues if name in self._named(kind, path)}
        paths = sorted({above for path in {"root", *seen, *own} for above in _ways(path)})
        running = seen.get("root", {}).get("apps", [])
        if kind == "users":
            found = {app: self.group(one.owner, one.queue) for app, one in self._applications.items() if app in running}
            said = {"userName": name, "groups": {app: group for app, group in found.items() if group}}
        else:
            said = {"groupName": name, "applications": running}
        said["queues"] = self._subtree(kind, name, "root", paths, seen)
        return {key: value for key, value in said.items() if value}

    def _subtree(self, kind: str, name: str, path: str, paths: list[str], seen: Case) -> Case:
        limit = self.limit(kind, name, path)
        below = [one for one in paths if one.rpartition(".")[0] == path]
        said = {
            "queuePath": path,
            "resourceUsage": seen.get(path, {}).get("usage"),
            "runningApplications": seen.get(path, {}).get("apps"),
            "maxResources": shown(limit.resources) if limit else None,
            "maxApplications": limit.applications if limit else None,
            "children": [self._subtree(kind, name, one, paths, seen) for one in below],
        }
        return {key: value for key, value in said.items() if value}
