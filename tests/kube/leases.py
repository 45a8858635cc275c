"""What is stored of a Lease, as it is stored."""

import json

from federation_quota.kube import lease
from federation_quota.kube.client import Client
from federation_quota.kube.lease import LEASES


async def version_of(client: Client, namespace: str, name: str) -> int:
    """The version that it is stored with."""
    return lease.decode(await client.get(LEASES, name, namespace)).version


async def renewed(client: Client, namespace: str, name: str, times: int = 1, since: int = 0) -> None:
    """Return when the Lease has been written that often since that version, or since this was called."""
    version = since or await version_of(client, namespace, name)
    watch = client.watch(LEASES, namespace, version=version, field_selector=f"metadata.name={name}")
    async with watch as lines:
        async for line in lines:
            times -= json.loads(line)["type"] == "MODIFIED"
            if not times:
                return
    raise AssertionError(f"the watch of {name} ended")
