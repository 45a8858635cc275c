"""Who is there, as of a moment ago: asked often, and called seldom.

For whoever may be behind: who was gone by an earlier call is gone, and nobody comes back under the same name; who has
come since is not known yet. What must not be behind, such as a new account's activation, asks the store itself.
"""

import asyncio
from collections.abc import Collection

from federation_quota.accounting.store import Store


class Roll:
    """The replicas whose admissions may still be on their way."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._called_at = float("-inf")
        self._names: Collection[str] | None = None

    async def call(self) -> Collection[str] | None:
        """Their names; None where they are not known yet. UnreachableError passes through, to the one who called."""
        now = asyncio.get_running_loop().time()
        if now >= self._called_at + self._seconds:
            self._called_at = now  # who asks meanwhile is told what was so before
            self._names = (await self._store.replicas()).keys()
        return self._names
