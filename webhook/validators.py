"""Validators and the turns of tenants, wired together for one replica: nothing at all where no validator is on."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from federation_quota.accounting.observation import Observation
from federation_quota.accounting.store import Store
from federation_quota.kube.client import Client
from federation_quota.kube.forest import Namespace, Table
from federation_quota.kube.presence import Presence
from federation_quota.kube.titles import LeaseTitles, TitleSink
from federation_quota.tenants import tenant as tenants
from federation_quota.validators import Validator
from webhook import calls
from webhook.context import FederationContext
from webhook.tenancy import Tenancy
from webhook.validation import Labels, Validation, is_enabled

log = structlog.get_logger()


class Validators:
    """The validators that are on, and what they need around them."""

    def __init__(
        self,
        validators: Sequence[Validator],
        federation: Client,
        namespace: str,
        *,
        presence: Presence,
        store: Store,
        observation: Observation,
        labels: Callable[[str], Labels | None],
        look: Callable[[str], Awaitable[Labels]],
        namespaces: Table[Namespace],
        limit_seconds: float,
        expiry_seconds: float,
        is_warning_only: bool,
    ) -> None:
        self._validators = validators
        self._federation = federation
        self._namespace = namespace
        titles = LeaseTitles(federation, namespace)
        self._tenancy = Tenancy(
            store=titles,
            me=lambda: presence.incarnation,
            is_present=presence.is_current,
            roll=store.replicas,
            observation=observation,
            look=store.look,
            expiry_seconds=expiry_seconds,
        )
        self._reflector = titles.reflector(TitleSink(self._tenancy.stored, self._tenancy.deleted))
        self.validation: Validation | None = None
        if validators:
            self.validation = Validation(
                validators,
                calls.Calls(limit_seconds),
                self._tenancy,
                observation.view,
                labels,
                look,
                lambda tenant: tenants.namespaces(
                    tenant, ((name, one.value.labels) for name, one in namespaces.items.items())
                ),
                is_warning_only,
            )

    async def start(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Start them, one after the other; ValidatorError where one does not."""
        for one in self._validators:
            await calls.start(one, FederationContext(self._federation, self._namespace, settings.get(one.name, {})))
            log.info("validator.started", validator=one.name, enabled=is_enabled(one))

    def runs(self) -> list[Coroutine[Any, Any, Any]]:
        """What is to run for as long as the replica does."""
        return [self._reflector.run(), self._tenancy.run()] if self._validators else []

    async def stop(self, timeout_seconds: float) -> None:
        """Give up every tenant, after the last answer."""
        if self._validators:
            await self._tenancy.close(timeout_seconds)

    def rewind(self) -> None:
        """The store was restored from the past."""
        self._tenancy.rewind()

    def describe(self) -> dict[str, object]:
        """How it stands, for people."""
        return {"validators": [one.name for one in self._validators], **self._tenancy.describe()}
