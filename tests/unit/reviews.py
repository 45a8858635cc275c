"""Reviews as an API server sends them, and an API server that answers reads from a table."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from federation_quota.accounting.accountant import Accountant
from federation_quota.accounting.answer import Allowed, Answer
from federation_quota.karmadaquota import DENY, Quota
from federation_quota.kube import codec, error
from federation_quota.kube.client import Client
from federation_quota.kube.resource import Resource
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.judging import Ask

TEAM = "team-a"


def review(
    new: dict[str, Any],
    old: dict[str, Any] | None = None,
    *,
    resource: str = "works",
    group: str = "work.karmada.io",
    sub_resource: str = "",
    name: str = "web",
) -> codec.AdmissionRequest:
    """A creation, or the change of what is old."""
    return codec.AdmissionRequest(
        uid="u",
        operation="UPDATE" if old else "CREATE",
        kind=codec.GroupVersionKind(),
        resource=codec.GroupVersionResource(group, "v1", resource),
        sub_resource=sub_resource,
        namespace=TEAM,
        name=name,
        object=msgspec.Raw(json.dumps(new).encode()),
        old_object=msgspec.Raw(json.dumps(old).encode()) if old else msgspec.Raw(b"null"),
    )


def soon() -> float:
    """A deadline that is near."""
    return asyncio.get_running_loop().time() + 2


def behaving(account: Account, on_exceeded: str = DENY) -> Account:
    """The account of a quota of the team's that does that when it is exceeded."""
    return replace(account, namespace=TEAM, beside=Quota(on_exceeded, 1, {}))


@dataclass
class Api:
    """Objects by name; a problem in their place is raised."""

    objects: dict[str, dict[str, Any] | Exception] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    async def get(self, resource: Resource, name: str, namespace: str, *, timeout_seconds: float) -> bytes:
        self.reads.append(f"{resource.plural}/{namespace}/{name}")
        await asyncio.sleep(0)
        found = self.objects.get(name, error.NotFoundError(404, "NotFound"))
        if isinstance(found, Exception):
            raise found
        return json.dumps(found).encode()

    @property
    def client(self) -> Client:
        return cast(Client, self)


@dataclass
class Books:
    """Accounts as this replica knows them, and as they are stored; and what it answers to an ask."""

    known: list[Account]
    stored: dict[str, Account | Exception] = field(default_factory=dict)
    answers: Answer | Exception = Allowed()  # noqa: RUF009 - frozen
    asks: list[Ask] = field(default_factory=list)
    is_stuck: bool = False
    owners: list[Account] = field(default_factory=list)  # of whom everything is
    limits_are_new: bool = False  # than this replica knows them
    may_exceed: Callable[[str, str], bool] = lambda _place, _name: False  # as it was last asked

    def accounts(self, namespace: str) -> list[Account]:
        return [account for account in self.known if account.namespace == namespace]

    def charged(self, _claim: Claim) -> list[Account]:
        return self.owners

    async def limits_stand(self, _account: Account, _names: Collection[str]) -> bool:
        await asyncio.sleep(0)
        return not self.limits_are_new

    async def read(self, _namespace: str, name: str) -> Account | None:
        await asyncio.sleep(0)
        found = self.stored.get(name)
        if isinstance(found, Exception):
            raise found
        return found

    async def answer(
        self, asks: Mapping[str, Ask], *, dry_run: bool, may_exceed: Callable[[str, str], bool], **_options: object
    ) -> Answer:
        assert dry_run
        self.may_exceed = may_exceed
        self.asks += asks.values()
        if isinstance(self.answers, Exception):
            raise self.answers
        await (asyncio.Event().wait() if self.is_stuck else asyncio.sleep(0))
        return self.answers

    @property
    def accountant(self) -> Accountant:
        return cast(Accountant, self)
