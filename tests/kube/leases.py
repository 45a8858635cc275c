"""What is stored of a Lease, as it is stored."""

import json

from federation_quota.kube import lease
from federation_quota.kube.client import Client
from federation_quota.kube.lease import LEASES


async def renewed(client: Client, namespace: str, name: str, times: int = 1) -> None:
    """Return when the Lease has been written that often since this was called."""
    version = lease.decode(await client.get(LEASES, name, namespace)).version
    watch = client.watch(LEASES, namespace, version=version, field_selector=f"metadata.name={name}")
    async with watch as lines:
        async for line in lines:
            times -= json.loads(line)["type"] == "MODIFIED"
            if not times:
                return
    raise AssertionError(f"the watch of {name} ended")
