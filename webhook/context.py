"""What a validator is given when it starts: eyes on the federation, with the webhook's own rights, and its settings.

Validators run on event loops of their own (`call`), and the client belongs to the webhook's: there everything is read,
while who asked for it waits where it is.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from federation_quota.kube import codec, error
from federation_quota.kube.client import Client
from federation_quota.kube.resource import Resource

_READ_SECONDS: Final = 2.0


class FederationContext:
    """What a validator is given when it starts (`validators.Context`). Made on the client's loop, used on any."""

    def __init__(self, client: Client, namespace: str, settings: Mapping[str, str]) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self.namespace = namespace
        self.settings = settings

    async def read(
        self, api_version: str, resource: str, name: str, namespace: str | None = None
    ) -> dict[str, object] | None:
        """One object of the federation API server as it is stored now, None where there is none."""
        group, _, version = api_version.rpartition("/")
        wanted = Resource(group, version, resource, "", namespaced=namespace is not None)
        reading = self._client.get(wanted, name, namespace, timeout_seconds=_READ_SECONDS)
        try:
            # Who stops waiting, because it is cut off, stops the reading as well.
            body = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reading, self._loop))
        except error.NotFoundError:
            return None
        return codec.decode_object(body)
