"""What the API server is told to trust when it calls the hooks: published once there is somebody to answer them.

Shared by the system's own authority and by one that is given in a file (an administrator's, or cert-manager's).
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from cryptography import x509

from federation_quota import hooks
from federation_quota.pki import publishing


@dataclass(frozen=True, slots=True)
class Publication:
    """The hooks' trust, to be looked at and changed."""

    publish: Callable[[bytes], Awaitable[None]]  # have every hook trust exactly that
    read: Callable[[], Awaitable[list[dict[str, object]]]]  # the configurations as they stand
    has_webhook: Callable[[], Awaitable[bool]]  # whether there is anybody to answer a hook

    async def trusted(self) -> Collection[frozenset[x509.Certificate]]:
        """What each hook trusts; nothing where no hook was ever installed."""
        configurations = await self.read()
        return publishing.trust_of(configurations, hooks.expected()).values() if configurations else ()
