"""Taking the system away again: `federation-quota-controllers --uninstall`, run by the chart before it deletes pods.

Afterwards nothing on the federation API server waits for us: no hook asks a webhook that is gone, nothing is held, and
who was refused is tried again. What people wrote stays: quotas, and the definition of their kind.

The replicas still run while this goes on, and a leader would put back what it misses. So this leads first: the Lease is
taken from whoever holds it, whose work must have stopped before anything is removed, and it is left with a term long
enough for the pods to end in. Pods that do not end install the system again when that is over.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import structlog

from controllers import releasing
from controllers.alarm import Alarm, Outcome
from controllers.authority import SECRETS
from controllers.installation import CONFIGURATIONS, FLOW_SCHEMAS, PRIORITY_LEVELS
from federation_quota import hooks, karmadaquota, names, waiting
from federation_quota.binding import Binding, ObjectKey
from federation_quota.kube import codec, config, error, lease
from federation_quota.kube.client import Client
from federation_quota.kube.discovery import Discovery
from federation_quota.kube.elector import Timing
from federation_quota.kube.lease import LEASES
from federation_quota.kube.quotas import KARMADA_QUOTAS, RESOURCE_BINDINGS, decode_quota
from federation_quota.kube.resource import Resource
from federation_quota.settings import Settings
from federation_quota.stamp import HELD_LABEL, TRUE

T = TypeVar("T")
R = TypeVar("R")

log = structlog.get_logger()

HOLDER: Final = "uninstall"
# For Helm to end the pods in. A system that is installed again waits for its leader that long.
TERM_SECONDS: Final = 60
# API servers learn within a second or two that a hook is gone; until then a release may still be refused.
RELEASE_WITHIN_SECONDS: Final = 60.0
_AT_ONCE: Final = 8


class RemovalError(Exception):
    """Something is left that would stand in the federation's way."""


async def uninstall(settings: Settings) -> None:
    """Remove the system from its API servers; RemovalError or KubeError where that did not go all the way."""
    async with contextlib.AsyncExitStack() as stack:
        federation = await stack.enter_async_context(Client(await config.load(kubeconfig=settings.kubeconfig)))
        host = federation
        if settings.host_kubeconfig:
            host = await stack.enter_async_context(Client(await config.load(kubeconfig=settings.host_kubeconfig)))
        await Removal(federation, host, settings.namespace).run()


class Removal:
    """One removal, which can be repeated."""

    def __init__(self, federation: Client, host: Client, namespace: str) -> None:
        self._federation = federation
        self._host = host
        self._namespace = namespace

    async def run(self) -> None:
        """Hooks first, while there is still somebody to answer them; then what they left behind."""
        await self._lead()
        for configuration in hooks.configurations("", b""):
            await _delete(self._federation, CONFIGURATIONS[configuration["kind"]], configuration["metadata"]["name"])
        log.info("removal.hooks_removed")
        await self._release()
        await self._wake()
        await _delete(self._federation, FLOW_SCHEMAS, names.SYSTEM)
        await _delete(self._federation, PRIORITY_LEVELS, names.SYSTEM)
        await _delete(self._host, SECRETS, names.AUTHORITY_SECRET, self._namespace)
        log.info("removal.done")

    async def _lead(self) -> None:
        """Take the Lease, and wait until nobody can be at work under it."""
        now = lease.moment()
        spec: dict[str, Any] = {"holderIdentity": HOLDER, "leaseDurationSeconds": TERM_SECONDS, "renewTime": now}
        body = lease.manifest(names.LEADER_LEASE, {**spec, "acquireTime": now})
        try:
            found = lease.decode(await self._federation.get(LEASES, names.LEADER_LEASE, self._namespace))
        except error.NotFoundError:
            await self._federation.create(LEASES, body, self._namespace)
            return
        body["spec"]["leaseTransitions"] = (found.spec.transitions or 0) + 1
        # Whatever its version: who renews under another one finds that it has lost.
        await self._federation.patch(LEASES, names.LEADER_LEASE, body, self._namespace, is_idempotent=True)
        log.info("removal.leading", instead_of=found.spec.holder)
        if found.spec.holder not in (None, "", HOLDER):
            await asyncio.sleep(found.spec.duration_seconds or Timing().lease_seconds)

    async def _release(self) -> None:
        """Let everything go that is held."""
        deadline = asyncio.get_running_loop().time() + RELEASE_WITHIN_SECONDS
        while True:
            selector = names.selector({HELD_LABEL: TRUE})
            held = [one async for one in self._bindings(selector) if one.is_held and not one.is_deleting]
            if not held:
                return
            outcomes = await _each(held, lambda one: releasing.release(self._federation, one))
            log.info("removal.released", bindings=sum(one is Outcome.DONE for one in outcomes), of=len(held))
            if asyncio.get_running_loop().time() > deadline:
                raise RemovalError(
                    f"{len(held)} bindings are still held, {held[0].key} among them: see why with "
                    f"`kubectl get resourcebindings -A -l {HELD_LABEL}={TRUE}`, and run this again"
                )
            await asyncio.sleep(0.5)

    async def _wake(self) -> None:
        """Have Karmada try again what was refused: later it would do so by itself, but much later."""
        now = datetime.now(UTC)
        alarm = Alarm(self._federation, Discovery(self._federation))
        stuck = {
            one.key: one
            async for one in self._bindings()
            if one.scheduled_reason == waiting.QUOTA_EXCEEDED and not one.clusters and not one.is_deleting
        }
        await _each(stuck.values(), lambda one: alarm.ring_scheduler(one, now, ""))
        waiters = [
            (account.namespace, waiter)
            async for account in _listed(self._federation, KARMADA_QUOTAS, decode_quota)
            for waiter in waiting.read(karmadaquota.quota(account).status)
            if ObjectKey(account.namespace, waiter.binding) not in stuck
        ]
        # What validators refused, as notes on bindings that run: those that were held are released by now.
        waiters += [
            (one.key.namespace, waiting.pending(one))
            async for one in self._bindings()
            if one.pending is not None and one.key not in stuck and not one.is_deleting
        ]
        await _each(waiters, lambda one: alarm.ring_template(*one, now))
        log.info("removal.woken", bindings=len(stuck), templates=len(waiters))

    def _bindings(self, label_selector: str | None = None) -> AsyncIterator[Binding]:
        return _listed(self._federation, RESOURCE_BINDINGS, codec.decode_stored_binding, label_selector)


async def _listed(
    client: Client, resource: Resource, decode: Callable[[bytes], T], label_selector: str | None = None
) -> AsyncIterator[T]:
    """What there is of a kind; nothing where there is no such kind."""
    pages = client.list(resource, label_selector=label_selector)
    async with contextlib.aclosing(pages):
        with contextlib.suppress(error.NotFoundError):
            async for page in pages:
                for raw in page.items:
                    yield decode(bytes(raw))


async def _each(items: Iterable[T], act: Callable[[T], Awaitable[R]]) -> list[R]:
    """Act on all of them, a few at a time."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(item: T) -> R:
        async with limit:
            return await act(item)

    return await asyncio.gather(*map(one, items))


async def _delete(client: Client, resource: Resource, name: str, namespace: str | None = None) -> None:
    with contextlib.suppress(error.NotFoundError):
        await client.delete(resource, name, namespace)
