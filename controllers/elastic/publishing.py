"""Writes how quotas and trees stand, and with that what leaves may use.

A leaf's status is written whole under its version, beside what the webhook keeps in it; that of parents and trees is
the controllers' alone. What nobody is judged by takes turns (`pace`); what is published does not wait.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from controllers.elastic.watching import Watching
from federation_quota import condition
from federation_quota.accounting import store
from federation_quota.accounting.settler import Settler
from federation_quota.accounting.store import Store
from federation_quota.condition import Finding
from federation_quota.elastic import leaf as leaves
from federation_quota.elastic import running, unit
from federation_quota.elastic import status as statuses
from federation_quota.elastic.plan import Plan
from federation_quota.elastic.quota import COMPOSITE
from federation_quota.elastic.situation import Leaf, Situation
from federation_quota.elastic.status import Figures
from federation_quota.elastic.unit import Steps
from federation_quota.kube import codec, error
from federation_quota.kube.client import Client
from federation_quota.kube.quotas import COMPOSITE_ELASTIC_QUOTAS, QUOTA_TREES
from federation_quota.kube.resource import Resource
from federation_quota.ledger.account import Account
from federation_quota.ledger.judging import Books
from federation_quota.ledger.settling import Expiry
from federation_quota.pace import Pace

log = structlog.get_logger()

PACE_SECONDS: Final = 1.0
MOST_WRITES_PER_SECOND: Final = 10.0
MOST_WRITES_AT_ONCE: Final = 20.0
LONGEST_WAIT_SECONDS: Final = 5.0
MOST_AT_ONCE: Final = 16
TIMEOUT_SECONDS: Final = 3.0
CONFLICT_SECONDS: Final = 0.02  # somebody else wrote: the watch brings it
FAILED_SECONDS: Final = 1.0


class Publishing:
    """Writes statuses."""

    def __init__(self, watching: Watching, accounts: Store) -> None:
        self._watching = watching
        self._store = accounts
        self._expiry = Expiry()
        self._settler = Settler(watching.observation, accounts, self._expiry)
        self._limit = asyncio.Semaphore(MOST_AT_ONCE)
        self._pace = Pace(
            seconds=PACE_SECONDS,
            per_second=MOST_WRITES_PER_SECOND,
            burst=MOST_WRITES_AT_ONCE,
            longest_seconds=LONGEST_WAIT_SECONDS,
        )
        self._told: dict[str, tuple[object, ...]] = {}  # by leaf, what was last looked through and needed no write
        self._open: dict[str, set[str]] = {}  # by tree, the quotas whose status may not say how they stand
        self._trees: dict[str, Mapping[str, Any]] = {}  # as last written or found

    def note(self, seen: Situation, found: Plan) -> None:
        """Something is new of these quotas, to be reported whenever that is done."""
        self._open.setdefault(seen.tree.name, set()).update(found.news)

    async def publish(self, seen: Situation, found: Plan) -> float:
        """Write the runtimes that are to be published now; when to look again."""
        outcomes = await asyncio.gather(
            *(self._publish(name, amounts, seen, found) for name, amounts in found.published.items())
        )
        return max(outcomes, default=0.0)

    async def _publish(self, name: str, amounts: Steps, seen: Situation, found: Plan) -> float:
        account = self._watching.accounts[name]
        async with self._limit:
            outcome = await self._write(self._compiled(account, seen.leaves[name], found, amounts))
        if outcome == FAILED_SECONDS:
            self._watching.doubt(account, amounts, asyncio.get_running_loop().time())
        elif not outcome:
            log.info("tree.published", quota=name, runtime=unit.to_json(amounts))
        return outcome

    async def report(self, client: Client, seen: Situation, found: Plan) -> float | None:
        """Bring the statuses of leaves and parents in line; when to look again, if by time alone."""
        waits = self._open.setdefault(seen.tree.name, set())
        waits &= found.standings.keys()
        names = sorted(waits)
        looks = await asyncio.gather(*(self._report_one(client, name, seen, found) for name in names))
        waits -= {name for name, wait in zip(names, looks, strict=True) if wait is None}
        return min((wait for wait in looks if wait is not None), default=None)

    async def _report_one(self, client: Client, name: str, seen: Situation, found: Plan) -> float | None:
        if seen.tree.nodes[name].is_parent:
            return await self._report_parent(client, name, found)
        # Of a leaf that is not there yet, there will be news.
        return await self._report(name, seen.leaves[name], found) if name in seen.leaves else None

    async def _report(self, name: str, leaf: Leaf, found: Plan) -> float | None:
        account = self._watching.accounts.get(name)
        if account is None:
            self._told.pop(name, None)
            return None
        known = (account.version, leaf.used, leaf.held, leaf.running, found.asks[name], found.standings[name])
        if self._told.get(name) == known and not account.reservations and not account.advances:
            return None
        now = asyncio.get_running_loop().time()
        if wait := self._pace.wait_seconds(name, now):
            return wait
        try:
            settled = await self._settler.settle(account)
        except (store.ConflictError, store.UnreachableError):
            return FAILED_SECONDS
        wanted = self._compiled(settled, leaf, found, leaves.published(account))
        used = Books(wanted, self._watching.observation.view).used
        if leaves.status(wanted, used) == dict(leaves.kept(account).status):
            self._pace.passed(name)
            self._told[name] = known
            return self._expiry.seconds / 4 if account.reservations or account.advances else None
        self._pace.done(name, now)
        async with self._limit:
            return await self._write(wanted) or None

    def _compiled(self, account: Account, leaf: Leaf, found: Plan, published: Steps) -> Account:
        """The account with how it stands, published so."""
        used = Books(account, self._watching.observation.view).used
        runs = None if leaf.running is None else unit.asked(running.total(leaf.running))
        figures = Figures(unit.asked(used), runs, leaf.running, held=leaf.held, asks=found.asks[account.name])
        kept = leaves.kept(account)
        fields = statuses.write(found.standings[account.name], published, figures, kept.generation)
        finding = statuses.within_runtime(figures.used, published)
        fields["conditions"] = _conditions(kept.status, [finding], kept.generation)
        return leaves.stored_as(account, {**kept.status, **fields})

    async def _write(self, account: Account) -> float:
        try:
            self._watching.written(await self._store.write(account))
        except store.ConflictError:
            return CONFLICT_SECONDS
        except store.UnreachableError as problem:
            return _not_written(account.name, problem)
        return 0.0

    async def _report_parent(self, client: Client, name: str, found: Plan) -> float | None:
        account = self._watching.accounts.get(name)
        if account is None:
            return None
        below = found.sums.below(name)
        runs = None if below.unseen else unit.asked(below.running)
        figures = Figures(unit.asked(below.used), runs, held=below.held)
        standing, kept = found.standings[name], leaves.kept(account)
        wanted = {**kept.status, **statuses.write(standing, standing.runtime, figures, kept.generation)}
        if wanted == dict(kept.status):
            return None
        now = asyncio.get_running_loop().time()
        if wait := self._pace.wait_seconds(name, now):
            return wait
        self._pace.done(name, now)
        try:
            body = await _replace(client, COMPOSITE_ELASTIC_QUOTAS, name, account.uid, account.version, wanted)
        except (error.ConflictError, error.NotFoundError):
            return CONFLICT_SECONDS
        except error.KubeError as problem:
            return _not_written(name, problem)
        self._watching.written(leaves.read({**codec.decode_object(body), "kind": COMPOSITE}))
        return None

    async def report_tree(
        self, client: Client, name: str, fields: Mapping[str, Any], findings: Sequence[Finding]
    ) -> float | None:
        """Bring the status of a QuotaTree in line; when to look again, if by time alone."""
        said = {**fields, "findings": findings}
        if self._trees.get(name) == said:
            return None
        key = f"tree {name}"
        now = asyncio.get_running_loop().time()
        if wait := self._pace.wait_seconds(key, now):
            return wait
        self._pace.done(key, now)
        try:
            stored = codec.decode_object(await client.get(QUOTA_TREES, name, timeout_seconds=TIMEOUT_SECONDS))
            metadata, status = stored["metadata"], stored.get("status") or {}
            wanted = {**fields, "conditions": _conditions(status, findings, fields["observedGeneration"])}
            if status != wanted:
                await _replace(client, QUOTA_TREES, name, metadata["uid"], metadata["resourceVersion"], wanted)
        except error.NotFoundError:
            return None
        except error.KubeError as problem:
            return _not_written(key, problem)
        self._trees[name] = said
        return None


def _not_written(name: str, problem: Exception) -> float:
    log.warning("tree.not_written", quota=name, problem=str(problem))
    return FAILED_SECONDS


def _conditions(status: Mapping[str, Any], findings: Sequence[Finding], generation: int) -> list[dict[str, Any]]:
    return condition.merge(
        status.get("conditions") or (),
        findings,
        of=[one.type for one in findings],
        now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        generation=generation,
    )


async def _replace(
    client: Client, resource: Resource, name: str, uid: str, version: str, status: Mapping[str, Any]
) -> bytes:
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "uid": uid, "resourceVersion": version},
        "status": status,
    }
    return await client.replace(resource, name, body, subresource="status", timeout_seconds=TIMEOUT_SECONDS)
