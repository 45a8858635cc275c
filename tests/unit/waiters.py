"""Quotas, bindings and those who wait, as the tests of waiting, waking and holding write them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from federation_quota import karmadaquota, waiting
from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import ConflictError, Store
from federation_quota.binding import Binding, ClusterShare, ObjectKey, TemplateRef
from federation_quota.kube.mirrors import BindingMirror
from federation_quota.ledger.account import Account
from federation_quota.ledger.claim import Claim
from federation_quota.ledger.legacy import Legacy
from federation_quota.ledger.settling import LiveLook
from federation_quota.limits.subject import Subject
from federation_quota.resources import Resources
from federation_quota.stamp import Stamp
from federation_quota.waiting import Waiter

NAMESPACE = "test"


def quota(
    cpu: str | int = 10,
    name: str = "q",
    *,
    on_exceeded: str = "Deny",
    waiters: Iterable[Waiter] = (),
    version: int = 1,
    is_active: bool = True,
    **hard: str,
) -> Account:
    """A quota in force."""
    stored = {
        "metadata": {"namespace": NAMESPACE, "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"hard": {"cpu": cpu, **hard}, "onExceeded": on_exceeded},
        "status": {"waiting": waiting.write(waiters)},
    }
    account = karmadaquota.read(stored)
    return replace(account, active_shape=account.lens.shape if is_active else "")


def waiter(name: str, cpu: int, *, priority: int = 0, since: int = 0, **amounts: str) -> Waiter:
    """Somebody who waits for so much cpu."""
    claim = Claim(Resources.parse({"cpu": cpu, **amounts}))
    return Waiter(f"{name}-deployment", "apps/v1", "Deployment", name, claim, priority, f"2026-01-01T00:00:{since:02}Z")


def binding(
    name: str,
    cpu: int,
    *,
    version: int = 10,
    clusters: Mapping[str, int] | None = None,
    template_version: int = 1,
    **fields: Any,  # noqa: ANN401 - the binding's own
) -> Binding:
    """A binding that asks for so much cpu, one for each replica."""
    shares = tuple(ClusterShare(cluster, replicas) for cluster, replicas in (clusters or {}).items())
    return Binding(
        key=ObjectKey(NAMESPACE, f"{name}-deployment"),
        uid=f"uid-{name}",
        version=version,
        template=TemplateRef("apps/v1", "Deployment", NAMESPACE, name, f"template-{name}", template_version),
        demand=Resources.parse({"cpu": cpu}),
        assigned=Resources.parse({"cpu": sum(share.replicas for share in shares)}),
        request=Resources.parse({"cpu": 1}),
        replicas=cpu,
        clusters=shares,
        **{"stamp": Stamp(resource="deployments"), "created": "2026-01-01T00:00:00Z", **fields},
    )


def mirror(*bindings: Binding) -> tuple[Observation, BindingMirror]:
    """A view of these."""
    observation = Observation()
    found = BindingMirror(observation)
    found.replace(bindings, max((one.version for one in bindings), default=1))
    return observation, found


class QuotaShelf(Store):
    """Quotas under versions, and nothing else."""

    def __init__(self, *accounts: Account) -> None:
        self.accounts = {account.name: account for account in accounts}
        self.writes = 0
        self.conflicts = 0  # how many writes are yet to be refused
        self.on_stored: list[Any] = []

    def put(self, account: Account) -> Account:
        version = max((int(one.version) for one in self.accounts.values()), default=0) + 1
        stored = replace(account, version=str(version))
        self.accounts[account.name] = stored
        for tell in self.on_stored:
            tell(stored)
        return stored

    async def write(self, account: Account) -> Account:
        if self.conflicts or self.accounts[account.name].version != account.version:
            self.conflicts = max(0, self.conflicts - 1)
            raise ConflictError
        self.writes += 1
        return self.put(account)

    async def read(self, namespace: str, name: str) -> Account | None:
        return self.accounts.get(name)

    async def open(self, subject: Subject) -> Account:
        raise NotImplementedError

    async def limits_stand(self, account: Account, names: Collection[str]) -> bool:
        raise NotImplementedError

    async def is_stored(self, account: Account) -> bool:
        raise NotImplementedError

    async def look(self, namespace: str, binding: str) -> LiveLook:
        raise NotImplementedError

    async def version(self) -> int:
        raise NotImplementedError

    async def versions(self, namespace: str, among: Collection[str] | None = None) -> dict[str, int]:
        raise NotImplementedError

    async def replicas(self) -> dict[str, Legacy | None]:
        raise NotImplementedError

    def listed(self, name: str = "q") -> list[str]:
        return [one.name for one in waiting.read(karmadaquota.quota(self.accounts[name]).status)]
