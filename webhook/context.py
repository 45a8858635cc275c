"""What a validator is given when it starts: eyes on the federation, with the webhook's own rights, and its settings."""

from collections.abc import Mapping
from typing import Final

from federation_quota.kube import codec, error
from federation_quota.kube.client import Client
from federation_quota.kube.resource import Resource

_READ_SECONDS: Final = 2.0


class FederationContext:
    """What a validator is given when it starts (`validators.Context`)."""

    def __init__(self, client: Client, namespace: str, settings: Mapping[str, str]) -> None:
        self._client = client
        self.namespace = namespace
        self.settings = settings

    async def read(
        self, api_version: str, resource: str, name: str, namespace: str | None = None
    ) -> dict[str, object] | None:
        """One object of the federation API server as it is stored now, None where there is none."""
        group, _, version = api_version.rpartition("/")
        try:
            wanted = Resource(group, version, resource, "", namespaced=namespace is not None)
            body = await self._client.get(wanted, name, namespace, timeout_seconds=_READ_SECONDS)
        except error.NotFoundError:
            return None
        return codec.decode_object(body)
