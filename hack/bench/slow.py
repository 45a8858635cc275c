"""A validator that is slow about whoever floods, and asks for nothing else: for `make bench SET=tenants`.

Whether it is asked at all is said by a file, so that both sides are measured on one federation, in turns.
"""

import asyncio
from pathlib import Path

from federation_quota.validators import Context, Decision, Request, Tenant, allow


class Slow:
    """Takes its time for tenants whose namespaces are called so."""

    name = "slow"

    def start(self, context: Context) -> None:
        """Where the file is, and how slow to be."""
        self._switch = Path(context.settings["switch"])
        self._seconds = float(context.settings["seconds"])
        self._slow = context.settings["namespaces"]

    @property
    def enabled(self) -> bool:
        """Whether the file is there; before it has started, it wants to be asked."""
        return not hasattr(self, "_switch") or self._switch.exists()

    async def validate(self, request: Request, tenant: Tenant) -> Decision:
        """Yes, sooner or later."""
        if request.namespace.startswith(self._slow):
            await asyncio.sleep(self._seconds)
        return allow()
