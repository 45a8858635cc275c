"""A tree of five levels, the people who work in it, and what each of them may have on every level.

Everybody works on two leaves, mostly of different branches, and is in a group, some in two; every twentieth is in none.
They are owners as anybody is: each has created a Deployment on each of their leaves, and the webhook has written their
name on it. What is admitted later are bindings of these.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from multidict import CIMultiDict

from bench.admission import load
from bench.admission.load import BINDINGS, Clients, Request
from localfed.federation import Federation
from localfed.kubectl import documents

LEVELS: Final = 5
"""The tree itself is the first."""
LEAVES: Final = 2 ** (LEVELS - 1)
TURN_LABEL: Final = "bench.quota.karmada.io/turn"
STAFF: Final = "bench-staff"
_TEMPLATES: Final = "/apis/apps/v1/namespaces/{namespace}/deployments"
_PLENTY: Final = 100_000
_JSON: Final = {"Content-Type": "application/json"}

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """What may be had: by one user on a node, by one who is named on the tree, by a group, by all others."""

    user: int
    named: int
    group: int
    group_in_branch: int
    others: int


ROOMY: Final = Terms(*5 * (1_000_000,))
TIGHT: Final = Terms(user=2, named=3, group=8, group_in_branch=5, others=60)
"""Everybody has one binding all the time, and so most may have one more; groups, of about five, not all of theirs."""


@dataclass(frozen=True, slots=True)
class Person:
    """One of them."""

    number: int
    groups: int  # how many groups there are

    @property
    def name(self) -> str:
        """As the API server knows them, and as their Deployments are called."""
        return f"u{self.number:04}"

    @property
    def member_of(self) -> list[str]:
        """The first of them is the one that they count for."""
        if self.number % 20 == 0:
            return []
        first = self.number % self.groups
        return [group_name(one) for one in (first, first + 1)[: 1 + (self.number % 4 == 0)] if one < self.groups]

    @property
    def leaves(self) -> tuple[int, int]:
        """Where they work; the first is home."""
        home, other = self.number % LEAVES, (self.number * 5 + 3) % LEAVES
        return home, other if other != home else (home + LEAVES // 2) % LEAVES


def group_name(number: int) -> str:
    """As the API server knows it."""
    return f"g{number:03}"


@dataclass(frozen=True, slots=True)
class Estate:
    """One tree with its people; without terms nobody is limited in it."""

    federation: Federation
    tree: str
    people: tuple[Person, ...]
    groups: int
    terms: Terms | None

    @property
    def namespaces(self) -> list[str]:
        """One for each leaf."""
        return [f"{self.tree}-{number}" for number in range(LEAVES)]

    def nodes(self) -> list[Object]:
        """The tree and all quotas in it, those above first."""
        total = LEAVES * _PLENTY
        found = [_object("QuotaTree", self.tree, {"total": {"cpu": total}, "limits": self._limits(0)})]
        for level in range(1, LEVELS):
            for number in range(2**level):
                spec: Object = {"tree": self.tree, "min": {"cpu": total // 2**level}, "allowLentResource": False}
                spec["limits"] = self._limits(level)
                if level > 1:
                    spec["parent"] = self._node(level - 1, number // 2)
                if level == LEVELS - 1:
                    spec["namespaces"] = [self.namespaces[number]]
                found.append(_object("CompositeElasticQuota", self._node(level, number), spec))
        return found

    def prepare(self, labels: dict[str, str]) -> None:
        """Namespaces with these labels, a right for everybody to work there, and the tree."""
        kind = {"apiVersion": "v1", "kind": "Namespace"}
        spaces = [{**kind, "metadata": {"name": name, "labels": labels}} for name in self.namespaces]
        subject = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": STAFF}
        role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "edit"}
        right = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
        given = {**right, "metadata": {"name": STAFF}, "roleRef": role, "subjects": [subject]}
        self.federation.kubectl("apply", "-f", "-", manifest=documents(*spaces, given, *self.nodes()))

    def is_ready(self) -> bool:
        """Whether every leaf may use what it was promised."""
        stored = self.federation.api.list("compositeelasticquotas")
        ready = {
            one["metadata"]["name"]
            for one in stored
            # The first that is published of a new one is nothing; what it was promised follows.
            if (one.get("status") or {}).get("shape") and (one["status"].get("runtime") or {}).get("cpu", "0") != "0"
        }
        return {self._node(LEVELS - 1, number) for number in range(LEAVES)} <= ready

    def templates(self) -> Iterator[Request]:
        """Everybody's Deployments, as they create them."""
        for one in self.people:
            groups = [("Impersonate-Group", group) for group in (STAFF, *one.member_of)]
            headers = CIMultiDict([*_JSON.items(), ("Impersonate-User", one.name), *groups])
            for leaf in one.leaves:
                path = _TEMPLATES.format(namespace=self.namespaces[leaf])
                yield Request("POST", path, msgspec.json.encode(_deployment(one.name)), headers)

    def creation(self, person: Person, leaf: int, name: str, turn: str) -> Request:
        """One more binding of somebody's Deployment."""
        namespace = self.namespaces[leaf]
        made = load.binding(name, namespace)
        made["metadata"]["labels"] = {TURN_LABEL: turn}
        made["spec"]["resource"]["name"] = person.name
        return Request("POST", BINDINGS.format(namespace=namespace), msgspec.json.encode(made), _JSON)

    def deletion(self, leaf: int, name: str) -> Request:
        """Of one binding."""
        return Request("DELETE", f"{BINDINGS.format(namespace=self.namespaces[leaf])}/{name}", b"", {})

    def clearings(self, turn: str) -> Iterator[Request]:
        """Of all that was made in a turn."""
        for namespace in self.namespaces:
            path = f"{BINDINGS.format(namespace=namespace)}?labelSelector={TURN_LABEL}%3D{turn}"
            yield Request("DELETE", path, b"", {})

    def _node(self, level: int, number: int) -> str:
        return f"{self.tree}-l{level}-{number}"

    def _limits(self, level: int) -> list[Object]:
        terms = self.terms
        if terms is None:
            return []
        groups = [group_name(number) for number in range(self.groups)]
        everybody = {"limit": "everybody", "users": ["*"], **_most(terms.user), "maxApplications": terms.user}
        if level == 0:
            some = [one.name for one in self.people[::10]]
            return [
                {"limit": "some", "users": some, **_most(terms.named), "maxApplications": terms.named},
                everybody,
                {"limit": "groups", "groups": groups, **_most(terms.group)},
                {"limit": "others", "groups": ["*"], **_most(terms.others)},
            ]
        if level == 1:
            return [everybody, {"limit": "groups", "groups": groups, **_most(terms.group_in_branch)}]
        return [everybody]


def estate(federation: Federation, tree: str, users: int, groups: int, terms: Terms | None) -> Estate:
    """A tree with so many people."""
    return Estate(federation, tree, tuple(Person(number, groups) for number in range(users)), groups, terms)


async def ask_all(clients: Clients, requests: Iterable[Request], at_once: int, *, tries: int = 60) -> None:
    """All of these, some at once, asked again where that is asked for; an error where one is refused."""
    plan = iter(requests)

    async def follow() -> None:
        for request in plan:
            for _ in range(tries):
                status, body = await clients.ask(request)
                if status != 429:
                    break
                await asyncio.sleep(0.5)
            if status not in (200, 201):
                raise RuntimeError(f"{request.method} {request.path}: {status} {body[:300].decode(errors='replace')}")

    await asyncio.gather(*(follow() for _ in range(at_once)))


def _most(replicas: int) -> Object:
    """So many replicas, each of which asks for 100m."""
    return {"maxResources": {"cpu": f"{100 * replicas}m"}}


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "quota.karmada.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _deployment(name: str) -> Object:
    container = {"name": "main", "image": "registry.example/none:1", "resources": {"requests": {"cpu": "100m"}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
